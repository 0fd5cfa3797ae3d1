"""Measure a question's context from the graph: stored vectors against embedding all sentences again.

    python scripts/benchmarks/retrieval/kg_context.py [--edges 113,300,500,1000,2000] [--questions 3] [--plot FILE.png]

Both variants use one encoder, one thread and the same made-up neighbourhood (names about as long as real ones).
"precomputed" is the whole cost of a question: encode it, one product, select, render, count tokens. "re-embedding" is
the published program's way: encode the question and every sentence (with its provenance), compare one by one, select.
Wall and processor time are the least of a question's runs, as other jobs only add to it, and the median over questions.
What is the same with any rule is not measured: the token counts of the texts tried are made before. With stored vectors
of the same sentences, the paper's rule must select the same statements in the same order (except for ties), or the run
fails.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from models.encoders.base import Encoder, EncoderOptions, PassageText
from models.encoders.registry import create_encoder
from retrieval.graph.context.select import Context, ContextCandidates, ContextOptions, Vectors, build_context, gather
from retrieval.graph.types import Edge, Mention, Neighbourhood, Node, Statement
from scripts.figures import BLUE, ORANGE, SKY, new_figure, save

T = TypeVar("T")
# Contexts keep four digits of a cosine.
_ROUNDING = 1e-4
QUESTIONS = (
    "Which drugs are used to treat Parkinson's disease?",
    "Out of the given list, which Gene is associated with Parkinson's disease? Given list is: SNCA, GBA1, LRRK2, PRKN",
    "What diseases resemble Parkinson's disease and where in the body is it located?",
)
KINDS = (
    ("Gene", "associates", "DISEASES"),
    ("Compound", "treats", "ChEMBL"),
    ("Symptom", "presents", "NCBI PubMed"),
    ("Disease", "resembles", "NCBI PubMed"),
    ("Anatomy", "localizes", "NCBI PubMed"),
)
SYLLABLES = "al be cor do ep fi glo hy in ju kar lo mye neu or pul qui re sy tro ul vas xan".split()  # noqa: SIM905


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Milliseconds: wall and processor time of both ways, and of ours once the question is encoded."""

    edges: int
    slow: tuple[float, float]
    fast: tuple[float, float]
    bare: tuple[float, float]

    @property
    def ratio(self) -> tuple[float, float]:
        """(of processor time, of wall time)."""
        return self.slow[1] / self.fast[1], self.slow[0] / self.fast[0]

    def line(self) -> str:
        cells = (*(f"{ms:.0f}" for ms in self.slow), *(f"{ms:.1f}" for ms in self.fast), f"{self.bare[1]:.1f}")
        return f"| {self.edges} | {' | '.join(cells)} | {self.ratio[0]:.0f} ({self.ratio[1]:.0f}) |"


class Counts:
    """Count tokens, each text once."""

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count
        self._known: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        if text not in self._known:
            self._known[text] = self._count(text)
        return self._known[text]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", default="113,300,500,1000,2000")
    parser.add_argument("--questions", type=int, default=len(QUESTIONS))
    parser.add_argument("--repeat", type=int, default=15, help="runs of the fast way for each question")
    parser.add_argument("--again", type=int, default=2, help="runs of the slow way for each question")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--plot", type=Path)
    args = parser.parse_args()
    encoder = create_encoder("minilm", EncoderOptions(device="cpu", dtype="float32", threads=args.threads))
    print(
        "| edges | re-embedding wall ms | CPU ms | precomputed wall ms | CPU ms | without encoding | ratio CPU (wall) |"
    )
    print("|---|---|---|---|---|---|---|")
    found = []
    for number in map(int, args.edges.split(",")):
        found.append(times_of(encoder, neighbourhood(number), QUESTIONS[: args.questions], args.repeat, args.again))
        print(found[-1].line(), flush=True)
    if args.plot:
        plot(found, args.plot)
    return 0


def plot(found: Sequence[Times], path: Path) -> None:
    """Left: processor time over the number of edges. Right: how many times less it is."""
    figure, (left, right) = new_figure(2, (9.5, 3.6))
    edges = [times.edges for times in found]
    left.plot(edges, [times.slow[1] for times in found], "o-", color=ORANGE, label="all embedded again")
    left.plot(edges, [times.fast[1] for times in found], "o-", color=BLUE, label="vectors of the import")
    left.plot(edges, [times.bare[1] for times in found], "o--", color=SKY, label="the same, question encoded")
    left.set(xscale="log", yscale="log", xlabel="edges of the node", ylabel="ms of one core per question")
    left.legend(fontsize="small")
    right.plot(edges, [times.ratio[0] for times in found], "o-", color=BLUE, label="processor time")
    right.plot(edges, [times.ratio[1] for times in found], "o--", color=SKY, label="wall time")
    right.set(xscale="log", xlabel="edges of the node", ylabel="times less than embedding again")
    right.legend(fontsize="small")
    for axes in (left, right):
        axes.grid(alpha=0.3)
    save(figure, path)


def times_of(encoder: Encoder, around: Neighbourhood, questions: tuple[str, ...], repeat: int, again: int = 1) -> Times:
    stored = encoder.encode_passages([PassageText("", statement.text) for statement in around.statements])
    as_published = encoder.encode_passages([PassageText("", published(s)) for s in around.statements])
    slow, fast, bare = [], [], []
    counts = Counts(encoder.count_query_tokens)
    for question in questions:
        mention = mention_of(question, around.node)
        chosen, times = least(lambda q=question: re_embedded(encoder, around, q), again)  # type: ignore[misc]
        slow.append(times)
        gathered = gather(question, [mention], [around])
        paper = context(gathered, encoder, question, as_published, ContextOptions(pruning="paper", tokens=None))
        if not is_same(paper, *chosen):
            raise SystemExit(f"other statements than by embedding again: {question}")
        vector = encoder.encode_queries([question])[0]
        build_context(gathered, Vectors(vector, stored), counts)
        _, times = least(
            lambda q=question, m=mention: build_context(  # type: ignore[misc]
                gather(q, [m], [around]), Vectors(encoder.encode_queries([q])[0], stored), counts
            ),
            repeat,
        )
        fast.append(times)
        _, times = least(
            lambda q=question, m=mention, v=vector: build_context(  # type: ignore[misc]
                gather(q, [m], [around]), Vectors(v, stored), counts
            ),
            repeat,
        )
        bare.append(times)
    return Times(edges=len(around.statements), slow=medians(slow), fast=medians(fast), bare=medians(bare))


def context(
    gathered: ContextCandidates, encoder: Encoder, question: str, stored: Any, options: ContextOptions
) -> Context:
    vectors = Vectors(encoder.encode_queries([question])[0], stored)
    return build_context(gathered, vectors, encoder.count_query_tokens, options)


def re_embedded(encoder: Encoder, around: Neighbourhood, question: str) -> tuple[list[str], list[float]]:
    """Edge ids and their cosines, nearest first. One cosine at a time, as published."""
    asked = encoder.encode_queries([question])[0]
    vectors = encoder.encode_passages([PassageText("", published(s)) for s in around.statements])
    near = [float(asked @ v / (np.linalg.norm(asked) * np.linalg.norm(v))) for v in vectors]
    edge = np.percentile(near, 75)
    ranked = sorted(range(len(near)), key=lambda place: -near[place])
    kept = [place for place in ranked if near[place] > edge and near[place] > 0.5][:150]
    return [around.statements[place].edge.edge_id for place in kept], [near[place] for place in kept]


def is_same(context: Context, ids: list[str], near: list[float]) -> bool:
    """Statements may change places only where their cosines are equal but for rounding."""
    found = [statement.edge.edge_id for statement in context.statements]
    alike = len(found) == len(ids) and bool(np.allclose(context.similarities, near, atol=_ROUNDING))
    return alike and len(set(found) ^ set(ids)) <= 2 * sum(abs(value - near[-1]) < _ROUNDING for value in near[-5:])


def published(statement: Statement) -> str:
    """The sentence that the published program embeds."""
    return f"{statement.text} and Provenance of this association is {', '.join(statement.edge.provenance)}"


def neighbourhood(number: int) -> Neighbourhood:
    rng = random.Random(number)
    disease = Node(node_id="Disease::DOID:14330", kind="Disease", name="Parkinson's disease", identifier="DOID:14330")
    statements = []
    for place in range(number):
        kind, verb, source = KINDS[place % len(KINDS)]
        name = name_of(rng, kind)
        other = Node(node_id=f"{kind}::{place}", kind=kind, name=name, identifier=str(place))
        first, second = (other, disease) if verb == "treats" else (disease, other)
        edge = Edge(source_id=first.node_id, target_id=second.node_id, kind=f"{verb.upper()}_x", provenance=(source,))
        text = f"{first.kind} {first.name} {verb} {second.kind} {second.name}"
        statements.append(Statement(edge=edge, source=first, target=second, text=text, row=place))
    return Neighbourhood(node=disease, statements=tuple(statements), graph="made up", release="")


def name_of(rng: random.Random, kind: str) -> str:
    if kind == "Gene":
        return "".join(rng.choices("ABCDEFGHKLMNPRST", k=3)) + str(rng.randrange(1, 99))
    words = rng.choice((1, 2, 3)) if kind != "Compound" else 1
    return " ".join("".join(rng.choices(SYLLABLES, k=rng.choice((3, 4)))) for _ in range(words))


def mention_of(question: str, node: Node) -> Mention:
    start = question.index(node.name)
    return Mention(node=node, start=start, end=start + len(node.name), method="exact")


def timed(call: Callable[[], T]) -> tuple[T, tuple[float, float]]:
    """The result, wall and processor milliseconds of this process."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = call()
    return result, ((time.perf_counter() - wall) * 1e3, (time.process_time() - cpu) * 1e3)


def least(call: Callable[[], T], runs: int) -> tuple[T, tuple[float, float]]:
    """The last result, and the least wall and processor time of the runs."""
    result, (wall, cpu) = timed(call)
    for _ in range(runs - 1):
        result, times = timed(call)
        wall, cpu = min(wall, times[0]), min(cpu, times[1])
    return result, (wall, cpu)


def medians(times: list[tuple[float, float]]) -> tuple[float, float]:
    return statistics.median(wall for wall, _ in times), statistics.median(cpu for _, cpu in times)


if __name__ == "__main__":
    sys.exit(main())
