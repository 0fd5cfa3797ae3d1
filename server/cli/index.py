"""Implement ``arrowhead index``: report, rebuild and fill the vector and word indices of namespaces."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from server.cli.namespaces import opened, watched
from server.cli.options import ConfigFile, verbs

app = verbs("vector and word indices of namespaces")
Name = Annotated[str, typer.Argument(metavar="NAMESPACE")]


class Target(StrEnum):
    """List the indices of a namespace; typer takes no list of literals."""

    VECTORS = "vectors"
    WORDS = "words"
    KEYWORDS = "keywords"


@app.command(help="types, rows and bytes of a namespace's indices")
def status(name: Name, config: ConfigFile = None) -> int:
    with opened(config) as (_, retrieval), retrieval.namespaces.using(name) as namespace:
        pending = namespace.store.counts().pending
        for target in namespace.settings.targets:
            if not namespace.has(target):
                print(f"{target}\tnot made yet\t{pending[target]:,} to index")
                continue
            rows = namespace.rows(target)
            detail = ""
            if target == "vectors":
                stats = namespace.vectors.stats()
                kinds = stats.detail.get("kinds", "")
                detail = f"\t{stats.segments} segments {kinds}\t{stats.deleted:,} deleted\t{stats.bytes_disk:,} bytes"
            print(f"{target}\t{rows:,} rows\t{pending[target]:,} to index{detail}")
    return 0


@app.command(help="make an index again from the namespace's passages")
def rebuild(
    name: Name,
    index: Annotated[list[Target] | None, typer.Option(help="default: all")] = None,
    config: ConfigFile = None,
) -> int:
    with opened(config) as (_, retrieval):
        with retrieval.namespaces.using(name) as namespace:
            targets = namespace.settings.targets
        for target in targets:
            if not index or target in index:
                retrieval.namespaces.empty_index(name, target)
    return catch_up_namespace(name, config)


@app.command("catch-up", help="index what waits to be indexed")
def catch_up_namespace(name: Name, config: ConfigFile = None) -> int:
    from retrieval.corpus.ingest.add import catch_up

    with opened(config) as (_, retrieval), watched(name) as watch:
        added = catch_up(retrieval.namespaces, name, watch)
    print(f"{name}: {added.indexed:,} entries indexed")
    return 0


@app.command(help="take in NCBI's MedCPT embeddings of PubMed")
def medcpt(
    name: Name,
    folder: Annotated[Path, typer.Argument(help="with embeds_chunk_*.npy, pmids_chunk_*.json, pubmed_chunk_*.json")],
    estimate: Annotated[bool, typer.Option("--estimate", help="only say what the vectors will take")] = False,
    config: ConfigFile = None,
) -> int:
    from rich.console import Console

    from retrieval.corpus.ingest.medcpt import add_medcpt, estimate_medcpt
    from server.printable import unescaped

    needed = estimate_medcpt(folder)
    print(f"{folder}: vectors take {needed.disk / 2**30:.2f} GiB on the disk, {needed.memory / 2**30:.2f} in memory")
    if estimate:
        return 0
    with opened(config) as (_, retrieval), Console(file=unescaped(sys.stderr)).status(name) as status:
        report = add_medcpt(
            retrieval.namespaces,
            name,
            folder,
            lambda count: status.update(f"{name}: {count:,} articles"),
        )
    print(
        f"{name}: {report.rows:,} articles with embeddings, {report.without_text:,} embeddings without text, "
        f"{report.without_row:,} texts without embedding, {len(report.passed_over)} chunks were there"
    )
    return catch_up_namespace(name, config)
