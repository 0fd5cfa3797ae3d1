"""Measure which of the edges that answer an open question are in its context.

    python scripts/evals/kg/edge_recall.py EDGES.jsonl.gz QUESTIONS.jsonl [--tokens 800] [--failures]

Questions: single_disease_entity_prompts* (the compounds that treat and the diseases that resemble one disease) and
two_disease_entity_prompts* (the nodes that two diseases share). Needed are the edges of the file between a disease of
the question and a node of its key, and for two diseases those of nodes that the file connects with both. A question
without any is not counted. Tokens are those of the encoder's vocabulary.
"""

from __future__ import annotations

import argparse
import ast
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from models.encoders.base import EncoderOptions
from models.encoders.registry import create_encoder
from retrieval.graph.context.select import ContextOptions
from retrieval.graph.types import Neighbourhood, Statement
from scripts.evals.graph_files import EdgeFile, Row, rows_of
from scripts.evals.kg.survival import Asked, asked_of, contexts, encoded


@dataclass(frozen=True, slots=True)
class Needed:
    """``edges``: ids of the edges that answer the question."""

    asked: Asked
    edges: frozenset[str]


def needed_of(row: Row, edges: EdgeFile) -> Needed | None:
    """None where the file has no edge that answers."""
    names = [row[key] for key in ("disease_1", "disease_2") if key in row]
    around = [edges.neighbourhood(name) for name in names]
    found = [one for one in around if one is not None]
    if len(found) < len(names):
        return None
    keys = {name.casefold() for column in ("Compounds", "Diseases", "central_nodes") for name in _names(row, column)}
    needed = [{other_of(s, one): s for s in one.statements if other_of(s, one) in keys} for one in found]
    shared = set.intersection(*(set(one) for one in needed))
    ids = frozenset(one[name].edge.edge_id for one in needed for name in shared)
    asked = asked_of({"correct_node": "", "disease_2": row["disease_1"], **row}, edges)
    return Needed(asked, ids) if ids and asked else None


def other_of(statement: Statement, around: Neighbourhood) -> str:
    """The name of the end that is not the disease, folded."""
    own = statement.source.node_id == around.node.node_id
    return (statement.target if own else statement.source).name.casefold()


def _names(row: Row, column: str) -> list[str]:
    return [str(name) for name in ast.literal_eval(row[column])] if row.get(column) else []


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("edges", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--tokens", type=int, default=800)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--failures", action="store_true", help="print each question of which an edge is missing")
    args = parser.parse_args(arguments)
    edges = EdgeFile(args.edges)
    needed = [found for row in rows_of(args.questions) if (found := needed_of(row, edges)) is not None]
    if not needed:
        print("no question has an answer among these edges")
        return 1
    encoder = create_encoder(args.encoder, EncoderOptions(device="cpu"))
    asked = [one.asked for one in needed]
    vectors = encoded(encoder, asked)
    print(f"{len(needed)} questions, {sum(len(one.edges) for one in needed)} edges that answer them\n")
    print("| rule | mean edge recall | whole | tokens mean | max |\n|---|---|---|---|---|")
    rules = {f"ours, {n} tokens": ContextOptions(tokens=n) for n in (args.tokens, args.tokens // 2)}
    for name, options in {**rules, "the paper's": ContextOptions(pruning="paper", tokens=None)}.items():
        told = contexts(encoder, asked, vectors, options)
        shares = [
            len(one.edges & {s.edge.edge_id for s in context.statements}) / len(one.edges)
            for one, context in zip(needed, told, strict=True)
        ]
        tokens = [context.tokens for context in told]
        whole = f"{sum(share == 1 for share in shares)}/{len(shares)}"
        print(f"| {name} | {statistics.mean(shares):.3f} | {whole} | {statistics.mean(tokens):.0f} | {max(tokens)} |")
        for one, share in zip(needed, shares, strict=True) if args.failures else ():
            if share < 1:
                print(f"- {share:.2f} {one.asked.row['text']} ({one.asked.degree} edges, {len(one.edges)} needed)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
