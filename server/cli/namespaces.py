"""Implement ``arrowhead namespace``: build and maintain corpora from files and PubMed queries."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from server.settings.loading import load_settings

if TYPE_CHECKING:
    from retrieval.corpus.ingest.add import ChangeHooks, ChangeReport
    from retrieval.corpus.ingest.pubmed_sync import FetchReport
    from server.evidence.passages import Retrieval
    from server.settings.schema import Settings


Run = Callable[[argparse.Namespace], int]


def add_namespace(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    def verb(name: str, text: str, run: Run, *, named: bool = True) -> argparse.ArgumentParser:
        made: argparse.ArgumentParser = verbs.add_parser(name, help=text)
        if named:
            made.add_argument("name", metavar="NAME")
        made.add_argument("--config", type=Path, help="settings file (TOML)")
        made.set_defaults(run=run)
        return made

    create = verb("create", "make an empty one", _create)
    create.add_argument("--encoder", help="default: retrieval.encoder; 'none' for words alone")
    create.add_argument("--words", default="tantivy", choices=("tantivy", "none"), help="index of words (BM25)")
    create.add_argument("--no-keywords", action="store_true", help="without the index for keyword frequency (PES2)")
    create.add_argument("--chunk-size", type=int, default=2000, help="characters of a passage")
    create.add_argument("--chunk-overlap", type=int, default=0)
    create.add_argument("--across-sections", action="store_true", help="passages may go from one section to the next")
    verb("list", "all of them, with what they hold", _list, named=False)
    add = verb("add", "take in documents from files", _add)
    add.add_argument("files", nargs="+", type=Path, metavar="FILE")
    add.add_argument("--kind", default="", help="reader: pubmed, pubmed-json, pmc, medrag, statpearls, pdf, text")
    fetch = verb("fetch", "take in what a PubMed query finds, and remember the query", _fetch)
    fetch.add_argument("term", help="in PubMed's syntax")
    fetch.add_argument("--from", dest="date_from", default="", metavar="YYYY/MM/DD")
    fetch.add_argument("--to", dest="date_to", default="", metavar="YYYY/MM/DD")
    fetch.add_argument("--limit", type=int, default=0, help="only so many, the newest")
    fetch.add_argument("--full-text", action="store_true", help="also full texts, where PMC has them open")
    verb("update", "run its queries again: only what is new is fetched", _update)
    verb("remove", "take documents away", _remove).add_argument("documents", nargs="+", metavar="DOCUMENT")
    verb("delete", "delete it with all it holds", _delete).add_argument("--yes", action="store_true", required=True)
    verb("verify", "hold store and indices against each other", _verify)
    verb("export", "write it to a folder or a .tar", _export).add_argument("target", type=Path)
    load = verb("import", "make one from an export", _import, named=False)
    load.add_argument("source", type=Path)
    load.add_argument("--name", default="", help="default: the one it was exported as")


@contextmanager
def opened(args: argparse.Namespace) -> Iterator[tuple[Settings, Retrieval]]:
    from server.settings.paths import namespaces_dir
    from server.wiring.retrieval import build_retrieval

    settings = load_settings(None, args.config)
    retrieval = build_retrieval(settings.retrieval, namespaces_dir(settings))
    try:
        yield settings, retrieval
    finally:
        asyncio.run(retrieval.close())


def _create(args: argparse.Namespace) -> int:
    from retrieval.corpus.chunking import Chunking
    from retrieval.corpus.namespaces.settings import NamespaceSettings

    with opened(args) as (settings, retrieval):
        encoder = args.encoder or settings.retrieval.encoder
        chunking = Chunking(size=args.chunk_size, overlap=args.chunk_overlap, by_section=not args.across_sections)
        made = NamespaceSettings(
            encoder="" if encoder == "none" else encoder,
            words=args.words,
            keywords=not args.no_keywords,
            chunking=chunking,
        )
        if made.encoder:
            retrieval.encoders.check(made.encoder)
        retrieval.namespaces.create(args.name, made, datetime.now(UTC).date().isoformat())
    print(f"{args.name}: made, encoder {encoder}, words {args.words}")
    return 0


def _list(args: argparse.Namespace) -> int:
    with opened(args) as (_, retrieval):
        for name in retrieval.namespaces.names():
            found = retrieval.namespaces.describe(name)
            if found.counts is None or found.settings is None:
                print(f"{name}\tdamaged: {found.damage}")
                continue
            counts = found.counts
            waiting = sum(counts.pending.values())
            print(
                f"{name}\t{counts.documents:,} documents\t{counts.passages:,} passages\t{found.bytes_disk:,} bytes\t"
                f"encoder {found.settings.encoder or 'none'}\twords {found.settings.words}"
                + (f"\t{waiting:,} to index" if waiting else "")
            )
    return 0


def _add(args: argparse.Namespace) -> int:
    from retrieval.corpus.ingest.add import add_file
    from retrieval.corpus.items import ReadOptions

    with opened(args) as (_, retrieval):
        for path in args.files:
            with watched(f"{args.name}: {path.name}") as watch:
                added = add_file(retrieval.namespaces, args.name, path, ReadOptions(kind=args.kind), watch)
            if added.already:
                print(f"{path.name}: added before, nothing to do")
            else:
                _say(path.name, added)
    return 0


def _fetch(args: argparse.Namespace) -> int:
    from retrieval.corpus.ingest.pubmed_sync import PubmedQuery

    query = PubmedQuery(
        term=args.term,
        date_from=args.date_from,
        date_to=args.date_to,
        limit=args.limit,
        full_text=args.full_text,
    )
    return _with_ncbi(args, query)


def _update(args: argparse.Namespace) -> int:
    return _with_ncbi(args, None)


def _with_ncbi(args: argparse.Namespace, query: object) -> int:
    """Run one query, or with None all stored queries of the namespace, under the server's egress rules."""
    from retrieval.corpus.ingest.pubmed_sync import PubmedQuery, add_query, update
    from server.wiring.ncbi import open_ncbi

    async def work(settings: Settings, retrieval: Retrieval, watch: ChangeHooks) -> list[FetchReport]:
        async with open_ncbi(settings) as fetch:
            if isinstance(query, PubmedQuery):
                return [await add_query(fetch, retrieval.namespaces, args.name, query, watch)]
            return await update(fetch, retrieval.namespaces, args.name, watch)

    with opened(args) as (settings, retrieval), watched(args.name) as watch:
        done = asyncio.run(work(settings, retrieval, watch))
    for fetched in done:
        known = f", {fetched.known:,} known" if fetched.known else ""
        print(f"{args.name}: {fetched.listed.count:,} articles found{known}")
        for word in fetched.listed.not_found:
            print(f"arrowhead: {word!r} stands nowhere and was left out", file=sys.stderr)
        if fetched.missing:
            print(f"arrowhead: {len(fetched.missing):,} articles were listed and not sent", file=sys.stderr)
        _say(args.name, fetched.added)
    if not done:
        print(f"{args.name}: remembers no query; `arrowhead namespace fetch` makes one")
    return 0


def _remove(args: argparse.Namespace) -> int:
    from retrieval.corpus.ingest.add import remove

    with opened(args) as (_, retrieval), watched(args.name) as watch:
        removed = remove(retrieval.namespaces, args.name, args.documents, watch).withdrawn
    print(f"{args.name}: {removed:,} of {len(args.documents):,} documents removed")
    return 0 if removed == len(args.documents) else 1


def _delete(args: argparse.Namespace) -> int:
    with opened(args) as (_, retrieval):
        retrieval.namespaces.delete(args.name)
    print(f"{args.name}: deleted")
    return 0


def _verify(args: argparse.Namespace) -> int:
    from retrieval.corpus.namespaces.verify import verify

    with opened(args) as (_, retrieval):
        report = verify(retrieval.namespaces, args.name)
    for fault in report.faults:
        print(f"{args.name}: {fault}")
    pending = ", ".join(f"{count:,} to index in {target}" for target, count in report.pending.items() if count)
    state = "whole" if report.whole else "damaged"
    print(f"{args.name}: {state}, {report.documents:,} documents, {report.passages:,} passages, sha256 {report.sha256}")
    if pending:
        print(f"{args.name}: {pending}; the next change does it")
    return 0 if report.whole else 1


def _export(args: argparse.Namespace) -> int:
    from retrieval.corpus.transfer import export

    with opened(args) as (_, retrieval):
        parts = export(retrieval.namespaces, args.name, args.target)
    print(f"{args.target}: {len(parts)} parts, {sum(part.bytes for part in parts):,} bytes")
    return 0


def _import(args: argparse.Namespace) -> int:
    from retrieval.corpus.ingest.add import catch_up
    from retrieval.corpus.transfer import import_namespace

    with opened(args) as (_, retrieval):
        name = import_namespace(retrieval.namespaces, args.source, args.name)
        with watched(name) as watch:
            added = catch_up(retrieval.namespaces, name, watch)
    print(f"{name}: imported, {added.indexed:,} entries indexed")
    return 0


def _say(what: str, added: ChangeReport) -> None:
    numbers = {
        "added": added.added,
        "changed": added.changed,
        "noted": added.noted,
        "unchanged": added.unchanged,
        "withdrawn": added.withdrawn,
    }
    counts = ", ".join(f"{count:,} {word}" for word, count in numbers.items() if count) or "nothing new"
    print(f"{what}: {counts}; {added.indexed:,} entries indexed" + (", stopped" if added.cancelled else ""))
    for passed in added.first_passed:
        print(f"{passed.file}:{passed.line}: {passed.reason}", file=sys.stderr)
    if added.passed > len(added.first_passed):
        print(f"{what}: {added.passed - len(added.first_passed):,} more records passed over", file=sys.stderr)


@contextmanager
def watched(what: str) -> Iterator[ChangeHooks]:
    """Show progress on one line of the terminal.

    Ctrl-C ends at the next batch and leaves everything consistent.
    """
    import signal

    from rich.console import Console

    from retrieval.corpus.ingest.add import ChangeHooks, Progress

    stopped = False

    def stop(*_: object) -> None:
        nonlocal stopped
        stopped = True

    before = signal.signal(signal.SIGINT, stop)
    console = Console(stderr=True)
    try:
        with console.status(what) as status:

            def show(step: Progress) -> None:
                status.update(
                    f"{what}: {step.read:,} documents ({step.documents_per_s:,.0f}/s), {step.indexed:,} entries "
                    f"indexed ({step.passages_per_s:,.0f}/s), {step.waiting:,} waiting"
                )

            yield ChangeHooks(progress=show, cancelled=lambda: stopped)
    finally:
        signal.signal(signal.SIGINT, before)


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
    from retrieval.corpus.ingest.add import catch_up

    with opened(args) as (_, retrieval), watched(args.name) as watch:
        added = catch_up(retrieval.namespaces, args.name, watch)
    print(f"{args.name}: {added.indexed:,} entries indexed")
    return 0


def _medcpt(args: argparse.Namespace) -> int:
    from rich.console import Console

    from retrieval.corpus.ingest.medcpt import add_medcpt, estimate_medcpt

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
