"""Implement ``arrowhead index``: maintain a namespace's indices and load NCBI's published embeddings."""

from __future__ import annotations

import argparse
from pathlib import Path

from server.cli_namespace import opened, watched


def add_index(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    status = verbs.add_parser("status", help="types, rows and bytes of a namespace's indices")
    status.set_defaults(run=_status)
    rebuild = verbs.add_parser("rebuild", help="make an index again from the namespace's passages")
    rebuild.add_argument("--index", choices=("vectors", "words", "keywords"), action="append", help="default: all")
    rebuild.set_defaults(run=_rebuild)
    catch_up = verbs.add_parser("catch-up", help="index what waits to be indexed")
    catch_up.set_defaults(run=_catch_up)
    medcpt = verbs.add_parser("medcpt", help="take in NCBI's MedCPT embeddings of PubMed")
    medcpt.set_defaults(run=_medcpt)
    for verb in (status, rebuild, catch_up, medcpt):
        verb.add_argument("name", metavar="NAMESPACE")
        verb.add_argument("--config", type=Path, help="settings file (TOML)")
    medcpt.add_argument("folder", type=Path, help="with embeds_chunk_*.npy, pmids_chunk_*.json, pubmed_chunk_*.json")
    medcpt.add_argument("--estimate", action="store_true", help="only say what the vectors will take")


def _status(args: argparse.Namespace) -> int:
    with opened(args) as (_, retrieval), retrieval.namespaces.using(args.name) as namespace:
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


def _rebuild(args: argparse.Namespace) -> int:
    with opened(args) as (_, retrieval):
        with retrieval.namespaces.using(args.name) as namespace:
            targets = namespace.settings.targets
        for target in targets:
            if not args.index or target in args.index:
                retrieval.namespaces.empty_index(args.name, target)
    return _catch_up(args)


def _catch_up(args: argparse.Namespace) -> int:
    from retrieval.corpus.adding import catch_up

    with opened(args) as (_, retrieval), watched(args.name) as watch:
        added = catch_up(retrieval.namespaces, args.name, watch)
    print(f"{args.name}: {added.indexed:,} entries indexed")
    return 0


def _medcpt(args: argparse.Namespace) -> int:
    from rich.console import Console

    from retrieval.corpus.medcpt import add_medcpt, estimate_medcpt

    needed = estimate_medcpt(args.folder)
    print(
        f"{args.folder}: vectors take {needed.disk / 2**30:.2f} GiB on the disk, {needed.memory / 2**30:.2f} in memory"
    )
    if args.estimate:
        return 0
    with opened(args) as (_, retrieval), Console(stderr=True).status(args.name) as status:
        report = add_medcpt(
            retrieval.namespaces,
            args.name,
            args.folder,
            lambda count: status.update(f"{args.name}: {count:,} articles"),
        )
    print(
        f"{args.name}: {report.rows:,} articles with embeddings, {report.without_text:,} embeddings without text, "
        f"{report.without_row:,} texts without embedding, {len(report.passed_over)} chunks were there"
    )
    return _catch_up(args)
