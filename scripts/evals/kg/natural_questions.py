"""Measure linking on natural questions: brand, everyday and old names, coordinations, abbreviations, false friends.

    python scripts/evals/kg/natural_questions.py [--names disease_name_with_id.csv] [--edges open_kg_sample.jsonl.gz]
        [--half build|held] [--nearest] [--failures]

scripts/evals/questions/linking.tsv has the questions, each with the names of the nodes that it names ("a|b": either;
"*a": may be linked, need not), and texts that name none. Half of them ("build") were at hand when the rules were made;
the others ("held") were written before and run after. The graph is the package's sample, the nodes of
scripts/evals/questions/linking_nodes.tsv, and those of ``--names`` and ``--edges``. A name that the graph lacks is not
asked for; what is linked in its place is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from models.encoders.base import Floats
from models.encoders.registry import create_encoder
from retrieval.graph.linking.dictionary_lookup.dictionary import build_dictionary
from retrieval.graph.linking.linker import Linker
from retrieval.graph.linking.vector_lookup import build_nearest
from retrieval.graph.store.catalog import SAMPLE_FILES
from retrieval.graph.types import Linked, LinkOptions, NameOf, Node, Statement
from scripts.evals.graph_files import rows_of

_QUESTIONS: Final = Path(__file__).resolve().parents[1] / "questions"
HALVES: Final = ("build", "held")


@dataclass(frozen=True, slots=True)
class Asked:
    """``required``: for each entity the names that are right; ``allowed``: names that are no error."""

    half: str
    text: str
    required: tuple[frozenset[str], ...]
    allowed: frozenset[str]


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
    questions: int = 0
    wanted: int = 0
    found: int = 0
    linked: int = 0
    right: int = 0
    texts: int = 0
    false_texts: int = 0
    silent: int = 0
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)

    def row(self, label: str) -> str:
        asked = max(1, self.questions + self.texts)
        cells = (
            str(self.questions),
            f"{self.found}/{self.wanted} ({self.found / max(1, self.wanted):.3f})",
            f"{self.right}/{self.linked} ({self.right / max(1, self.linked):.3f})",
            f"{self.false_texts}/{self.texts}",
            str(self.silent),
            f"{1_000 * self.seconds / asked:.1f}",
        )
        return f"| {label} | {' | '.join(cells)} |"


def read_asked(file: Path) -> list[Asked]:
    with file.open(newline="", encoding="utf-8") as lines:
        return [_asked(row) for row in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)]


def _asked(row: dict[str, str]) -> Asked:
    entities = [one for one in (row["names"] or "").split(";") if one]
    required = [frozenset(one.casefold().split("|")) for one in entities if not one.startswith("*")]
    allowed = frozenset(one[1:].casefold() for one in entities if one.startswith("*"))
    return Asked(row["half"], row["text"], tuple(required), allowed)


def store_of(names: Path | None, edges: Path | None) -> NodeStore:
    store = NodeStore()
    with SAMPLE_FILES[0].open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader((line for line in lines if not line.startswith("#")), delimiter="\t"):
            store.add(row["kind"], row["name"], (row.get("synonyms") or "").split("|"))
    if names:
        with names.open(newline="", encoding="utf-8") as lines:
            for row in csv.DictReader(lines):
                store.add("Disease", row["disease_name"])
    for row in rows_of(edges) if edges else ():
        store.add("Disease", row["disease"])
        store.add(row["target_type"], row["target"])
    with (_QUESTIONS / "linking_nodes.tsv").open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines, delimiter="\t"):
            store.add(row["kind"], row["name"])
    return store


async def measure(linker: Linker, store: NodeStore, asked: Iterable[Asked], options: LinkOptions) -> Score:
    score = Score()
    for one in asked:
        begun = time.perf_counter()
        linked = await linker.link(one.text, options)
        score.seconds += time.perf_counter() - begun
        count(score, store, one, linked)
    return score


def count(score: Score, store: NodeStore, asked: Asked, linked: Linked) -> None:
    """A question whose names the graph lacks must say so in a note: ``silent`` counts those that do not."""
    wanted = [names for names in asked.required if names & store.known]
    found = [mention.node for mention in linked.mentions]
    names = [{one.casefold() for one in (node.name, *node.synonyms)} for node in found]
    hits = sum(any(want & own for own in names) for want in wanted)
    right = sum(any(own & want for want in (*asked.required, asked.allowed)) for own in names)
    if asked.required or asked.allowed:
        score.questions += 1
        score.wanted += len(wanted)
        score.found += hits
        score.linked += len(found)
        score.right += right
        score.silent += len(wanted) < len(asked.required) and not linked.notes
    else:
        score.texts += 1
        score.false_texts += bool(found)
    if hits < len(wanted) or right < len(found):
        missed = ["|".join(sorted(want)) for want in wanted if not any(want & own for own in names)]
        wrong = [
            f"{node.kind} {node.name}" for node, own in zip(found, names, strict=True) if not _is_right(own, asked)
        ]
        score.failures.append(f"- {asked.text} missed {missed}, wrong {wrong}, notes {list(linked.notes)}")


def _is_right(own: set[str], asked: Asked) -> bool:
    return any(own & want for want in (*asked.required, asked.allowed))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", type=Path)
    parser.add_argument("--edges", type=Path)
    parser.add_argument("--half", choices=HALVES)
    parser.add_argument("--nearest", action="store_true", help="also link by vectors")
    parser.add_argument("--failures", action="store_true", help="print each question that is not read as it should be")
    given = parser.parse_args(arguments)
    store = store_of(given.names, given.edges)
    nearest = build_nearest(store, create_encoder("minilm")) if given.nearest else None
    linker = Linker(build_dictionary(store), nearest)
    options = LinkOptions(method="auto" if given.nearest else "dictionary")
    questions = read_asked(_QUESTIONS / "linking.tsv")
    print(f"{len(store.nodes)} nodes\n")
    print("| half | questions | entities found | right links | texts with a false link | absent, not told | ms |")
    print("|---|---|---|---|---|---|---|")
    failures: list[str] = []
    for half in [given.half] if given.half else HALVES:
        score = asyncio.run(measure(linker, store, [one for one in questions if one.half == half], options))
        print(score.row(half))
        failures += score.failures
    if given.failures:
        print("\n" + "\n".join(failures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
