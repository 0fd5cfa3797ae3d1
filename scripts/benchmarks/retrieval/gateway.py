"""Measure the local NCBI gateway at a site's size: import rates and memory, query latency, requests per second.

    python -m scripts.benchmarks.retrieval.gateway --genes 1000000 --snps 1000000 --articles 200000 \\
        --folder runs/gateway

Writes invented files in NCBI's formats, imports each in a process of its own through the command line, then sends
esearch, esummary and elink in this process and over HTTP with many clients at once.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from retrieval.gateway.app import answer
from retrieval.gateway.store.open import STORE_NAME
from retrieval.gateway.store.reader import GatewayStore
from scripts.make_ncbi_sample import write_sample
from scripts.samples.world import World

_IMPORT = (
    "import sys, resource; from server.cli.main import main; code = main(sys.argv[1:]); "
    "print('peak', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024); sys.exit(code)"
)
_FILES = (
    ("taxdump", "taxdump.tar.gz"),
    ("gene_info", "gene_info.gz"),
    ("gene2pubmed", "gene2pubmed.gz"),
    ("dbsnp_vcf", "GCF_000001405.40.gz"),
    ("clinvar", "variant_summary.txt.gz"),
    ("pubmed", "pubmed26n*.xml.gz"),
)


def run_imports(files: Path, data: Path) -> None:
    print(f"{'file':24} {'entries':>10} {'seconds':>8} {'per s':>9} {'peak MB':>8}")
    for kind, pattern in _FILES:
        paths = sorted(files.glob(pattern))
        command = [sys.executable, "-c", _IMPORT, "gateway", "import", kind, *map(str, paths), "--data", str(data)]
        started = time.monotonic()
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        seconds = time.monotonic() - started
        lines = done.stdout.split("\n")
        entries = sum(int(line.split(": ")[1].split(" ")[0].replace(",", "")) for line in lines if " entries " in line)
        peak = next(int(line.split()[1]) for line in lines if line.startswith("peak"))
        print(f"{kind:24} {entries:>10,} {seconds:>8.1f} {entries / seconds:>9,.0f} {peak:>8,}", flush=True)


def calls_of(store: GatewayStore, draw: random.Random) -> dict[str, Callable[[], tuple[str, dict[str, str]]]]:
    """What people and models ask, each with a random subject."""
    symbols = [row[0] for row in store.query("SELECT uid FROM gene ORDER BY uid LIMIT 5000")]
    words = ["patients", "therapy", "variant", "risk", "severe", "screening", "protein", "tissue"]

    def symbol() -> str:
        gene = store.gene(str(draw.choice(symbols)))
        return gene.symbol if gene else ""

    def search(db: str, term: str, **more: str) -> tuple[str, dict[str, str]]:
        return "esearch", {"db": db, "term": term, "retmode": "json"} | more

    gene_id = symbols[0]
    return {
        "esearch gene SYM": lambda: search("gene", symbol(), sort="relevance"),
        "esearch gene SYM[sym] AND human[orgn]": lambda: search("gene", f"{symbol()}[sym] AND human[orgn]"),
        "esearch pubmed two words": lambda: search("pubmed", " ".join(draw.sample(words, 2))),
        "esearch pubmed two words, relevance": lambda: search(
            "pubmed", " ".join(draw.sample(words, 2)), sort="relevance"
        ),
        "esearch pubmed word[ti] AND years": lambda: search("pubmed", f"{draw.choice(words)}[ti] AND 2010:2015[dp]"),
        "esummary gene, 5 ids": lambda: (
            "esummary",
            {"db": "gene", "id": ",".join(str(draw.choice(symbols)) for _ in range(5)), "retmode": "json"},
        ),
        "elink gene pubmed": lambda: (
            "elink",
            {"dbfrom": "gene", "db": "pubmed", "id": str(draw.choice([gene_id, *symbols])), "retmode": "json"},
        ),
    }


def run_queries(store: GatewayStore, repeats: int) -> None:
    print(f"\n{'call':44} {'p50 ms':>8} {'p99 ms':>8}")
    draw = random.Random(3)
    for name, make in calls_of(store, draw).items():
        times = []
        for _ in range(repeats):
            endpoint, params = make()
            started = time.perf_counter()
            reply = answer(store, endpoint, params)
            times.append(1000 * (time.perf_counter() - started))
            assert reply.status == 200, reply.body
        times.sort()
        print(f"{name:44} {times[len(times) // 2]:>8.2f} {times[int(len(times) * 0.99)]:>8.2f}", flush=True)


async def run_clients(store: GatewayStore, port: int, clients: int, seconds: float) -> None:
    """esearch by symbol from many connections; NCBI's own limit is 3 requests a second."""
    make = calls_of(store, random.Random(4))["esearch gene SYM"]
    base = f"http://127.0.0.1:{port}/entrez/eutils/"
    end, done = time.monotonic() + seconds, 0

    async def client(session: httpx.AsyncClient) -> None:
        nonlocal done
        while time.monotonic() < end:
            endpoint, params = make()
            (await session.get(f"{base}{endpoint}.fcgi", params=params)).raise_for_status()
            done += 1

    limits = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(limits=limits, timeout=30, trust_env=False) as session:
        await asyncio.gather(*(client(session) for _ in range(clients)))
    print(f"\n{clients} clients over HTTP: {done / seconds:,.0f} esearch calls per second")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--genes", type=int, default=100_000)
    parser.add_argument("--snps", type=int, default=100_000)
    parser.add_argument("--articles", type=int, default=20_000)
    parser.add_argument("--folder", type=Path, default=Path("runs/gateway"))
    parser.add_argument("--repeats", type=int, default=500)
    parser.add_argument("--port", type=int, default=8799)
    args = parser.parse_args()
    files, data = args.folder / "files", args.folder / "data"
    if not (data / STORE_NAME).exists():
        files.mkdir(parents=True, exist_ok=True)
        write_sample(files, World(1, args.genes, args.snps, args.articles), lambda _: None)
        run_imports(files, data)
    store = GatewayStore(data / STORE_NAME)
    print(f"\nstore: {(data / STORE_NAME).stat().st_size / 2**20:,.0f} MB")
    run_queries(store, args.repeats)
    serve = [sys.executable, "-c", "import sys; from server.cli.main import main; sys.exit(main(sys.argv[1:]))"]
    server = subprocess.Popen([*serve, "gateway", "serve", "--data", str(data), "--port", str(args.port)])
    try:
        time.sleep(4)
        asyncio.run(run_clients(store, args.port, 32, 10))
    finally:
        server.terminate()
        server.wait(timeout=30)
    print(f"peak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB")


if __name__ == "__main__":
    main()
