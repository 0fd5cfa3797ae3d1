"""Score the paper's recorded runs again: what they found, what they cite, and their texts in both directions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any, Final

from models.encoders.base import TokenEncoder
from scripts.evals.review.bertscore import BertScore, bert_score
from scripts.evals.review.data import Row
from scripts.evals.review.metrics import precision, recall
from server.methods.shared.support.labels import sentence_spans

# As in the released file; the paper's Table 3 has them as RS, SD and US.
REGIMES: Final[Mapping[str, str]] = {"restricted_search": "RS", "source_dropped": "SD", "unrestricted": "US"}
_NUMBER: Final = re.compile(r"\[(\d+(?:\s*[,–-]\s*\d+)*)\]")
# "Fokkens et al. [1]", "Lee and Cohen [2]", "Bien et al. (2018)", "conducted by Drossman [6]".
_AUTHOR: Final = r"((?=\w*[a-zß-ÿ])[A-ZÀ-Þ](?:[\w'’-]|(?<=[a-z]{2}) (?=[A-ZÀ-Þ][a-z]+ et al))+)"
_NAMED: Final = re.compile(
    rf"\b(?:{_AUTHOR}(?:,? et al\.?| (?:and|&) [A-ZÀ-Þ][\w'’-]+)|(?<=\bby ){_AUTHOR})"
    r"(?=,?\s*(?:\((?:19|20)\d\d\w?\)|\[(\d+)\]))"
)
_ABSTAINS: Final = re.compile(
    r"\b(?:no (?:relevant )?(?:articles?|evidence|literature|studies)\b.{0,40}\b(?:found|provided|available))", re.I
)
_MARK: Final = re.compile(r"\s*\[\d+(?:\s*[,–-]\s*\d+)*\]")


@dataclass(frozen=True, slots=True)
class ForeignCitation:
    """Hold an author who is named for an article that he or she did not write."""

    name: str
    pmid: str


@dataclass(frozen=True, slots=True)
class CitationFaults:
    """Hold what is wrong with the citations of one text.

    ``from_nothing``: it answers although nothing was kept as evidence. ``numbers``: those beyond the evidence.
    ``foreign``: authors named for an article that others wrote, or with a year alone and of none of the articles (PMID
    ""). ``checked`` and ``unchecked`` count the names that could be looked up, and those whose article has no item.
    ``num_sentences`` and ``num_cited``: sentences in all, and those with a mark.
    """

    from_nothing: bool
    numbers: tuple[int, ...]
    foreign: tuple[ForeignCitation, ...] = ()
    checked: int = 0
    unchecked: int = 0
    num_sentences: int = 0
    num_cited: int = 0

    @property
    def is_wrong(self) -> bool:
        return self.from_nothing or bool(self.numbers or self.foreign)


def citation_faults(text: str, relevant: Sequence[str], items: Mapping[str, Mapping[str, Any]]) -> CitationFaults:
    """Check the citations of a text that may rest on ``relevant`` PMIDs; ``items`` are CSL items by PMID."""
    numbers = sorted({int(one) for found in _NUMBER.findall(text) for one in re.findall(r"\d+", found)})
    foreign: list[ForeignCitation] = []
    checked = unchecked = 0
    for found in _NAMED.finditer(text):
        name, pmids = found[1] or found[2], _meant(found[3], relevant)
        if not pmids or any(pmid not in items for pmid in pmids):
            unchecked += bool(relevant)
            continue
        checked += 1
        if not any(_wrote(name, items[pmid]) for pmid in pmids):
            foreign.append(ForeignCitation(name, pmids[0] if found[3] else ""))
    sentences = [" ".join(text[span.start : span.end].split()) for span in sentence_spans(text)]
    return CitationFaults(
        from_nothing=not relevant and bool(text.strip()) and not _ABSTAINS.search(text),
        numbers=tuple(number for number in numbers if not 1 <= number <= len(relevant)),
        foreign=tuple(dict.fromkeys(foreign)),
        checked=checked,
        unchecked=unchecked,
        num_sentences=len(sentences),
        num_cited=sum(_MARK.search(one) is not None for one in sentences),
    )


def _meant(number: str | None, relevant: Sequence[str]) -> Sequence[str]:
    """Return the article of a number, or all where only a year tells which is meant."""
    if number is None:
        return relevant
    return [relevant[int(number) - 1]] if 1 <= int(number) <= len(relevant) else []


def _wrote(name: str, item: Mapping[str, Any]) -> bool:
    families = {author.get("family", "").casefold() for author in item.get("author", ())}
    return name.casefold().replace("’", "'") in families


def retrieval(rows: Iterable[Row], references: Mapping[str, Sequence[str]]) -> dict[str, dict[str, float]]:
    """Return precision and recall of each regime's relevant articles against the review's references.

    ``candidates`` is the recall of all candidates, relevant or not: what searching alone allows.
    """
    runs = list(rows)
    found = {}
    for name, short in REGIMES.items():
        pairs = [(run["regimes"][name], set(references[run["pmid"]])) for run in runs if references.get(run["pmid"])]
        found[short] = {
            "runs": float(len(pairs)),
            "precision": mean(precision(run["relevant"], gold) for run, gold in pairs),
            "recall": mean(recall(run["relevant"], gold) for run, gold in pairs),
            "candidates": mean(recall([*run["relevant"], *run["irrelevant"]], gold) for run, gold in pairs),
        }
    return found


def wrong_citations(rows: Iterable[Row], items: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return, for each regime, how often which fault is found, and the share of sentences that cite anything."""
    runs = list(rows)
    found = {}
    for name, short in REGIMES.items():
        faults = [
            citation_faults(run["regimes"][name]["output"], run["regimes"][name]["relevant"], items) for run in runs
        ]
        sentences = sum(one.num_sentences for one in faults)
        found[short] = {
            "runs": str(len(faults)),
            "from nothing": str(sum(one.from_nothing for one in faults)),
            "numbers beyond the evidence": str(sum(bool(one.numbers) for one in faults)),
            "foreign authors": str(sum(len(one.foreign) for one in faults)),
            "of names looked up": str(sum(one.checked for one in faults)),
            "names without a record": str(sum(one.unchecked for one in faults)),
            "sentences with a source": f"{sum(one.num_cited for one in faults) / max(1, sentences):.3f}",
        }
    return found


def foreign_citations(
    rows: Iterable[Row], items: Mapping[str, Mapping[str, Any]]
) -> list[tuple[str, str, ForeignCitation]]:
    """Return the foreign citations of all runs as (PMID of the question's review, regime, citation)."""
    return [
        (str(run["pmid"]), short, one)
        for run in rows
        for name, short in REGIMES.items()
        for one in citation_faults(run["regimes"][name]["output"], run["regimes"][name]["relevant"], items).foreign
    ]


def text_scores(text: str, gold: str, *, paper_compat: bool = False) -> dict[str, float]:
    """Return chrF (characters alone) and ROUGE-L F1 of a text.

    ``paper_compat`` swaps text and gold, as the published table does; ROUGE-L F1 is the same both ways.
    """
    from rouge_score.rouge_scorer import RougeScorer
    from sacrebleu import sentence_chrf

    told, wanted = (gold, text) if paper_compat else (text, gold)
    rouge = RougeScorer(["rougeL"], use_stemmer=False).score(wanted, told)["rougeL"].fmeasure
    return {"chrF": float(sentence_chrf(told, [wanted], word_order=0).score), "ROUGE-L": float(rouge)}


@dataclass(frozen=True, slots=True)
class Compared:
    """Hold the mean of a measure as recomputed and as recorded, and how many texts agree within 0.01."""

    computed: float
    recorded: float
    same: int
    total: int


def against_recorded(rows: Iterable[Row], answers: Mapping[str, str], *, paper_compat: bool) -> dict[str, Compared]:
    """Compare chrF and ROUGE-L of the recorded outputs of the regime RS with the recorded scores."""
    computed: dict[str, list[tuple[float, float]]] = {"chrF": [], "ROUGE-L": []}
    for run in rows:
        told, gold = run["regimes"]["restricted_search"], answers.get(run["pmid"])
        if not gold or not told.get("scores"):
            continue
        found = text_scores(told["output"], gold, paper_compat=paper_compat)
        for name, key in (("chrF", "chrf"), ("ROUGE-L", "rouge-L")):
            if isinstance(recorded := told["scores"].get(key), int | float):
                computed[name].append((found[name], float(recorded)))
    return {
        name: Compared(
            mean(ours for ours, _ in pairs),
            mean(theirs for _, theirs in pairs),
            sum(abs(ours - theirs) < 0.01 for ours, theirs in pairs),
            len(pairs),
        )
        for name, pairs in computed.items()
        if pairs
    }


def bert_scores(
    rows: Iterable[Row], answers: Mapping[str, str], encoder: TokenEncoder, *, paper_compat: bool = False
) -> tuple[list[BertScore], list[float]]:
    """Return BERTScore of the recorded outputs of the regime RS, and the recorded F1 of each, by another model."""
    ours: list[BertScore] = []
    theirs: list[float] = []
    for run in rows:
        told, gold = run["regimes"]["restricted_search"], answers.get(run["pmid"])
        known = (told.get("scores") or {}).get("bertscore")
        if gold and isinstance(known, int | float):
            ours.append(bert_score(encoder, told["output"], gold, paper_compat=paper_compat))
            theirs.append(float(known))
    return ours, theirs
