"""Measure whether the statements that a multiple-choice question needs survive the choice of context, and its tokens.

    python scripts/evals/kg/survival.py EDGES.jsonl.gz MCQ.jsonl [--true-false TF.jsonl] [--tokens 800]
        [--stripped] [--plot FILE.png]

A question is counted where the edges include "disease 1 - right answer" and "disease 2 - right answer"; it survives
where both are in the context. Compared are this server's rule, also at half the tokens, and the published one. "as
published" are the tokens of the same statements in the published program's sentences. Tokens are those of the encoder's
vocabulary. The rules see the question as it is asked, with its list, or without it (``--stripped``). Baselines that
read nothing are shown beside them, for every set.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from models.encoders.base import Encoder, EncoderOptions, Floats, PassageText
from models.encoders.registry import create_encoder
from retrieval.graph.context.select import Context, ContextCandidates, ContextOptions, Vectors, build_context, gather
from retrieval.graph.types import Mention, Neighbourhood, Statement, choices_start
from scripts.evals.graph_files import EdgeFile, Row, rows_of
from scripts.evals.kg.baselines import baselines, table
from scripts.figures import BLUE, ORANGE, SKY, new_figure, save

GROUPS: Final = {"all": (0, 10**9), "1-20": (1, 20), "21-400": (21, 400), "over 400": (401, 10**9)}


@dataclass(frozen=True, slots=True)
class Asked:
    """``needed``: the right answer, folded. ``answerable``: the edges hold both statements that decide it."""

    row: Row
    gathered: ContextCandidates
    answerable: bool

    @property
    def needed(self) -> str:
        return str(self.row["correct_node"]).strip().casefold()

    @property
    def degree(self) -> int:
        return len(self.gathered.statements)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("edges", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--true-false", type=Path)
    parser.add_argument("--tokens", type=int, default=800)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--stripped", action="store_true", help="leave the list of answers out of the question")
    parser.add_argument("--plot", type=Path)
    args = parser.parse_args()
    rows = [stripped(row) if args.stripped else row for row in rows_of(args.questions)]
    floor(rows, list(rows_of(args.true_false)) if args.true_false else [])
    encoder = create_encoder(args.encoder, EncoderOptions(device="cpu"))
    edges = EdgeFile(args.edges)
    asked = [found for found in (asked_of(row, edges) for row in rows) if found is not None]
    vectors = encoded(encoder, asked)
    rules = {
        f"ours, {args.tokens} tokens": ContextOptions(tokens=args.tokens),
        f"ours, {args.tokens // 2} tokens": ContextOptions(tokens=args.tokens // 2),
        "the paper's": ContextOptions(pruning="paper", tokens=None),
    }
    print(f"\n{len(asked)} questions with a known disease, {sum(a.answerable for a in asked)} with both edges\n")
    print("| rule | survive | 1-20 edges | 21-400 | over 400 | tokens mean | max | as published mean | max |")
    print("|---|---|---|---|---|---|---|---|---|")
    told = {}
    for name, options in rules.items():
        told[name] = contexts(encoder, asked, vectors, options)
        print(line(name, encoder, asked, told[name]), flush=True)
    if args.plot:
        plot(asked, told, args.plot)
    return 0


def stripped(row: Row) -> Row:
    """The question without its list."""
    return {**row, "text": row["text"][: choices_start(row["text"])].rstrip()}


def asked_of(row: Row, edges: EdgeFile) -> Asked | None:
    """None where neither disease has an edge."""
    around = [edges.neighbourhood(row[key]) for key in ("disease_1", "disease_2")]
    found = [neighbourhood for neighbourhood in around if neighbourhood is not None]
    if not found:
        return None
    mentions = [mention for mention in (mention_of(row["text"], one) for one in found) if mention is not None]
    needed = str(row["correct_node"]).strip().casefold()
    both = all(one is not None and any(reaches(s, needed) for s in one.statements) for one in around)
    return Asked(row, gather(row["text"], mentions, found), both)


def mention_of(question: str, around: Neighbourhood) -> Mention | None:
    start = question.casefold().find(around.node.name.casefold())
    if start < 0:
        return None
    return Mention(node=around.node, start=start, end=start + len(around.node.name), method="exact")


def reaches(statement: Statement, name: str) -> bool:
    return name in (statement.source.name.casefold(), statement.target.name.casefold())


def encoded(encoder: Encoder, asked: Sequence[Asked]) -> dict[int, Floats]:
    """Vectors of all statements in play by row: once, as at an import."""
    rows = {s.row: s for one in asked for s in one.gathered.statements}
    matrix = encoder.encode_passages([PassageText("", statement.text) for statement in rows.values()])
    return dict(zip(rows, matrix, strict=True))


def contexts(
    encoder: Encoder, asked: Sequence[Asked], vectors: dict[int, Floats], options: ContextOptions
) -> list[Context]:
    told = []
    for one in asked:
        own = np.stack([vectors[s.row] for s in one.gathered.statements])
        question = encoder.encode_queries([one.row["text"]])[0]
        told.append(build_context(one.gathered, Vectors(question, own), encoder.count_query_tokens, options))
    return told


def line(name: str, encoder: Encoder, asked: Sequence[Asked], told: Sequence[Context]) -> str:
    shares = ["{}/{}".format(*share(asked, told, low, high)) for low, high in GROUPS.values()]
    tokens = [context.tokens for context in told]
    as_published = [encoder.count_query_tokens(published(context)) for context in told]
    numbers = [f"{statistics.mean(t):.0f} | {max(t)}" for t in (tokens, as_published)]
    return f"| {name} | {' | '.join([*shares, *numbers])} |"


def share(asked: Sequence[Asked], told: Sequence[Context], low: int, high: int) -> tuple[int, int]:
    """(questions that survive, questions) of those whose entities have ``low`` to ``high`` edges."""
    pairs = [(a, c) for a, c in zip(asked, told, strict=True) if a.answerable and low <= a.degree <= high]
    return sum(survives(one, context) for one, context in pairs), len(pairs)


def plot(asked: Sequence[Asked], told: Mapping[str, Sequence[Context]], path: Path) -> None:
    """Left: the share of questions that survive, by number of edges. Right: tokens of their contexts."""
    figure, (left, right) = new_figure(2, (10, 3.8))
    width = 0.8 / len(told)
    groups = {name: bounds for name, bounds in GROUPS.items() if share(asked, next(iter(told.values())), *bounds)[1]}
    tokens = [[context.tokens for context in own] for own in told.values()]
    most = max(max(own) for own in tokens)
    for place, ((name, own), colour) in enumerate(zip(told.items(), (BLUE, SKY, ORANGE), strict=True)):
        kept = [share(asked, own, *bounds) for bounds in groups.values()]
        at = [group + (place - (len(told) - 1) / 2) * width for group in range(len(groups))]
        bars = left.bar(at, [number / total for number, total in kept], width, label=name, color=colour)
        left.bar_label(bars, [f"{number}/{total}" for number, total in kept], fontsize="xx-small")
        right.hist(tokens[place], bins=30, range=(0, most), histtype="step", color=colour, label=name, linewidth=1.5)
    left.set_xticks(range(len(groups)), list(groups))
    left.set(ylim=(0, 1.06), xlabel="edges of the question's entities", ylabel="both statements in the context")
    left.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, 1.13), ncols=3, frameon=False)
    right.set(xlabel="tokens of the context", ylabel="questions")
    right.legend(fontsize="small")
    save(figure, path)


def survives(one: Asked, context: Context) -> bool:
    reached = {
        end for s in context.statements if reaches(s, one.needed) for end in (s.edge.source_id, s.edge.target_id)
    }
    return all(entity.node_id in reached for entity in one.gathered.entities)


def published(context: Context) -> str:
    sentences = [
        f"{s.text} and Provenance of this association is {', '.join(s.edge.provenance)}" for s in context.statements
    ]
    return ". ".join(sentences) + "."


def floor(multiple: Sequence[Row], true_false: Sequence[Row]) -> None:
    """What needs no model and no graph."""
    scores = {"true or false": baselines("true_false_questions", true_false)} if true_false else {}
    print("\n".join(table({**scores, "multiple choice": baselines("mcq_questions", multiple)})))


if __name__ == "__main__":
    sys.exit(main())
