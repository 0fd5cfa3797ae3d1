"""Implement ``arrowhead gateway``: serve the local NCBI gateway, fill its store and report its content."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from server.cli.options import ConfigFile, verbs, wrong

if TYPE_CHECKING:
    from rich.progress import Progress

    from retrieval.formats.items import ReadOptions
    from retrieval.gateway.article_vectors import ArticleVectors
    from retrieval.gateway.store.reader import GatewayStore


Molecule = Literal["nucl", "prot"]
app = verbs("the local NCBI gateway")
DataFolder = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="folder of the store; default: as the server's")
]


def _data_dir(data: Path | None) -> Path:
    from server.settings.loading import gateway_dir, load_settings
    from server.wiring.data_folder import protect

    if data is not None:
        return data
    folder = gateway_dir(load_settings())
    protect(folder)
    return folder


@app.command("serve", help="speak E-utilities and BLAST over a local store")
def serve_gateway(host: str = "127.0.0.1", port: int = 8765, data: DataFolder = None) -> int:
    from retrieval.gateway.app import serve
    from retrieval.gateway.blast.service import BlastOptions
    from server.observability.observer import setup_logging
    from server.settings.loading import load_settings
    from server.settings.server import LogSettings

    setup_logging(LogSettings())
    settings = load_settings()
    blast = BlastOptions(blastdb_dirs=settings.gateway.blastdb_dirs)
    serve(_data_dir(data), host, port, blast_options=blast, human_genes=settings.gateway.human_genes)
    return 0


@app.command("import", help="take files downloaded from NCBI into the store")
def import_files(
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="what the files are ('auto' looks at them); 'list' shows all kinds")
    ],
    files: Annotated[list[Path] | None, typer.Argument(metavar="FILE")] = None,
    tax_id: Annotated[list[int] | None, typer.Option(help="of gene files, only this organism")] = None,
    only_in_genes: Annotated[
        bool, typer.Option("--only-in-genes", help="of dbSNP, only variants in or near genes")
    ] = False,
    data: DataFolder = None,
) -> int:
    from retrieval.formats.items import ReadOptions
    from retrieval.gateway.importing.registry import KINDS

    if kind == "list" and not files:
        for one in KINDS.values():
            print(f"{one.name}\t{one.what}\t{one.address}")
        return 0
    if kind != "auto" and kind not in KINDS:
        return wrong(f"no kind of file is called {kind!r}; known: auto, {', '.join(KINDS)}")
    if not files:
        return wrong("no FILE to import is named")
    options = ReadOptions(tax_ids=frozenset(tax_id or ()) or None, only_in_genes=only_in_genes)
    kinds = [_kind_of(path) if kind == "auto" else kind for path in files]
    if "" in kinds:
        return wrong(f"{files[kinds.index('')]}: cannot tell what kind of file this is; name it")
    if unused := _unused_option(options, [KINDS[name].options for name in kinds]):
        return wrong(f"{unused}: no file here is of a kind that it chooses from")
    for name, path in zip(kinds, files, strict=True):
        _import_one(_data_dir(data), name, path, options)
    if "pubmed" in kinds:
        print("to find articles by their meaning as well: arrowhead gateway vectors")
    return 0


def _kind_of(path: Path) -> str:
    from retrieval.gateway.importing.registry import guess_kind

    return guess_kind(path) or ""


def _unused_option(read_options: ReadOptions, options: Sequence[tuple[str, ...]]) -> str:
    """Return the first flag that applies to none of the files' kinds, "" where there is none.

    Such a flag is an error: the user would believe that it selected something.
    """
    for flag, value, name in (
        ("--tax-id", read_options.tax_ids, "tax_ids"),
        ("--only-in-genes", read_options.only_in_genes, "only_in_genes"),
    ):
        if value and not any(name in of_kind for of_kind in options):
            return flag
    return ""


def _import_one(data_dir: Path, kind: str, path: Path, options: ReadOptions) -> None:
    from retrieval.gateway.importing.registry import KINDS
    from retrieval.gateway.importing.run import Progress as Step
    from retrieval.gateway.importing.run import import_file
    from server.printable import for_log

    name = for_log(path.name, 80)
    with _bars() as bars:
        task_ids: dict[str, int] = {}

        def watch(step: Step) -> None:
            if step.phase not in task_ids:
                task_ids[step.phase] = int(bars.add_task(f"{step.phase} {name}", total=step.total))
            detail = f", {step.entries:,} entries, {step.bad:,} bad" if step.entries or step.bad else ""
            bars.update(
                task_ids[step.phase],  # type: ignore[arg-type]  # rich's TaskID is an int
                completed=step.done,
                total=step.total,
                description=f"{step.phase} {name}{detail}",
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


def _bars() -> Progress:
    """Return bars of progress on the terminal, none that stay where nobody watches."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    from server.printable import unescaped

    columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(show_speed=True), TimeRemainingColumn()
    return Progress(*columns, console=Console(file=unescaped(sys.stdout)), transient=not sys.stderr.isatty())


@app.command(help="make the vectors by which Clinfo.ai finds articles, of those that are new or changed")
def vectors(
    no_tokens: Annotated[
        bool, typer.Option("--no-tokens", help="without token vectors, some 6 KB an article, which a review reads")
    ] = False,
    data: DataFolder = None,
    config: ConfigFile = None,
) -> int:
    import asyncio

    from retrieval.gateway.store.open import open_store
    from server.evidence.encoders import EncoderPool
    from server.settings.loading import load_settings
    from server.wiring.articles import article_vectors

    settings, folder = load_settings(None, config), _data_dir(data)
    encoders = EncoderPool(settings.retrieval)
    store = open_store(folder)
    try:
        _update_vectors(store, article_vectors(settings, encoders, folder), tokens=not no_tokens)
    finally:
        store.close()
        asyncio.run(encoders.close())
    return 0


def _update_vectors(store: GatewayStore, vectors: ArticleVectors, *, tokens: bool) -> None:
    try:
        with _bars() as bars:
            task = bars.add_task("reading articles", total=store.count("pubmed"))
            done = vectors.update(store, lambda articles: bars.advance(task, articles), tokens=tokens)
        print(f"vectors made: {done.encoded:,}, removed: {done.removed:,}; articles that have one: {vectors.rows:,}")
    finally:
        vectors.close()


@app.command(help="what the store holds, and of each table source, date, entries and licence")
def status(data: DataFolder = None) -> int:
    from retrieval.formats.records import DATABASES
    from retrieval.gateway.importing.tables import tables_of
    from retrieval.gateway.store.open import open_store

    store = open_store(_data_dir(data))
    try:
        print(f"{store.path}: {store.kind} store")
        for db in DATABASES:
            print(f"{db}\t{store.count(db):,}")
        for table in tables_of(store):
            bad = f", {table.bad:,} bad records passed over" if table.bad else ""
            print(f"\n{table.name}: {table.entries:,} entries{bad}\n  source   {table.source}")
            print(f"  date     {table.date}\n  licence  {table.licence}")
            if table.file:
                print(f"  file     {table.file}")
            if table.replaced_by:
                print(f"  replaced by arrowhead gateway import: {table.replaced_by}")
    finally:
        store.close()
    return 0
