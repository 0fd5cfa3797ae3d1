"""Implement ``arrowhead namespace``: build and maintain corpora from files and PubMed queries."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from server.cli.options import ConfigFile, verbs

if TYPE_CHECKING:
    from models.encoders.base import Encoder
    from retrieval.corpus.ingest.add import ChangeHooks, ChangeReport, FileResult
    from retrieval.corpus.ingest.pubmed_sync import FetchReport, PubmedQuery
    from retrieval.corpus.namespaces.registry import Namespaces
    from retrieval.storage.database import SharedDatabase
    from server.evidence.passages import Retrieval
    from server.settings.schema import Settings


app = verbs("corpora of one's own, and their indices")
Name = Annotated[str, typer.Argument(metavar="NAME")]
Words = Literal["tantivy", "none"]
_SOME: Final = 3
_BLOCK: Final = 200
_BLAS_THREADS: Final = "OPENBLAS_NUM_THREADS"


@contextmanager
def opened(config: Path | None) -> Iterator[tuple[Settings, Retrieval]]:
    """Open the namespaces of the settings; load no encoder."""
    import asyncio

    from server.settings.loading import load_settings, namespaces_dir
    from server.wiring.data_folder import protect
    from server.wiring.retrieval import build_retrieval

    settings = load_settings(None, config)
    protect(namespaces_dir(settings))
    retrieval = build_retrieval(settings.retrieval, namespaces_dir(settings), database=shared_database(settings))
    try:
        yield settings, retrieval
    finally:
        asyncio.run(retrieval.close())


@contextmanager
def _described(config: Path | None) -> Iterator[Namespaces]:
    """Open the namespaces of the settings to describe them: of what a server needs, nothing else is imported."""
    _import_numpy_without_threads()
    from server.settings.loading import load_settings, namespaces_dir
    from server.wiring.data_folder import protect
    from server.wiring.namespaces import build_namespaces

    def encoder(name: str) -> Encoder:
        from server.evidence.encoders import EncoderPool

        return EncoderPool(settings.retrieval).encoder(name)

    settings = load_settings(None, config)
    protect(namespaces_dir(settings))
    database = shared_database(settings)
    namespaces = build_namespaces(settings.retrieval, namespaces_dir(settings), encoder, database)
    try:
        yield namespaces
    finally:
        namespaces.close()
        if database is not None:
            database.close()


def shared_database(settings: Settings) -> SharedDatabase | None:
    """Return the database that holds the namespaces, None where they are files."""
    if settings.retrieval.storage == "files":
        return None
    from server.wiring.state import open_database, open_passage_database

    return open_passage_database(settings, open_database(settings))


def _import_numpy_without_threads() -> None:
    """Import NumPy with a BLAS of one thread, for a command that computes nothing.

    Starting OpenBLAS's threads takes most of the import's processor time. The variable is removed again: FAISS and
    torch bring a BLAS of their own, which reads it when it is loaded.
    """
    if _BLAS_THREADS in os.environ:
        return
    os.environ[_BLAS_THREADS] = "1"
    try:
        import numpy  # noqa: F401
    finally:
        del os.environ[_BLAS_THREADS]


@app.command(help="make an empty one")
def create(
    name: Name,
    encoder: Annotated[
        str | None, typer.Option(help="default: the first of retrieval.encoders; 'none' for words alone")
    ] = None,
    words: Annotated[Words, typer.Option(help="index of words (BM25) and keywords (PES2)")] = "tantivy",
    no_tokens: Annotated[
        bool, typer.Option("--no-tokens", help="without token vectors, which order the best hits")
    ] = False,
    chunk_size: Annotated[int, typer.Option(help="characters of a passage")] = 2000,
    chunk_overlap: int = 0,
    across_sections: Annotated[
        bool, typer.Option("--across-sections", help="passages may go from one section to the next")
    ] = False,
    config: ConfigFile = None,
) -> int:
    from retrieval.corpus.chunking import Chunking
    from retrieval.corpus.namespaces.settings import NamespaceSettings

    with opened(config) as (settings, retrieval):
        encoder = encoder or settings.retrieval.encoder
        chunking = Chunking(size=chunk_size, overlap=chunk_overlap, by_section=not across_sections)
        namespace_settings = NamespaceSettings(
            encoder="" if encoder == "none" else encoder, words=words, tokens=not no_tokens, chunking=chunking
        )
        if namespace_settings.encoder:
            retrieval.encoders.check(namespace_settings.encoder)
            if namespace_settings.tokens:
                retrieval.encoders.check_tokens(namespace_settings.encoder, "--no-tokens")
        retrieval.namespaces.create(name, namespace_settings, datetime.now(UTC).date().isoformat())
    print(f"{name}: made, encoder {encoder}, words {words}")
    return 0


@app.command("list", help="all of them, with what they hold")
def list_namespaces(config: ConfigFile = None) -> int:
    with _described(config) as namespaces:
        for name in namespaces.names():
            info = namespaces.describe(name)
            if info.counts is None or info.settings is None:
                print(f"{name}\tdamaged: {info.damage}")
                continue
            counts = info.counts
            waiting = sum(counts.pending.values())
            print(
                f"{name}\t{counts.documents:,} documents\t{counts.passages:,} passages\t{info.bytes_disk:,} bytes\t"
                f"encoder {' '.join(info.settings.encoder_ids) or 'none'}\twords {info.settings.words}"
                + (f"\t{waiting:,} to index" if waiting else "")
            )
    return 0


@app.command(help="take in documents from files; 3 is the exit status where only some were taken in")
def add(
    name: Name,
    files: Annotated[list[Path], typer.Argument(metavar="FILE")],
    kind: Annotated[
        str,
        typer.Option(
            help="reader: pubmed, pubmed-json, nbib, pmc, statpearls, bioc, dailymed, medrag, beir, cord19, table, "
            "ris, bib, html, docx, pptx, xlsx, pdf, text",
            show_default=False,
        ),
    ] = "",
    ocr: Annotated[
        str,
        typer.Option(
            metavar="LANGUAGES",
            help="recognize characters on PDF pages without text, with tesseract: eng, eng+deu",
            show_default=False,
        ),
    ] = "",
    config: ConfigFile = None,
) -> int:
    from retrieval.corpus.ingest.add import try_file
    from retrieval.corpus.items import OCR_LANGUAGES, ReadOptions

    if not OCR_LANGUAGES.fullmatch(ocr):
        raise typer.BadParameter("names of languages as tesseract has them: eng, eng+deu", param_hint="--ocr")
    results = []
    with opened(config) as (_, retrieval):
        for path in files:
            with watched(f"{name}: {path.name}") as watch:
                options = ReadOptions(kind=kind, ocr=ocr)
                result = try_file(retrieval.namespaces, name, path, options, watch)
            _say_file(result)
            results.append(result)
            if result.report.cancelled:
                break
    return _status_of(name, results, len(files))


def _say_file(result: FileResult) -> None:
    if result.outcome == "unchanged":
        print(f"{result.file}: added before, nothing to do")
    elif result.outcome != "refused":
        _say(result.file, result.report)
    if result.refused is not None:
        print(f"arrowhead: {result.file}: {result.outcome}: {result.refused.message}", file=sys.stderr)


def _status_of(name: str, results: list[FileResult], given: int) -> int:
    """Return the exit status for a list of files: 0 for all of them whole, 1 for none, 3 for some."""
    whole = sum(result.outcome in ("added", "unchanged") for result in results)
    if given > 1:
        words = Counter[str](result.outcome for result in results)
        words["not read"] = given - len(results)
        counts = ", ".join(f"{count:,} {outcome}" for outcome, count in words.items() if count)
        print(f"{name}: {given:,} files: {counts}")
    if whole == given:
        return 0
    return _SOME if any(result.outcome != "refused" for result in results) else 1


@app.command(help="take in what a PubMed query finds, and remember the query")
def fetch(
    name: Name,
    term: Annotated[
        str, typer.Argument(metavar="[TERM]", help="in PubMed's syntax, or --keyword", show_default=False)
    ] = "",
    keyword: Annotated[
        list[str] | None,
        typer.Option(help="in title or abstract; repeat for several, a/b for alternatives", show_default=False),
    ] = None,
    without_reviews: Annotated[bool, typer.Option("--without-reviews", help="leave out reviews")] = False,
    date_from: Annotated[str, typer.Option("--from", metavar="YYYY/MM/DD", show_default=False)] = "",
    date_to: Annotated[str, typer.Option("--to", metavar="YYYY/MM/DD", show_default=False)] = "",
    limit: Annotated[int, typer.Option(help="only so many, the newest", show_default=False)] = 0,
    full_text: Annotated[bool, typer.Option("--full-text", help="also full texts, where PMC has them open")] = False,
    config: ConfigFile = None,
) -> int:
    from retrieval.corpus.ingest.pubmed_sync import PubmedQuery, keyword_term

    if bool(term) == bool(keyword):
        raise typer.BadParameter("either a term or --keyword is needed", param_hint="TERM")
    if keyword:
        term = keyword_term(keyword, with_reviews=not without_reviews)
    elif without_reviews:
        term = f"({term}) NOT review[Publication Type]"
    query = PubmedQuery(term=term, date_from=date_from, date_to=date_to, limit=limit, full_text=full_text)
    return _with_ncbi(name, query, config)


@app.command("update", help="run its queries again: only what is new is fetched")
def update_queries(name: Name, config: ConfigFile = None) -> int:
    return _with_ncbi(name, None, config)


def _with_ncbi(name: str, query: PubmedQuery | None, config: Path | None) -> int:
    """Run one query, or with None all stored queries of the namespace, under the server's egress rules."""
    import asyncio

    from retrieval.corpus.ingest.pubmed_sync import add_query, update
    from server.wiring.ncbi import open_ncbi

    async def work(settings: Settings, retrieval: Retrieval, watch: ChangeHooks) -> list[FetchReport]:
        async with open_ncbi(settings, query.term if query is not None else "") as fetch:
            if query is not None:
                return [await add_query(fetch, retrieval.namespaces, name, query, watch)]
            return await update(fetch, retrieval.namespaces, name, watch)

    with opened(config) as (settings, retrieval), watched(name) as watch:
        done = asyncio.run(work(settings, retrieval, watch))
    for fetched in done:
        known = f", {fetched.known:,} known" if fetched.known else ""
        print(f"{name}: {fetched.listed.count:,} articles found{known}")
        for word in fetched.listed.not_found:
            print(f"arrowhead: {word!r} stands nowhere and was left out", file=sys.stderr)
        if fetched.missing:
            print(f"arrowhead: {len(fetched.missing):,} articles were listed and not sent", file=sys.stderr)
        _say(name, fetched.added)
    if not done:
        print(f"{name}: remembers no query; `arrowhead namespace fetch` makes one")
    return 0


@app.command(
    "documents", help="list its documents, the newest first; with words, those that have them in name or title"
)
def list_documents(
    name: Name,
    words: Annotated[list[str] | None, typer.Argument(metavar="[WORD]...", show_default=False)] = None,
    limit: Annotated[int, typer.Option(min=1, help="at most so many")] = 50,
    config: ConfigFile = None,
) -> int:
    from server.printable import for_log

    with opened(config) as (_, retrieval), retrieval.namespaces.using(name) as namespace:
        store = namespace.store
        found, total = store.documents(words or (), limit), store.count_documents(words or ())
    for one in found:
        pages = f"\t{one.pages:,} pages" if one.pages else ""
        named = "\t".join(for_log(text, 200) for text in (one.document.document_id, one.name, one.document.title))
        print(f"{named}\t{one.passages:,} passages{pages}" + ("\tto index" if any(one.waiting.values()) else ""))
    if total > len(found):
        print(f"arrowhead: {total:,} in all; --limit shows more", file=sys.stderr)
    return 0


@app.command("show", help="print a document's passages, by its id or file name")
def show_document(
    name: Name, document: Annotated[str, typer.Argument(metavar="DOCUMENT")], config: ConfigFile = None
) -> int:
    from retrieval.corpus.ingest.add import find_document

    with opened(config) as (_, retrieval), retrieval.namespaces.using(name) as namespace:
        document_id = find_document(namespace.store, document)
        offset = 0
        while passages := namespace.store.document_passages(document_id, _BLOCK, offset):
            offset += len(passages)
            for passage in passages:
                place = ", ".join(filter(None, (passage.section, f"page {passage.page}" if passage.page else "")))
                print(f"[{passage.passage_id}{': ' + place if place else ''}]\n{passage.text}\n")
    return 0


@app.command("remove", help="take documents away, by their ids or file names")
def remove_documents(
    name: Name, documents: Annotated[list[str], typer.Argument(metavar="DOCUMENT")], config: ConfigFile = None
) -> int:
    from retrieval.corpus.ingest.add import remove

    with opened(config) as (_, retrieval), watched(name) as watch:
        removed = remove(retrieval.namespaces, name, documents, watch).withdrawn
    print(f"{name}: {removed:,} documents removed")
    return 0


@app.command(help="delete it with all it holds")
def delete(
    name: Name, yes: Annotated[bool, typer.Option("--yes", help="required")] = False, config: ConfigFile = None
) -> int:
    if not yes:
        raise typer.BadParameter("this deletes all that it holds; say so with --yes", param_hint="--yes")
    with opened(config) as (_, retrieval):
        retrieval.namespaces.delete(name)
    print(f"{name}: deleted")
    return 0


@app.command("verify", help="hold store and indices against each other")
def verify_namespace(name: Name, config: ConfigFile = None) -> int:
    from retrieval.corpus.namespaces.verify import verify

    with opened(config) as (_, retrieval):
        report = verify(retrieval.namespaces, name)
    for fault in report.faults:
        print(f"{name}: {fault}")
    pending = ", ".join(f"{count:,} to index in {target}" for target, count in report.pending.items() if count)
    state = "whole" if report.whole else "damaged"
    print(f"{name}: {state}, {report.documents:,} documents, {report.passages:,} passages, sha256 {report.sha256}")
    for encoder, recall in report.recalls.items():
        if recall is not None:
            print(f"{name}: vectors of {encoder} find {recall:.1%} of the ten nearest, measured when they were indexed")
    if pending:
        print(f"{name}: {pending}; the next change does it")
    return 0 if report.whole else 1


@app.command("export", help="write it to one file, as JSON lines in gzip")
def export_namespace(name: Name, target: Path, config: ConfigFile = None) -> int:
    from retrieval.corpus.transfer import export

    with opened(config) as (_, retrieval):
        size = export(retrieval.namespaces, name, target)
    print(f"{target}: {size:,} bytes")
    return 0


@app.command("import", help="make one from an export")
def import_export(
    source: Path,
    name: Annotated[str, typer.Option(help="default: the one it was exported as", show_default=False)] = "",
    config: ConfigFile = None,
) -> int:
    from retrieval.corpus.ingest.add import catch_up
    from retrieval.corpus.transfer import import_namespace

    with opened(config) as (_, retrieval):
        name = import_namespace(retrieval.namespaces, source, name)
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
    for skipped in added.first_passed:
        print(f"{skipped.file}:{skipped.line}: {skipped.reason}", file=sys.stderr)
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
    from server.printable import for_log, unescaped

    stopped = False

    def stop(*_: object) -> None:
        nonlocal stopped
        stopped = True

    before = signal.signal(signal.SIGINT, stop)
    console, what = Console(file=unescaped(sys.stderr)), for_log(what, 200)
    try:
        with console.status(what) as status:

            def show(step: Progress) -> None:
                left = "" if step.remaining_s is None else f", {step.remaining_s:,.0f} s left to fetch"
                status.update(
                    f"{what}: {step.read:,} documents ({step.documents_per_s:,.0f}/s), {step.indexed:,} entries "
                    f"indexed ({step.passages_per_s:,.0f}/s), {step.waiting:,} waiting{left}"
                )

            yield ChangeHooks(progress=show, cancelled=lambda: stopped)
    finally:
        signal.signal(signal.SIGINT, before)
