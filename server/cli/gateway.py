"""Implement ``arrowhead gateway``: serve the local NCBI gateway, fill its store and report its content."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from server.settings.loading import load_settings

if TYPE_CHECKING:
    from retrieval.formats.items import ReadOptions


def add_gateway(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    serve = verbs.add_parser("serve", help="speak E-utilities and BLAST over a local store")
    serve.add_argument("--host", default="127.0.0.1")
    serve.add_argument("--port", type=int, default=8765)
    serve.set_defaults(run=_serve)
    imports = verbs.add_parser("import", help="take files downloaded from NCBI into the store")
    imports.add_argument(
        "kind", metavar="KIND", help="what the files are ('auto' looks at them); 'list' shows all kinds"
    )
    imports.add_argument("files", nargs="*", type=Path, metavar="FILE")
    imports.add_argument("--tax-id", type=int, action="append", default=[], help="of gene files, only this organism")
    imports.add_argument("--only-in-genes", action="store_true", help="of dbSNP, only variants in or near genes")
    imports.set_defaults(run=_import)
    database = verbs.add_parser("blast-database", help="make a BLAST database from FASTA files")
    database.add_argument("name", metavar="NAME", help="small letters, digits, - and _")
    database.add_argument("files", nargs="+", type=Path, metavar="FASTA")
    database.add_argument("--molecule", choices=("nucl", "prot"), required=True)
    database.add_argument("--title", default="")
    database.add_argument("--tax-id", type=int, help="of all sequences, where they are of one organism")
    database.add_argument("--default", action="store_true", help="answers for NCBI's usual names (nt, nr)")
    database.set_defaults(run=_blast_database)
    status = verbs.add_parser("status", help="what the store holds, and from which files")
    status.set_defaults(run=_status)
    for verb in (serve, imports, database, status):
        verb.add_argument("--data", type=Path, help="folder of the store; default: as the server's")


def _data_dir(args: argparse.Namespace) -> Path:
    from server.settings.paths import gateway_dir

    return Path(args.data) if args.data else gateway_dir(load_settings())


def _serve(args: argparse.Namespace) -> int:
    from retrieval.gateway.app import serve
    from server.observability.logging_setup import setup_logging
    from server.settings.observability import LogSettings
    from server.wiring.ncbi import blast_options

    setup_logging(LogSettings())
    serve(_data_dir(args), args.host, args.port, blast_options=blast_options(load_settings()))
    return 0


def _import(args: argparse.Namespace) -> int:
    from retrieval.formats.items import ReadOptions
    from retrieval.gateway.importing.registry import KINDS, guess_kind

    if args.kind == "list" and not args.files:
        for kind in KINDS.values():
            print(f"{kind.name}\t{kind.what}\t{kind.address}")
        return 0
    if args.kind != "auto" and args.kind not in KINDS:
        print(f"arrowhead: no kind of file is called {args.kind!r}; known: auto, {', '.join(KINDS)}", file=sys.stderr)
        return 2
    if not args.files:
        print("arrowhead: no FILE to import is named", file=sys.stderr)
        return 2
    options = ReadOptions(tax_ids=frozenset(args.tax_id) or None, only_in_genes=args.only_in_genes)
    kinds: list[str] = []
    for path in args.files:
        name = guess_kind(path) if args.kind == "auto" else args.kind
        if name is None:
            print(f"arrowhead: {path}: cannot tell what kind of file this is; name it", file=sys.stderr)
            return 2
        kinds.append(name)
    if unused := _unused_option(args, [KINDS[name].options for name in kinds]):
        print(f"arrowhead: {unused}: no file here is of a kind that it chooses from", file=sys.stderr)
        return 2
    for name, path in zip(kinds, args.files, strict=True):
        _import_one(_data_dir(args), name, path, options)
    return 0


def _unused_option(args: argparse.Namespace, options: Sequence[tuple[str, ...]]) -> str:
    """Return the first flag that applies to none of the files' kinds, "" where there is none.

    Such a flag is an error: the user would believe that it selected something.
    """
    for flag, given, name in (
        ("--tax-id", args.tax_id, "tax_ids"),
        ("--only-in-genes", args.only_in_genes, "only_in_genes"),
    ):
        if given and not any(name in of_kind for of_kind in options):
            return flag
    return ""


def _import_one(data_dir: Path, kind: str, path: Path, options: ReadOptions) -> None:
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    from retrieval.gateway.importing.registry import KINDS
    from retrieval.gateway.importing.run import Progress as Step
    from retrieval.gateway.importing.run import import_file

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(show_speed=True),
        TimeRemainingColumn(),
    )
    with Progress(*columns, transient=not sys.stderr.isatty()) as bars:
        shown: dict[str, int] = {}

        def watch(step: Step) -> None:
            if step.phase not in shown:
                shown[step.phase] = int(bars.add_task(f"{step.phase} {path.name}", total=step.total))
            detail = f", {step.entries:,} entries, {step.bad:,} bad" if step.entries or step.bad else ""
            bars.update(
                shown[step.phase],  # type: ignore[arg-type]  # rich's TaskID is an int
                completed=step.done,
                total=step.total,
                description=f"{step.phase} {path.name}{detail}",
            )

        result = import_file(data_dir, KINDS[kind], path, options, watch)
    if result.already:
        print(f"{path.name}: imported before, nothing to do")
        return
    print(f"{path.name}: {result.entries:,} entries imported, {result.bad:,} bad records passed over")
    for line, reason in result.first_bad:
        print(f"{path}:{line}: {reason}", file=sys.stderr)
    if result.bad > len(result.first_bad):
        print(f"{path}: {result.bad - len(result.first_bad):,} more bad records", file=sys.stderr)


def _blast_database(args: argparse.Namespace) -> int:
    from retrieval.gateway.blast.databases.build import build_blast_database

    made = build_blast_database(
        args.files,
        _data_dir(args) / "blast",
        name=args.name,
        title=args.title or args.name,
        molecule=args.molecule,
        taxids=args.tax_id,
        default=args.default,
    )
    print(f"{made.name}: {made.sequences or 0:,} sequences, {made.letters or 0:,} letters")
    return 0


def _status(args: argparse.Namespace) -> int:
    from retrieval.formats.records import DATABASES
    from retrieval.gateway.store.open import open_store

    store = open_store(_data_dir(args))
    try:
        print(f"{store.path}: {store.kind} store")
        for db in DATABASES:
            print(f"{db}\t{store.count(db):,}")
        for kind, name, options, entries, bad, finished in store.query(
            "SELECT kind, name, options, entries, bad, finished FROM imported ORDER BY finished"
        ):
            print(f"imported {finished}\t{kind}\t{name}\t{entries:,} entries\t{bad:,} bad\t{options}".rstrip())
    finally:
        store.close()
    return 0
