"""Measure how well questions are linked to the nodes that they name.

    python scripts/evals/kg/linking.py --names disease_name_with_id.csv --questions FOLDER [--nearest] [--slips]
        [--save FILE]

``--names``: a table with the columns disease_name and disease_id, each row a node. ``--questions``: the folder of the
JSON Lines files dataset_for_entity_retrieval_accuracy_analysis*, mcq_questions*, rag_comparison_data*,
single_disease_entity_prompts* and two_disease_entity_prompts*; missing ones are left out. ``--slips``: instead, names
and questions with one slip each. Prints Markdown.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from models.encoders.base import Encoder, Floats
from models.encoders.registry import create_encoder
from retrieval.graph.linking.dictionary_lookup.dictionary import Dictionary, build_dictionary
from retrieval.graph.linking.dictionary_lookup.normalize import fold
from retrieval.graph.linking.linker import Linker
from retrieval.graph.linking.vector_lookup import MatrixVectors, NearestNames, build_nearest
from retrieval.graph.types import LinkOptions, Method, NameOf, Node, Statement
from scripts.evals.kg.slips import absent_report, slip_report

CASES: Final[dict[str, Callable[[str], str]]] = {"as given": str, "lower": str.lower, "upper": str.upper}
# Of the misspelt names that vectors are asked for.
_EVERY: Final = 6
JUNK: Final = (
    "How do I cook pasta?",
    "What is the weather in Paris?",
    "Write a poem about the sea.",
    "Who won the world cup in 1998?",
    "What was the cat on the mat set to do?",
    "Can you help me with my tax return?",
)


@dataclass(frozen=True, slots=True)
class Question:
    """``gold``: names of nodes, in the order of the question."""

    text: str
    gold: tuple[str, ...]


@dataclass(slots=True)
class Score:
    questions: int = 0
    first: int = 0
    first_or_part: int = 0
    gold: int = 0
    found: int = 0
    linked: int = 0
    seconds: float = 0.0

    def row(self, *labels: str) -> str:
        n, linked = max(1, self.questions), max(1, self.linked)
        cells = [
            f"{self.first / n:.3f}",
            f"{self.first_or_part / n:.3f}",
            f"{self.found / max(1, self.gold):.3f}",
            f"{self.found / linked:.3f}",
            f"{1_000 * self.seconds / n:.2f}",
        ]
        return "| " + " | ".join([*labels, str(self.questions), *cells]) + " |"


class TableStore:
    """Rows of a table as nodes; an identifier of several rows is numbered from the second on."""

    release = "table"
    graph = "names"

    def __init__(self, file: Path) -> None:
        self.nodes: dict[str, Node] = {}
        seen: Counter[str] = Counter()
        with file.open(newline="", encoding="utf-8") as lines:
            for row in csv.DictReader(lines):
                seen[row["disease_id"]] += 1
                count = seen[row["disease_id"]]
                identifier = row["disease_id"] + (f"#{count}" if count > 1 else "")
                node_id = f"Disease::{identifier}"
                self.nodes[node_id] = Node(
                    node_id=node_id, kind="Disease", name=row["disease_name"], identifier=identifier
                )

    def names(self, kinds: Iterable[str] | None = None) -> Iterator[NameOf]:
        for node in self.nodes.values():
            yield NameOf(node.name, node.node_id, node.kind, False)

    def node(self, node_id: str) -> Node | None:
        return self.nodes.get(node_id)

    def statements(self, node_id: str, kinds: frozenset[str] | None = None) -> tuple[Statement, ...]:
        return ()

    def vectors(self, rows: Sequence[int]) -> Floats:
        return np.zeros((len(rows), 1), np.float32)


def read_sets(folder: Path) -> dict[str, list[Question]]:
    """By the file's name without its split."""
    found: dict[str, list[Question]] = {}
    for file in sorted(folder.glob("*.jsonl")):
        rows: list[dict[str, Any]] = [
            json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line
        ]
        questions = [question for row in rows if (question := _question(row)) is not None]
        if questions:
            found[re.sub(r"_(dev|test)$", "", file.stem)] = questions
    return found


def _question(row: dict[str, Any]) -> Question | None:
    if "node_hits" in row:
        return Question(row["text"], (row["node_hits"],))
    if "disease_2" in row:
        return Question(row["text"], (row["disease_1"], row["disease_2"]))
    if "disease_1" in row:
        return Question(row["text"], (row["disease_1"],))
    if "disease_name" in row:
        return Question(row["question"], (row["disease_name"],))
    return None


async def measure(
    linker: Linker, questions: Sequence[Question], known: set[str], method: Method, case: Callable[[str], str]
) -> Score:
    """Gold names that are no node of the graph do not count."""
    score = Score()
    options = LinkOptions(method=method, max_entities=16)
    for question in questions:
        gold = [name.casefold() for name in question.gold if name.casefold() in known]
        if not gold:
            continue
        text = case(question.text)
        begun = time.perf_counter()
        linked = await linker.link(text, options)
        score.seconds += time.perf_counter() - begun
        names = [mention.node.name.casefold() for mention in linked.mentions]
        part = await linker.broader(text, linked.mentions[0]) if linked.mentions else None
        score.questions += 1
        score.first += bool(names) and names[0] == gold[0]
        score.first_or_part += bool(names) and (
            names[0] == gold[0] or (part is not None and part.node.name.casefold() == gold[0])
        )
        score.gold += len(set(gold))
        score.found += len(set(gold) & set(names))
        score.linked += len(names)
    return score


def slip(name: str, chance: random.Random) -> str:
    """One letter left out, doubled or changed with the one before."""
    places = [place for place, letter in enumerate(name) if letter.isalpha()][1:]
    place = chance.choice(places)
    kind = chance.randrange(3)
    if kind == 0:
        return name[:place] + name[place + 1 :]
    if kind == 1:
        return name[:place] + name[place] + name[place:]
    return name[: place - 1] + name[place] + name[place - 1] + name[place + 1 :]


def self_retrieval(store: TableStore, dictionary: Dictionary, nearest: NearestNames | None) -> Iterator[str]:
    """Two nodes of one name are both right."""
    names = [(node.name, node.name) for node in store.nodes.values()]
    for label, case in CASES.items():
        right = sum(
            (mention := dictionary.look_up(case(name))) is not None and mention.node.name == own for name, own in names
        )
        inside = sum(own in {found.node.name for found in dictionary.find(case(name))} for name, own in names)
        yield f"| dictionary, whole name, {label} | {right} / {len(names)} |"
        yield f"| dictionary, found in a text, {label} | {inside} / {len(names)} |"
    if nearest is not None:
        vectors = np.concatenate(
            [
                nearest.encoder.encode_queries([name for name, _ in names[first : first + 1_024]])
                for first in range(0, len(names), 1_024)
            ]
        )
        rows, _ = nearest.vectors.search(vectors, 1)
        right = sum(nearest.names[int(row[0])].name == own for row, (_, own) in zip(rows, names, strict=True))
        yield f"| flat index, nearest name | {right} / {len(names)} |"


def slips_and_gaps(nearest: NearestNames, dictionary: Dictionary, gold: Sequence[str]) -> Iterator[str]:
    """Names with a slip of the pen, and names whose node is taken out of the graph: the linker should abstain."""
    chance = random.Random(7)
    wrong = [(slip(name, chance), name) for name in gold]
    wrong = [(text, name) for text, name in wrong if dictionary.look_up(text) is None]
    guesses = nearest.guess([text for text, _ in wrong])
    taken = [(guess, name) for guess, (_, name) in zip(guesses, wrong, strict=True) if guess and guess.accepted]
    right = sum(guess.name.name.casefold() == name.casefold() for guess, name in taken)
    left = len(wrong) - len(taken)
    yield f"| one slip, {len(wrong)} names | {right} right, {len(taken) - right} wrong, {left} left |"
    assert isinstance(nearest.vectors, MatrixVectors)
    known = 0
    examples: list[str] = []
    uses = Counter(word for row in range(len(nearest.names)) for word in set(fold(nearest.names[row].name)))
    for name in gold:
        own = [row for row in range(len(nearest.names)) if nearest.names[row].name.casefold() == name.casefold()]
        matrix = nearest.vectors.matrix.copy()
        matrix[own] = 0.0
        # Words of this name alone are unknown to a graph without it, so that they count as misspelled.
        words = nearest.names.words - {word for word in fold(name) if uses[word] <= len(own)}
        without = replace(nearest, vectors=MatrixVectors(matrix), names=replace(nearest.names, words=words))
        guess = without.guess([name])[0]
        if guess is not None and guess.accepted:
            known += 1
            examples.append(f"{name} → {guess.name.name}")
    shown = f": {'; '.join(examples[:5])}" if examples else ""
    yield f"| node taken out, {len(gold)} names | {known} linked to another{shown} |"


async def report(store: TableStore, sets: dict[str, list[Question]], encoder: Encoder | None) -> list[str]:
    begun = time.perf_counter()
    dictionary = build_dictionary(store)
    built = time.perf_counter() - begun
    table = dictionary.table
    lines = [
        f"{table.names} names, {len(table.keys)} rows, {table.nbytes / 1e6:.2f} MB "
        f"({table.nbytes / max(1, table.names):.0f} bytes a name), built in {built:.2f} s.",
        "",
        "| questions | method | case | n | top-1 | top-1 or its broader name | recall | precision | ms |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    nearest = build_nearest(store, encoder) if encoder is not None else None
    linker = Linker(dictionary, nearest)
    known = {node.name.casefold() for node in store.nodes.values()}
    methods: list[Method] = ["dictionary", "nearest", "auto"] if nearest is not None else ["dictionary"]
    for name, questions in sets.items():
        for method in methods:
            for label, case in CASES.items():
                score = await measure(linker, questions, known, method, case)
                lines.append(score.row(name, method, label))
    for method in methods:
        linked = [await linker.link(text, LinkOptions(method=method)) for text in JUNK]
        lines.append(f"\n{sum(bool(one.mentions) for one in linked)} of {len(JUNK)} other questions linked ({method}).")
    lines += ["", "| self-retrieval | right |", "|---|---|", *self_retrieval(store, dictionary, nearest)]
    if nearest is not None:
        gold = sorted({name for questions in sets.values() for one in questions for name in one.gold})
        gold = [name for name in gold if name.casefold() in known]
        lines += ["", "| nearest | outcome |", "|---|---|", *slips_and_gaps(nearest, dictionary, gold)]
    return lines


async def slips(store: TableStore, sets: dict[str, list[Question]], encoder: Encoder | None) -> list[str]:
    """By the dictionary, and with an encoder by all that the linker has."""
    dictionary = build_dictionary(store)
    linker = Linker(dictionary, build_nearest(store, encoder) if encoder is not None else None)
    names = sorted({node.name for node in store.nodes.values()})
    known = {name.casefold() for name in names}
    asked = [(q.text, name) for own in sets.values() for q in own for name in q.gold if name.casefold() in known]
    lines: list[str] = []
    methods: list[Method] = ["dictionary", "auto"] if encoder is not None else ["dictionary"]
    for method in methods:
        some = names if method == "dictionary" else names[::_EVERY]
        lines += [*await slip_report(linker, some, asked, LinkOptions(method=method)), ""]
    return [*lines, *absent_report(dictionary, names)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--names", type=Path, required=True)
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--nearest", action="store_true", help="also measure the index of vectors (about a minute)")
    parser.add_argument("--slips", action="store_true", help="misspelt names instead of the rest (minutes)")
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--save", type=Path)
    given = parser.parse_args(arguments)
    encoder = create_encoder(given.encoder) if given.nearest else None
    run = slips if given.slips else report
    text = "\n".join(asyncio.run(run(TableStore(given.names), read_sets(given.questions), encoder))) + "\n"
    print(text)
    if given.save:
        given.save.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
