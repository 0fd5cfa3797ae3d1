"""Compare KG-RAG with full-text lookup and Cypher-RAG: one graph, the same questions, one count of tokens.

    python scripts/evals/kg/comparators.py QUESTIONS.jsonl EDGES.jsonl.gz... --folder DIR
        [--identifiers disease_name_with_id.csv] [--made 300] [--tokens 800] [--out FILE.json] [--plot FILE.png]
        [--base-url http://127.0.0.1:8000/v1 --model NAME]

QUESTIONS: rows of rag_comparison_data (disease_name, gene_name, gwas_pvalue, question, question_perturbed). EDGES: open
and recovered edges, which become one graph in DIR (reused by the next run). ``--made`` adds questions in the same
wordings about edges of the graph. Every question is asked unchanged, in its perturbed form (names in small letters) and
with one slip in the disease's name. Tokens are those of the encoder's tokenizer. A model at ``--base-url`` writes
Cypher as a further row; its key is in OPENAI_API_KEY.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path

from openai import AsyncOpenAI

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from models.catalog import EMBEDDED_DIR
from models.encoders.base import EncoderOptions
from models.encoders.registry import create_encoder
from models.engines.tokenizer import HfTokenizer
from retrieval.graph.context.select import ContextOptions
from scripts.evals.comparators import cypher_database, method_record
from scripts.evals.comparators.base import Retriever, TokenCount
from scripts.evals.comparators.cypher_rag import CypherRag
from scripts.evals.comparators.cypher_writers import ModelWriter, OracleWriter, QueryWriter
from scripts.evals.comparators.full_text import FullTextNodes, FullTextStatements
from scripts.evals.comparators.graph import Evaluated, build
from scripts.evals.comparators.kg_rag import KgRagRetriever
from scripts.evals.comparators.measures import (
    VARIANTS,
    Asked,
    Record,
    disease_table,
    record_of,
    rows_of_table,
    table,
    text_in,
)
from scripts.evals.comparators.plots import comparison
from scripts.evals.comparators.questions import Question, made, published
from scripts.evals.graph_files import rows_of
from scripts.evals.kg.baselines import read_identifiers

Sets = Mapping[str, Sequence[Question]]


def main() -> int:
    args = _arguments()
    encoder = create_encoder(args.encoder, EncoderOptions(device="cpu", dtype="float32", threads=args.threads))
    known = read_identifiers(args.identifiers) if args.identifiers else {}
    graph = build(args.edges, {name: min(ids) for name, ids in known.items()}, args.folder, encoder)
    sets = {
        "published questions": published(list(rows_of(args.questions)), graph.statements),
        "questions made from the graph": made(graph.statements, args.made, args.seed),
    }
    print(f"{len(graph.statements):,} statements; tokens of {encoder.name}, {args.threads} thread(s)\n")
    print("\n".join(_coverage(sets)) + "\n")
    asked = {name: [one for one in own if one.has_edge] for name, own in sets.items() if own}
    with tempfile.TemporaryDirectory() as folder:
        retrievers = _retrievers(graph, args, encoder.count_query_tokens, Path(folder))
        # The same long contexts come again and again.
        records = asyncio.run(measure(retrievers, asked, lru_cache(512)(encoder.count_query_tokens)))
    rows = rows_of_table(records)
    print("\n".join([*table(rows), "", *disease_table(rows)]))
    told = asyncio.run(_told(graph, asked["published questions"]))
    print("\n" + "\n".join(_told_table(told)))
    if args.out:
        found = {
            "rows": [row.as_json() for row in rows],
            "method": {name: [asdict(one) for one in own] for name, own in told.items()},
            "records": [record.as_json() for record in records],
        }
        args.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    if args.plot:
        comparison([row for row in rows if row.set == rows[-1].set], args.plot)
        data = {"rows": [row.as_json() for row in rows]}
        args.plot.with_suffix(".json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", type=Path)
    parser.add_argument("edges", type=Path, nargs="+")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--identifiers", type=Path)
    parser.add_argument("--made", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tokens", type=int, default=800)
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--base-url")
    parser.add_argument("--model", default="")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--plot", type=Path)
    args = parser.parse_args()
    if bool(args.base_url) != bool(args.model):
        parser.error("--base-url and --model go together")
    return args


def _retrievers(graph: Evaluated, args: argparse.Namespace, count: TokenCount, folder: Path) -> list[Retriever]:
    found: list[Retriever] = [
        FullTextStatements(graph.statements, args.tokens, count),
        FullTextNodes(graph.store),
        *_cypher(graph, args, count, folder),
    ]
    options = {
        "KG-RAG": ContextOptions(tokens=args.tokens, evidence=True),
        "KG-RAG, no evidence": ContextOptions(tokens=args.tokens),
        "KG-RAG, paper's choice": ContextOptions(pruning="paper", tokens=None, evidence=True),
    }
    return [*found, *(KgRagRetriever(name, graph, chosen, count) for name, chosen in options.items())]


def _cypher(graph: Evaluated, args: argparse.Namespace, count: TokenCount, folder: Path) -> list[Retriever]:
    if not cypher_database.is_installed():
        print("no rows for Cypher: install the extra 'comparators'\n", file=sys.stderr)
        return []
    path = folder / "graph.lbug"
    schema = cypher_database.write_database(path, graph.statements)
    database = cypher_database.CypherDatabase(path)
    writers: list[QueryWriter] = [OracleWriter(schema), OracleWriter(schema, any_case=True)]
    if args.base_url:
        client = AsyncOpenAI(base_url=args.base_url, api_key=os.environ.get("OPENAI_API_KEY", "none"))
        writers.append(ModelWriter(client, args.model, schema))
    return [CypherRag(writer, database, args.tokens, count) for writer in writers]


async def measure(retrievers: Sequence[Retriever], sets: Sets, count: TokenCount) -> list[Record]:
    """Every question in each variant through every retriever, one after another."""
    records = []
    for name, questions in sets.items():
        for retriever in retrievers:
            for variant in VARIANTS:
                for question in (one for one in questions if text_in(one, variant)):
                    begun = time.perf_counter()
                    found = await retriever.retrieve(text_in(question, variant))
                    ms = (time.perf_counter() - begun) * 1e3
                    records.append(record_of(Asked(name, retriever.name, variant, question), found, ms, count))
    return records


async def _told(graph: Evaluated, questions: Sequence[Question]) -> dict[str, list[method_record.Told]]:
    tokenizer = HfTokenizer.load(str(EMBEDDED_DIR))
    return {
        "names and p-value": await method_record.told(graph, questions, method_record.names_and_value, tokenizer),
        '"Yes" or the p-value': await method_record.told(graph, questions, method_record.bare, tokenizer),
    }


def _coverage(sets: Sets) -> list[str]:
    lines = ["| set | questions | edge in the graph | with the key's p-value |", "|---|---|---|---|"]
    for name, own in sets.items():
        edges, values = sum(one.has_edge for one in own), sum(one.has_p_value for one in own)
        lines.append(f"| {name} | {len(own)} | {edges}, {len(own) - edges} not | {values} |")
    return lines


def _told_table(told: Mapping[str, Sequence[method_record.Told]]) -> list[str]:
    parts = ("text_edge", "text_p_value", "text_provenance", "cited_edge", "cited_p_value", "cited_provenance")
    head = [part.replace("text_", "prompt: ").replace("cited_", "cited: ").replace("_", "-") for part in parts]
    lines = [f"| the model writes | {' | '.join(head)} | tokens, mean | max |", "|" + "---|" * (len(parts) + 3)]
    for name, own in told.items():
        shares = [f"{sum(getattr(one, part) for one in own)}/{len(own)}" for part in parts]
        tokens = [one.context_tokens for one in own]
        lines.append(f"| {name} | {' | '.join(shares)} | {sum(tokens) / len(tokens):.0f} | {max(tokens)} |")
    return lines


if __name__ == "__main__":
    sys.exit(main())
