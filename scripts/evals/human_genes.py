"""Ask GeneGPT on the default model about genes drawn from HGNC's table, and count the right answers.

    python -m scripts.evals.human_genes [--number 500] [--seed 1] [--each] [--json OUT] [--show]

The server runs in this process with a store of its own. Each gene gets one question, the kinds in turn; with ``--each``
every kind. Right is: of aliases, all that the table has; of a symbol or an Ensembl number, a gene that has it; of the
type, yes or no as the type of locus says, and the type itself where it says neither. Of a gene without aliases, or of
unknown type, only an answer that gives none is right.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

import httpx

from retrieval.formats.records import Gene
from retrieval.gateway.importing.human_genes import TABLE, human_genes
from retrieval.gateway.importing.run import add_human_genes
from scripts.evals.harness.intervals import wilson
from server.app import create_app
from server.settings.schema import Settings
from server.wiring.bootstrap import build_services

Kind = Literal["aliases", "symbol", "coding", "ensembl"]
KINDS: Final[tuple[Kind, ...]] = ("aliases", "symbol", "coding", "ensembl")
_WORDING: Final[Mapping[Kind, str]] = {
    "aliases": "What are other names of {}?",
    "symbol": "What is the official symbol of {}?",
    "coding": "Is {} protein-coding?",
    "ensembl": "Which gene is {}?",
}
_NO_PRODUCT: Final = frozenset(("pseudo", "ncRNA", "rRNA", "tRNA", "snRNA", "snoRNA"))


@dataclass(frozen=True, slots=True)
class Asked:
    """Hold one question; ``names`` are the answers that are right, all of them of aliases, one of them otherwise."""

    kind: Kind
    gene: str
    text: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answered:
    asked: Asked
    answer: str
    outcome: str
    is_right: bool
    seconds: float


def question_of(kind: Kind, gene: Gene, named: Mapping[str, tuple[str, ...]]) -> Asked | None:
    """Return the question about a gene, None where the table lacks what it would name.

    ``named``: the symbols of the genes that have a name, by its small letters.
    """
    subject, names = gene.symbol, gene.aliases
    if kind == "symbol":
        subject = gene.aliases[0] if gene.aliases else gene.symbol
        names = named[subject.casefold()]
    elif kind == "ensembl":
        subject, names = gene.ensembl, named.get(gene.ensembl.casefold(), ())
    elif kind == "coding":
        says = "Yes" if gene.gene_type == "protein-coding" else "No" if gene.gene_type in _NO_PRODUCT else ""
        names = (says or gene.locus_type,) if gene.gene_type != "unknown" else ()
    return Asked(kind, gene.symbol, _WORDING[kind].format(subject), names) if subject else None


def names_of_genes(genes: Sequence[Gene]) -> dict[str, tuple[str, ...]]:
    """Return the symbols of the genes that have a symbol, alias or Ensembl number; a symbol means its own gene."""
    found: dict[str, list[str]] = defaultdict(list)
    for gene in genes:
        for name in filter(None, (*gene.aliases, gene.ensembl)):
            found[name.casefold()].append(gene.symbol)
    found |= {gene.symbol.casefold(): [gene.symbol] for gene in genes}
    return {name: tuple(symbols) for name, symbols in found.items()}


def is_right(asked: Asked, answer: str, outcome: str) -> bool:
    if outcome not in ("answered", "partial"):
        return not asked.names
    given = {part.strip().rstrip(".").casefold() for part in answer.split(",")}
    wanted = {name.casefold() for name in asked.names}
    return bool(wanted) and (wanted <= given if asked.kind == "aliases" else not given.isdisjoint(wanted))


def questions(number: int, seed: int, *, each: bool) -> Iterator[Asked]:
    genes = list(human_genes(TABLE.read_bytes()))
    named = names_of_genes(genes)
    for place, gene in enumerate(random.Random(seed).sample(genes, number)):
        kinds = KINDS if each else (KINDS[place % len(KINDS)],)
        yield from filter(None, (question_of(kind, gene, named) for kind in kinds))


async def ask(http: httpx.AsyncClient, model: str, asked: Asked) -> Answered:
    began = time.perf_counter()
    body = {
        "model": model,
        "messages": [{"role": "user", "content": asked.text}],
        "arrowhead": {"references": False},
    }
    reply = (await http.post("/v1/chat/completions", json=body)).raise_for_status().json()
    message = reply["choices"][0]["message"]
    outcome, answer = str(message["arrowhead"]["outcome"]), str(message["content"] or "").partition("\n")[0].strip()
    return Answered(asked, answer, outcome, is_right(asked, answer, outcome), time.perf_counter() - began)


async def run(rows: Sequence[Asked], *, show: bool) -> list[Answered]:
    found = []
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings.model_validate(_fields(Path(folder)))
        await asyncio.to_thread(add_human_genes, Path(folder) / "gateway")
        services = build_services(settings)
        services.start()
        await services.loaded()
        transport = httpx.ASGITransport(create_app(services))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=600) as http:
            for row in rows:
                found.append(await ask(http, f"{services.lifecycle.card.name}:genegpt", row))
                one = found[-1]
                if show or not one.is_right:
                    print(f"{one.is_right!s:6}{one.outcome:10}{row.text!r} {one.answer[:90]!r} {row.names}", flush=True)
        await services.close()
    return found


def _fields(folder: Path) -> dict[str, Any]:
    return {
        "gateway": {"data_dir": str(folder / "gateway")},
        "retrieval": {"data_dir": str(folder / "namespaces")},
        "graph": {"data_dir": str(folder / "graphs")},
        "egress": {"mode": "off"},
    }


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--number", type=int, default=500, help="genes that are drawn")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", action="store_true", help="ask every kind of each gene")
    parser.add_argument("--json", type=Path, help="write the answers there")
    parser.add_argument("--show", action="store_true", help="print right answers as well")
    args = parser.parse_args(argv)
    found = asyncio.run(run(list(questions(args.number, args.seed, each=args.each)), show=args.show))
    total, right = Counter(one.asked.kind for one in found), Counter(one.asked.kind for one in found if one.is_right)
    for kind in KINDS:
        print(f"{kind:10}{right[kind]:5} of {total[kind]}")
    share = wilson(right.total(), total.total())
    print(f"all       {right.total():5} of {total.total()} ({share.low:.3f} to {share.high:.3f})")
    if args.json:
        args.json.write_text(json.dumps([asdict(one) for one in found], indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
