"""Train the head that tells which relation of a graph a question asks for or denies, and report it on lines unseen.

    OMP_NUM_THREADS=2 python -m scripts.train_relation_head [--genes] [--out FOLDER]

The questions of ``scripts/training/tasks/graph_questions.tsv`` were written for this: of ``{one|other}`` one is taken,
at most 60 of a line, each once as it is and once misspelt; the names stand there by their kinds. A third column says
what a question denies. Figures are from five folds, the questions of a line in one of them. ``--genes`` trains the head
of what is asked of a gene or a variant, from ``gene_questions.tsv`` beside it: it reads n-grams alone, so that it needs
no encoder, and reads no denial.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file
from scipy.sparse import csr_matrix, hstack
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression

from models.encoders.base import Encoder, EncoderOptions
from models.encoders.message_head import CONFIG, WEIGHTS, hashed_grams
from models.encoders.registry import create_encoder
from models.encoders.relation_head import GENE_HEAD_DIR, NOTHING, OTHER, RELATION_HEAD_DIR
from scripts.train_emergency_head import misspelt

QUESTIONS: Final = Path(__file__).parent / "training" / "tasks" / "graph_questions.tsv"
GENE_QUESTIONS: Final = QUESTIONS.with_name("gene_questions.tsv")
BUCKETS: Final = 16_384
GENE_BUCKETS: Final = 4096
GRAM_WEIGHT: Final = 2.0
# From this probability on, a relation is taken as asked for.
SURE: Final = 0.5
# The same for questions of genes; below it, only those whose words the training questions all have are read.
GENE_SURE: Final = 0.75
FOLDS: Final = 5
_OF_A_LINE: Final = 60
_CHOICE: Final = re.compile(r"\{([^}]*)\}")
_WORD: Final = re.compile(r"[^\W_][\w'’-]*")


class Asked(NamedTuple):
    """Hold a question with what it asks for, the number of its line, and what it denies."""

    relation: str
    text: str
    line: int
    denial: str = NOTHING


def written(template: str) -> list[str]:
    """Return the questions of a line, or some of them where they are many."""
    parts = [part.split("|") if place % 2 else [part] for place, part in enumerate(_CHOICE.split(template))]
    if math.prod(map(len, parts)) <= _OF_A_LINE:
        made = {"".join(chosen) for chosen in itertools.product(*parts)}
    else:
        draw = random.Random(template)
        made = {"".join(map(draw.choice, parts)) for _ in range(_OF_A_LINE)}
    return sorted(" ".join(one.split()) for one in made)


def read_questions(path: Path = QUESTIONS) -> list[Asked]:
    """Return every question twice, the second time misspelt."""
    lines = [line.split("\t") for line in path.read_text("utf-8").splitlines()[1:]]
    return [
        Asked(relation, form, number, *denial)
        for number, (relation, template, *denial) in enumerate(lines)
        for text in written(template)
        for form in (text, misspelt(text, random.Random(text)))
    ]


def fitted(inputs: Any, questions: list[Asked], rows: NDArray[np.bool_], of: str = "relation") -> LogisticRegression:
    """Fit on some rows, the relation or the denial; a line with many questions counts as the root of their number."""
    sizes = Counter(one.line for one in questions)
    weights = np.array([1 / math.sqrt(sizes[one.line]) for one in questions])
    classes = np.array([getattr(one, of) for one in questions])
    model = LogisticRegression(C=10.0, max_iter=200, tol=1e-3, class_weight="balanced")
    return model.fit(inputs[rows], classes[rows], sample_weight=weights[rows])


def report(inputs: Any, questions: list[Asked], of: str = "relation") -> str:
    """Return the share that is read rightly in folds without the line, by class."""
    fold, classes = np.array([one.line % FOLDS for one in questions]), np.array([getattr(one, of) for one in questions])
    read = classes.copy()
    for number in range(FOLDS):
        read[fold == number] = fitted(inputs, questions, fold != number, of).predict(inputs[fold == number])
    shares = [f"{name} {(read == name)[classes == name].mean():.2f}" for name in sorted(set(classes))]
    return f"{(read == classes).mean():.3f} of {len(questions)}: {', '.join(shares)}"


def save(
    folder: Path,
    models: Mapping[str, LogisticRegression],
    idf: NDArray[np.float64],
    questions: list[Asked],
    sure: float = SURE,
) -> None:
    """Write the head; its words are those of at least two lines, as "inhaled" in one of them says what is asked for."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {of: np.vstack([model.coef_.T, model.intercept_]).astype(np.float16) for of, model in models.items()}
    save_file({**tensors, "idf": idf.astype(np.float16)}, folder / WEIGHTS)
    lines = {(one.relation, one.line, word) for one in questions[::2] for word in _WORD.findall(one.text.casefold())}
    told_in = Counter((relation, word) for relation, _, word in lines)
    words = {name: sorted(w for asked, w in told_in if asked == name != OTHER and told_in[asked, w] > 1)
             for name in models["relation"].classes_}  # fmt: skip
    denials = [*models["denial"].classes_] if "denial" in models else [NOTHING]
    config = {"words": words, "denials": denials, "gram_weight": GRAM_WEIGHT, "sure": sure}
    (folder / CONFIG).write_text(json.dumps(config, ensure_ascii=False) + "\n", "utf-8")


def features(texts: list[str], encoder: Encoder | None, buckets: int = BUCKETS) -> tuple[Any, NDArray[np.float64]]:
    """Return the inputs [texts, dim + buckets] and what an n-gram of each bucket counts."""
    alike = np.ones(buckets, np.float32)
    counts = csr_matrix(np.stack([hashed_grams(text, alike) for text in texts]))
    weighting = TfidfTransformer().fit(counts)
    vectors = csr_matrix(encoder.encode_queries(texts) if encoder else np.zeros((len(texts), 0), np.float32))
    return hstack([vectors, GRAM_WEIGHT * weighting.transform(counts)], format="csr"), weighting.idf_


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--genes", action="store_true", help="the head of what is asked of a gene or a variant")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    questions = read_questions(GENE_QUESTIONS if arguments.genes else QUESTIONS)
    encoder = None if arguments.genes else create_encoder(options=EncoderOptions(device="cpu", dtype="float32"))
    buckets = GENE_BUCKETS if arguments.genes else BUCKETS
    inputs, idf = features([one.text for one in questions], encoder, buckets)
    every = np.ones(len(questions), np.bool_)
    kinds = ("relation",) if arguments.genes else ("relation", "denial")
    models = {of: fitted(inputs, questions, every, of) for of in kinds}
    out = arguments.out or (GENE_HEAD_DIR if arguments.genes else RELATION_HEAD_DIR)
    save(out, models, idf, questions, GENE_SURE if arguments.genes else SURE)
    for of in models:
        print(f"{of}: {report(inputs, questions, of)}")


if __name__ == "__main__":
    main()
