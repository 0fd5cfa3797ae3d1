"""Measure how well questions are linked to the nodes that they name.

    python scripts/evals/linking.py [--names disease_name_with_id.csv] [--failures]
    python scripts/evals/linking.py --names disease_name_with_id.csv --questions FOLDER [--failures]
    python scripts/evals/linking.py --natural questions_dev.jsonl [--failures]

scripts/evals/questions/linking.tsv has natural questions, each with the names of the nodes that it names ("a|b":
either; "*a": may be linked, need not), and texts that name none. Half ("build") were at hand when rules were made; the
others ("held") were written before and run after. The graph is that of the package (``--sample``: the tests' small
one), the nodes of linking_nodes.tsv, and those of ``--names`` (columns disease_name, disease_id), with the names of the
shipped terminology (``--plain``: without). ``--questions``: KG-RAG's question sets as JSON Lines instead, with the
nodes of ``--names`` as the graph. A name that the graph lacks is not asked for; what is linked in its place is wrong.
``--natural``: JSON Lines (id, question) whose names are in trust_names.tsv, those of concepts that the graph lacks too.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import gzip
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from models.encoders.base import Floats
from retrieval.graph.linking.dictionary_lookup.dictionary import build_dictionary
from retrieval.graph.linking.dictionary_lookup.terms import term_names
from retrieval.graph.linking.linker import Linker
from retrieval.graph.store.catalog import SHIPPED_FILES
from retrieval.graph.types import Linked, LinkOptions, NameOf, Node, Statement
from retrieval.terminology.concepts import shipped_terminology
from scripts.evals.harness.records import Row, rows_of
from scripts.evals.harness.tables import markdown_table

_QUESTIONS: Final = Path(__file__).parent / "questions"
_SAMPLE: Final = Path(__file__).parents[2] / "tests" / "data" / "small_graph" / "nodes.tsv"


@dataclass(frozen=True, slots=True)
class Asked:
    """``required``: for each entity the names that are right, casefolded; ``allowed``: names that are no error."""

    group: str
    text: str
    required: tuple[frozenset[str], ...]
    allowed: frozenset[str] = frozenset()
    with_concepts: bool = False


class NodeStore:
    """Nodes by kind and name, without edges."""

    release = "table"
    graph = "names"

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.known: set[str] = set()

    def add(self, kind: str, name: str, synonyms: Sequence[str] = ()) -> None:
        """A name that a node has already is not added again."""
        if name.casefold() not in self.known:
            node_id = f"{kind}::{name}"
            self.nodes[node_id] = Node(
                node_id=node_id, kind=kind, name=name, identifier=name, synonyms=tuple(filter(None, synonyms))
            )
            self.known |= {one.casefold() for one in (name, *synonyms)}

    def names(self, kinds: Iterable[str] | None = None) -> Iterator[NameOf]:
        for node in self.nodes.values():
            yield NameOf(node.name, node.node_id, node.kind, False)
            for name in node.synonyms:
                yield NameOf(name, node.node_id, node.kind, True)

    def node(self, node_id: str) -> Node | None:
        return self.nodes.get(node_id)

    def statements(self, node_id: str, kinds: frozenset[str] | None = None) -> tuple[Statement, ...]:
        return ()

    def vectors(self, rows: Sequence[int]) -> Floats:
        return np.zeros((len(rows), 1), np.float32)


@dataclass(slots=True)
class Score:
    """``named``: questions with a name that the graph has, ``first``: of these, whose first link is to the first one;
    ``silent``: questions with a name that it lacks, without a note that says so.
    """

    questions: int = 0
    named: int = 0
    first: int = 0
    wanted: int = 0
    found: int = 0
    linked: int = 0
    right: int = 0
    texts: int = 0
    false_texts: int = 0
    silent: int = 0
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)

    def cells(self) -> list[str]:
        return [
            str(self.questions),
            f"{self.first / max(1, self.named):.3f}",
            f"{self.found}/{self.wanted} ({self.found / max(1, self.wanted):.3f})",
            f"{self.right}/{self.linked} ({self.right / max(1, self.linked):.3f})",
            f"{self.false_texts}/{self.texts}",
            str(self.silent),
            f"{1_000 * self.seconds / max(1, self.questions + self.texts):.1f}",
        ]

    def count(self, known: set[str], asked: Asked, linked: Linked) -> None:
        wanted = [names for names in asked.required if names & known]
        found = [mention.node for mention in (*linked.mentions, *(linked.concepts if asked.with_concepts else ()))]
        names = [{one.casefold() for one in (node.name, *node.synonyms)} for node in found]
        hits = sum(any(want & own for own in names) for want in wanted)
        right = sum(any(own & want for want in (*asked.required, asked.allowed)) for own in names)
        if asked.required or asked.allowed:
            self.questions += 1
            self.named += bool(wanted)
            self.first += bool(wanted and names and wanted[0] & names[0])
            self.wanted, self.found = self.wanted + len(wanted), self.found + hits
            self.linked, self.right = self.linked + len(found), self.right + right
            self.silent += len(wanted) < len(asked.required) and not linked.notes
        else:
            self.texts += 1
            self.false_texts += bool(found)
        if hits < len(wanted) or right < len(found):
            missed = ["|".join(sorted(want)) for want in wanted if not any(want & own for own in names)]
            self.failures.append(f"- {asked.text} missed {missed}, linked {[node.name for node in found]}")


def natural_questions() -> Iterator[Asked]:
    for row in _table(_QUESTIONS / "linking.tsv", "\t"):
        yield Asked(row["half"], row["text"], *_labels(row["names"] or ""))


def labelled_questions(path: Path) -> Iterator[Asked]:
    """Yield the questions of a file that ``trust_names.tsv`` labels by their number; of a conversation none."""
    labels = {row["id"]: row["names"] or "" for row in _table(_QUESTIONS / "trust_names.tsv", "\t")}
    for row in rows_of(path):
        if (number := str(row["id"])) in labels and isinstance(row["question"], str):
            yield Asked("natural", row["question"], *_labels(labels[number]), with_concepts=True)


def _labels(text: str) -> tuple[tuple[frozenset[str], ...], frozenset[str]]:
    entities = text.split(";") if text else []
    required = tuple(frozenset(one.casefold().split("|")) for one in entities if not one.startswith("*"))
    return required, frozenset(one[1:].casefold() for one in entities if one.startswith("*"))


def published_questions(folder: Path) -> Iterator[Asked]:
    for path in sorted(folder.glob("*.jsonl")):
        for row in rows_of(path):
            if names := _names(row):
                text = row["text"] if "text" in row else row["question"]
                yield Asked(re.sub(r"_(dev|test)$", "", path.stem), text, tuple(frozenset({one}) for one in names))


def _names(row: Row) -> list[str]:
    return [str(row[key]).casefold() for key in ("node_hits", "disease_1", "disease_2", "disease_name") if key in row]


def store_of(names: Path | None, nodes: Path | None) -> NodeStore:
    store = NodeStore()
    for row in _table(nodes, "\t") if nodes else ():
        store.add(row["kind"], row["name"], (row.get("synonyms") or "").split("|"))
    for row in _table(names, ",") if names else ():
        store.add("Disease", row["disease_name"])
    for row in _table(_QUESTIONS / "linking_nodes.tsv", "\t") if nodes else ():
        store.add(row["kind"], row["name"])
    return store


def _table(path: Path, delimiter: str) -> Iterator[dict[str, str]]:
    with (
        gzip.open(path, "rt", newline="", encoding="utf-8") if path.suffix == ".gz" else path.open(newline="") as lines
    ):
        rows = (one for one in lines if one[:1] != "#")
        if delimiter == "\t":
            yield from csv.DictReader(rows, delimiter=delimiter, quoting=csv.QUOTE_NONE)
        else:
            yield from csv.DictReader(rows, delimiter=delimiter)


async def measure(linker: Linker, known: set[str], asked: Iterable[Asked], options: LinkOptions) -> Mapping[str, Score]:
    """By group."""
    scores: dict[str, Score] = {}
    for one in asked:
        score = scores.setdefault(one.group, Score())
        begun = time.perf_counter()
        linked = await linker.link(one.text, options)
        score.seconds += time.perf_counter() - begun
        score.count(known, one, linked)
    return scores


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", type=Path)
    parser.add_argument("--questions", type=Path, help="folder of KG-RAG's sets, in place of the natural questions")
    parser.add_argument("--sample", action="store_true", help="with the small graph of the tests")
    parser.add_argument("--natural", type=Path, help="questions_dev.jsonl, in place of the natural questions")
    parser.add_argument("--plain", action="store_true", help="the graph's own names alone")
    parser.add_argument("--failures", action="store_true", help="print each question that is not read as it should be")
    given = parser.parse_args(arguments)
    store = store_of(given.names, None if given.questions else _SAMPLE if given.sample else SHIPPED_FILES[0])
    names = None if given.plain else term_names(shipped_terminology(), Path(tempfile.gettempdir()) / "arrowhead-names")
    begun = time.perf_counter()
    linker = Linker(build_dictionary(store, names=names))
    print(f"built in {time.perf_counter() - begun:.1f} s")
    asked = natural_questions()
    known = store.known
    if given.questions or given.natural:
        asked = published_questions(given.questions) if given.questions else labelled_questions(given.natural)
    if given.natural and names is not None:
        known = known | {name.casefold() for term in names.terminology.terms() for name in term.names}
    scores = asyncio.run(measure(linker, known, asked, LinkOptions(method="dictionary", max_entities=16)))
    columns = ("set", "questions", "first", "entities found", "right links", "false links", "not told", "ms")
    rows = [(name, *score.cells()) for name, score in scores.items()]
    print(f"{len(store.nodes)} nodes\n\n{markdown_table(columns, rows)}")
    for failure in [line for score in scores.values() for line in score.failures] if given.failures else ():
        print(failure)
    return 0


if __name__ == "__main__":
    sys.exit(main())
