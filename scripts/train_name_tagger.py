"""Train the tagger that finds a gene or a disease named in words, and report it on names and lines unseen.

    python -m scripts.train_name_tagger [--out FOLDER]

In the questions of ``scripts/training/tasks/gene_questions.tsv`` the name that stands for all is replaced by names of
genes (the shipped table of HGNC, CC0) and of diseases (the shipped terminology), as they are and in small letters, and
by the pronouns and words that stand where a name could. Figures are from five folds: the line was not
trained on, nor were most of the names.
"""

from __future__ import annotations

import argparse
import csv
import json
import lzma
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from models.encoders.message_head import CONFIG, WEIGHTS
from models.encoders.name_tagger import DISEASE, GENE, NAME_TAGGER_DIR, NO_NAME, NameTagger, coded, words_of
from models.encoders.relation_head import OTHER
from scripts.train_relation_head import GENE_QUESTIONS, read_questions

ROOT: Final = Path(__file__).parents[1]
GENES: Final = ROOT / "retrieval" / "gateway" / "store" / "tables" / "human_genes.tsv.xz"
TERMS: Final = ROOT / "retrieval" / "terminology" / "names.tsv.xz"
KINDS: Final = (DISEASE, GENE, NO_NAME)
BUCKETS: Final = 16_384
FOLDS: Final = 5
# With the lines behind these, which ask in more ways, fewer names were found whole.
_LINES: Final = 416
_STAND_IN: Final = "TP53"
_LONGEST: Final = 6
_SHORT: Final = 2
# One of so many symbols is a name in small letters.
_OF_SYMBOLS: Final = 8
# So many names are spelt backwards: where it stands tells that an unknown word is a name.
_UNHEARD_OF: Final = 0.1
# What stands in a question where a name could.
_PRONOUNS: Final = (
    "this",
    "it",
    "that gene",
    "this gene",
    "my gene",
    "the same",
    "each",
    "any of them",
    "most",
    "some",
)
_SHARES: Final = {GENE: 0.5, DISEASE: 0.4, NO_NAME: 0.1}
_GENE_FORMS: Final = ("{}", "the {} gene", "the gene for {}", "the gene encoding {}", "{} gene")


class Tagged(NamedTuple):
    """Hold a question with the place of its name, the name's kind, and the fold of the line."""

    text: str
    start: int
    end: int
    kind: str
    fold: int


def gene_names() -> list[str]:
    """Return full names of genes, without what stands in brackets or behind a comma, and other names with a hyphen.

    Symbols are told by their form, but not in small letters.
    """
    with lzma.open(GENES, "rt", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t") if row["locus_type"] == "gene with protein product"]
    named = {re.split(r"[(,]", row["name"])[0].strip() for row in rows}
    named |= {alias for row in rows for alias in row["aliases"].split("|") if re.fullmatch(r"\w+-\w+", alias)}
    named |= {row["symbol"].lower() for row in rows[::_OF_SYMBOLS]}
    return sorted(name for name in named if 0 < len(words_of(name)) <= _LONGEST)


def disease_names() -> list[str]:
    """Return the names of diseases in words: what is an abbreviation has capitals or digits alone."""
    with lzma.open(TERMS, "rt", encoding="utf-8") as file:
        rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        named = {one for row in rows if row[3] == "Disease" for one in row[4].split("|")}
    in_words = (name for name in named if re.search("[a-z]{4}", name) and not re.search("[,(:;]", name))
    return sorted(name for name in in_words if 0 < len(words_of(name)) <= _LONGEST)


def tagged(draw: random.Random, times: int = 3) -> Iterator[Tagged]:
    """Yield the questions with names in them, each ``times`` times."""
    names = {GENE: gene_names(), DISEASE: disease_names(), NO_NAME: list(_PRONOUNS)}
    # People ask for those most.
    short = {kind: [name for name in of_kind if len(words_of(name)) <= _SHORT] for kind, of_kind in names.items()}
    for question in (one for one in read_questions(GENE_QUESTIONS) if one.line < _LINES):
        fold = question.line % FOLDS
        before, found, after = question.text.partition(_STAND_IN)
        for _ in range(times):
            if not found:
                yield Tagged(question.text, 0, 0, NO_NAME, fold)
                continue
            is_of_disease = question.relation == "genes_of"
            kind = DISEASE if is_of_disease else draw.choices([*_SHARES], [*_SHARES.values()])[0]
            name = draw.choice(draw.choice((names, short))[kind])
            name = name if draw.random() < 0.5 else name.lower()
            if draw.random() < _UNHEARD_OF:
                name = name[::-1].strip("()-' ") or name
            form = draw.choice(_GENE_FORMS) if kind == GENE and "gene" not in before and draw.random() < 0.5 else "{}"
            lead, _, tail = form.partition("{}")
            start = len(before + lead)
            yield Tagged(before + lead + name + tail + after, start, start + len(name), kind, fold)


def known_words() -> frozenset[str]:
    """Return the words by which the lines ask for something: those of two lines at least."""
    well_spelt = [one for one in read_questions(GENE_QUESTIONS)[::2] if one.relation != OTHER and one.line < _LINES]
    lines = {(one.line, one.text[a:b].casefold()) for one in well_spelt for a, b in words_of(one.text)}
    told_in = Counter(word for _, word in lines)
    return frozenset(word for word, num_lines in told_in.items() if num_lines > 1) - {_STAND_IN.casefold()}


def rows_of(questions: Sequence[Tagged], known: frozenset[str], names: frozenset[str]) -> tuple[Any, NDArray[np.str_]]:
    """Return the features [words, buckets] of all words, scaled as the tagger scales them, and their kinds.

    Words that are ``names``, and stand in a line beside its name ("the role of it in diabetes"), are left out.
    """
    columns: list[int] = []
    values: list[float] = []
    bounds, kinds = [0], []
    for one in questions:
        places = words_of(one.text)
        for (start, end), codes in zip(places, coded([one.text[a:b] for a, b in places], known), strict=True):
            kind = one.kind if one.start <= start and end <= one.end else NO_NAME
            if kind == NO_NAME and one.text[start:end].casefold() in names:
                continue
            columns += [code % BUCKETS for code in codes]
            values += [1 / np.sqrt(len(codes))] * len(codes)
            bounds.append(len(columns))
            kinds.append(kind)
    return csr_matrix((values, columns, bounds), shape=(len(kinds), BUCKETS)), np.array(kinds)


def trained(questions: Sequence[Tagged], names: frozenset[str]) -> NameTagger:
    """Fit the tagger; ``names`` in small letters are no words that ask."""
    known = known_words()
    inputs, kinds = rows_of(questions, known, names - known)
    model = LogisticRegression(C=10.0, max_iter=100, tol=1e-3).fit(inputs, kinds)
    places = [list(model.classes_).index(kind) for kind in KINDS]
    weights, bias = model.coef_.T[:, places], model.intercept_[places]
    return NameTagger(KINDS, known, weights.astype(np.float32), bias.astype(np.float32))


def report(questions: Sequence[Tagged], names: frozenset[str]) -> str:
    """Return the share of questions whose name is found whole and of its kind, by kind."""
    right: dict[str, list[bool]] = {kind: [] for kind in KINDS}
    for fold in range(FOLDS):
        tagger = trained([one for one in questions if one.fold != fold], names)
        for one in (one for one in questions if one.fold == fold):
            found = tagger.find(one.text)
            is_right = (
                found is None
                if one.kind == NO_NAME
                else found is not None
                and (
                    found.kind == one.kind
                    and one.text[found.start : found.end].strip(" ?.") == one.text[one.start : one.end]
                )
            )
            right[one.kind].append(is_right)
    return ", ".join(f"{kind or 'none'} {np.mean(found):.3f} of {len(found)}" for kind, found in right.items())


def save(folder: Path, tagger: NameTagger) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    # The library writes the memory as it lies.
    weights = np.ascontiguousarray(tagger.weights, np.float16)
    bias = np.ascontiguousarray(tagger.bias, np.float32)
    save_file({"weights": weights, "bias": bias}, folder / WEIGHTS)
    (folder / CONFIG).write_text(
        json.dumps({"kinds": tagger.kinds, "known": sorted(tagger.known)}, ensure_ascii=False) + "\n", "utf-8"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=NAME_TAGGER_DIR)
    arguments = parser.parse_args()
    questions = list(tagged(random.Random(7)))
    names = frozenset(name.casefold() for name in (*gene_names(), *disease_names()))
    save(arguments.out, trained(questions, names))
    print(report(questions, names))


if __name__ == "__main__":
    main()
