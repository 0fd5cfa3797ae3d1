"""Read the questions and articles that reviews are evaluated on."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, get_args
from xml.sax.saxutils import escape

from scripts.evals.harness.errors import DatasetInvalid
from scripts.evals.harness.records import Question

Row = Mapping[str, Any]
# How the paper keeps a review that a question comes from out of the evidence: search up to the day before it (RS), all
# but the review itself (SD), everything (US).
Regime = Literal["rs", "sd", "us"]
REGIMES: Final[tuple[Regime, ...]] = get_args(Regime)


def rows_of(path: Path) -> Iterator[Row]:
    """Raises DatasetInvalid."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)
    except (OSError, ValueError, EOFError) as error:
        raise DatasetInvalid(f"{path}: {error}") from error


def bioasq(path: Path, *, without_gold: bool = False) -> list[Question]:
    """BioASQ's questions; ``without_gold`` removes their articles, so that the right answer is an abstention.

    Raises:
        DatasetInvalid
    """
    return [_bioasq(row, without_gold) for row in rows_of(path)]


def _bioasq(row: Row, without_gold: bool) -> Question:
    try:
        gold = [str(pmid) for pmid in row["gold_pmids"]]
        return Question(
            id=str(row["id"]),
            group=str(row["type"]),
            text=row["question"],
            key=row.get("exact"),
            messages=({"role": "user", "content": row["question"]},),
            arrowhead={"exclude_pmids": gold} if without_gold and gold else {},
            meta={"gold": gold, "ideal": row.get("ideal") or [], "snippets": row.get("snippets") or []},
        )
    except (KeyError, TypeError) as error:
        raise DatasetInvalid(f"a question without {error}") from error


def sample_questions(path: Path) -> list[Question]:
    """The questions on the gateway's own sample; those on retracted articles alone have no evidence.

    Raises:
        DatasetInvalid
    """
    return [
        Question(
            id=row["id"],
            group=row["type"],
            text=row["question"],
            key=row["exact"],
            messages=({"role": "user", "content": row["question"]},),
            meta={"gold": [] if row["type"] == "retracted" else row["pmids"], "ideal": [], "snippets": []},
        )
        for row in rows_of(path)
    ]


def reviews(path: Path, regime: Regime) -> list[Question]:
    """The questions of PubMedRS-200, under one regime. Raises DatasetInvalid."""
    found = []
    for row in rows_of(path):
        limits: dict[str, Any] = {"rs": {"date_to": row.get("restrict_until")}, "sd": {"exclude_pmids": [row["pmid"]]}}
        found.append(
            Question(
                id=row["pmid"],
                group=regime,
                text=row["question"],
                key=row["answer"],
                messages=({"role": "user", "content": row["question"]},),
                arrowhead=limits.get(regime, {}),
                meta={"gold": row["reference_pmids"], "ideal": [row["answer"]], "snippets": []},
            )
        )
    return found


def spread(questions: Sequence[Question], limit: int | None) -> list[Question]:
    """At most ``limit`` of each group, evenly over the file."""
    if not limit:
        return list(questions)
    chosen: list[Question] = []
    for group in dict.fromkeys(one.group for one in questions):
        of_group = [one for one in questions if one.group == group]
        step = max(1, len(of_group) // limit)
        chosen += of_group[::step][:limit]
    return chosen


def texts_of(path: Path) -> dict[str, str]:
    """Title and abstract of each article of a collection, by PMID. Raises DatasetInvalid."""
    return {str(row["pmid"]): f"{row['title']}\n{row['abstract']}" for row in rows_of(path)}


def write_pubmed_xml(path: Path, out: Path) -> int:
    """Write a collection as PubMed's XML, for ``arrowhead gateway import``, and return the number of articles.

    A date is not in the collection, except for reviews. Raises DatasetInvalid.
    """
    number = 0
    with out.open("w", encoding="utf-8") as file:
        file.write("<?xml version='1.0' encoding='utf-8'?>\n<PubmedArticleSet>\n")
        for row in rows_of(path):
            file.write(_element(row))
            number += 1
        file.write("</PubmedArticleSet>\n")
    return number


def _element(row: Row) -> str:
    published = str(row.get("published") or "")
    date = f"<PubDate><Year>{published[:4]}</Year></PubDate>" if published else "<PubDate></PubDate>"
    types = "".join(f"<PublicationType>{escape(name)}</PublicationType>" for name in row.get("types") or ())
    return (
        f"<PubmedArticle><MedlineCitation><PMID>{row['pmid']}</PMID><Article><Journal><JournalIssue>{date}"
        f"</JournalIssue></Journal><ArticleTitle>{escape(row['title'])}</ArticleTitle><Abstract><AbstractText>"
        f"{escape(row['abstract'])}</AbstractText></Abstract><PublicationTypeList>{types}</PublicationTypeList>"
        "</Article></MedlineCitation></PubmedArticle>\n"
    )
