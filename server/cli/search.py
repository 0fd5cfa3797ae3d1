"""Implement ``arrowhead search`` and ``arrowhead index``: search namespaces, and keep their indices.

``search`` finds passages by meaning, words or keywords; ``index`` reports, rebuilds and fills vector and word indices.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from server.cli.namespaces import opened, watched
from server.cli.options import ConfigFile, verbs
from server.printable import for_json

if TYPE_CHECKING:
    from retrieval.corpus.search.ranking import RankedPassage, Retriever
    from retrieval.corpus.search.searcher import FusedLists
    from retrieval.types import NameInText
    from server.evidence.passages import Retrieval
    from server.settings.schema import Settings


index_app = verbs("vector and word indices of namespaces")
Name = Annotated[str, typer.Argument(metavar="NAMESPACE")]

Encoder = Annotated[str, typer.Option(help="a name, hub id or folder that the settings name")]

_MAX_TEXT_CHARS = 300
_RERANKED = "50"


class SearchCommand(TyperCommand):
    """Accept ``--rerank`` without a number; typer's options always take a value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        expanded: list[str] = []
        for word, next_word in itertools.zip_longest(args, args[1:], fillvalue=""):
            expanded.append(word)
            if word == "--rerank" and not next_word.isdecimal():
                expanded.append(_RERANKED)
        return super().parse_args(ctx, expanded)


_Names = Annotated[list[str] | None, typer.Option("--namespace", "-n", metavar="NAME", help="default: all")]
_RETRIEVERS = "dense, bm25, pes2, hybrid, rrf-2, rrf-4, a list as bm25+dense:medcpt, or the name of an encoder"
_Retriever = Annotated[str, typer.Option(metavar="R", help=_RETRIEVERS, show_default=False)]
_LATE = "order the N best by token vectors; default: 50 of hybrid"
_Late = Annotated[int | None, typer.Option(metavar="N", help=_LATE, show_default=False)]
_RERANK = "let the cross-encoder judge the N best (50)"
_Rerank = Annotated[int, typer.Option(metavar="[N]", help=_RERANK, show_default=False)]
_EXPAND = "also search for synonyms of genes and diseases by words"
_Types = Annotated[
    list[str] | None, typer.Option("--type", metavar="TYPE", help="only documents of this type, as 'review'")
]


def search(
    query: str,
    namespace: _Names = None,
    retriever: _Retriever = "",
    k: Annotated[int, typer.Option("-k", help="passages")] = 5,
    late: _Late = None,
    rerank: _Rerank = 0,
    expand: Annotated[bool, typer.Option("--expand/--no-expand", help=_EXPAND)] = False,
    date_from: Annotated[str, typer.Option("--from", metavar="YYYY[-MM[-DD]]", show_default=False)] = "",
    date_to: Annotated[str, typer.Option("--to", metavar="YYYY[-MM[-DD]]", show_default=False)] = "",
    types: _Types = None,
    without_types: Annotated[list[str] | None, typer.Option("--without-type", metavar="TYPE")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one object a line")] = False,
    config: ConfigFile = None,
) -> int:
    from retrieval.corpus.search.searcher import SearchOptions
    from retrieval.corpus.store.base import PassageFilter

    where = PassageFilter(
        date_from=parse_day(date_from, "--from", "0000"),
        date_to=parse_day(date_to, "--to", "9999"),
        types=tuple(types or ()),
        without_types=tuple(without_types or ()),
    )
    with opened(config) as (settings, retrieval):
        names = _searched(settings, retrieval, namespace, rerank=rerank > 0)
        chosen = retriever_of(retrieval, retriever, names)
        # Checked before an encoder is loaded.
        options = SearchOptions(k=k, retriever=chosen, where=where, rerank=rerank, late=late)
        lists = retrieval.searcher.lists(names, chosen)
        named = names_in(settings, query) if expand and "bm25" in lists.rankers else ()
        options = dataclasses.replace(options, names={query: named}) if named else options
        results = retrieval.searcher.search(query, names, options)
    _report(chosen, lists, named)
    for rank, one in enumerate(results, 1):
        print(for_json(json.dumps(_as_dict(one), ensure_ascii=False)) if as_json else _as_text(rank, one))
    return 0


def _searched(settings: Settings, retrieval: Retrieval, named: list[str] | None, *, rerank: bool) -> list[str]:
    """Return the namespaces to search, all where none is named.

    Raises:
        NamespaceInvalid: re-ranking is asked for without a cross-encoder.
        SettingsInvalid: there is no namespace.
    """
    from retrieval.errors import NamespaceInvalid
    from server.settings.loading import SettingsInvalid

    if rerank and settings.retrieval.cross_encoder is None:
        raise NamespaceInvalid("there is no cross-encoder: retrieval.cross_encoder names one", param="rerank")
    names = named or retrieval.namespaces.names()
    if not names:
        raise SettingsInvalid("there is no namespace yet: `arrowhead namespace create NAME` makes one")
    return names


def _report(chosen: Retriever, lists: FusedLists, named: tuple[NameInText, ...]) -> None:
    """Print to stderr which names were searched for, and which lists of a fusion are missing."""
    for name in named:
        print(f"arrowhead: {name.name}: also {', '.join(name.synonyms)}", file=sys.stderr)
    if lists.missing:
        fused = f"fused: {', '.join(lists.rankers)}; of the paper's four {', '.join(lists.missing)} missing"
        print(f"arrowhead: {chosen} {fused}", file=sys.stderr)


def names_in(settings: Settings, query: str) -> tuple[NameInText, ...]:
    """Return the names of genes, diseases and drugs in a query, with their synonyms."""
    import asyncio

    from server.wiring.ncbi import query_names

    names = query_names(settings)
    try:
        return names.named_in(query)
    finally:
        asyncio.run(names.close())


def parse_day(text: str, flag: str, rest: str) -> int:
    """Return the date as yyyymmdd, 0 for an empty text.

    ``rest`` supplies the digits of a missing month or day.

    Raises:
        SettingsInvalid: the text is no date.
    """
    if not text:
        return 0
    match = re.fullmatch(r"(\d{4})(?:[-/]?(\d\d))?(?:[-/]?(\d\d))?", text)
    if match is None:
        from server.settings.loading import SettingsInvalid

        raise SettingsInvalid(f"{flag} {text}: write a day as 2020-01-31, or a year, or a month")
    return int((match[1] + (match[2] or "") + (match[3] or "")).ljust(8, rest[-1]))


def retriever_of(retrieval: Retrieval, name: str, names: list[str]) -> Retriever:
    """Return the retriever that ``name`` selects for these namespaces.

    An empty name selects words and vectors together where every namespace has both. An encoder's name selects its
    vectors.

    Raises:
        NamespaceInvalid: a namespace has no vectors of the encoder, or the namespaces have no index in common.
    """
    from retrieval.corpus.search.ranking import RANKERS, is_retriever
    from retrieval.corpus.search.searcher import default_retriever
    from retrieval.errors import NamespaceInvalid

    if is_retriever(name):
        return name
    settings = {}
    for one in names:
        with retrieval.namespaces.using(one) as namespace:
            settings[one] = namespace.settings
    if not name:
        return default_retriever(one.targets for one in settings.values())
    others = [one for one, s in settings.items() if name not in s.encoder_ids]
    if others:
        raise NamespaceInvalid(
            f"no retriever is called {name[:60]!r} ({', '.join(RANKERS)}), and {others[0]} has no vectors of an "
            "encoder of that name",
            param="retriever",
        )
    return "dense" if all(one.encoder == name for one in settings.values()) else f"dense:{name}"


def _as_text(rank: int, ranked: RankedPassage) -> str:
    passage, document = ranked.passage, ranked.document
    place = ", ".join(
        part for part in (passage.section, f"page {passage.page}" if passage.page else "", _day(document.date)) if part
    )
    text = " ".join(passage.text.split())
    text = text if len(text) <= _MAX_TEXT_CHARS else text[:_MAX_TEXT_CHARS] + "…"
    notice = " [RETRACTED]" if document.is_retracted else ""
    head = f"{rank}. {document.title or document.document_id}{notice}"
    source = f"{ranked.namespace} {document.document_id}" + (f" ({place})" if place else "")
    return f"{head}\n   {source}  score {ranked.hit.score:.4f}\n   {text}\n"


def _day(date: int) -> str:
    year, month, day = date // 10_000, date // 100 % 100, date % 100
    return f"{year}" + (f"-{month:02}" if month else "") + (f"-{day:02}" if day else "") if date else ""


def _as_dict(ranked: RankedPassage) -> dict[str, object]:
    """Return the JSON object of a passage.

    Ids are text, since not every JSON reader holds 63-bit numbers exactly.
    """
    passage = dataclasses.asdict(ranked.passage) | {"passage_id": str(ranked.passage.passage_id)}
    document = dataclasses.asdict(ranked.document)
    ranks = dict(ranked.ranks)
    return {"namespace": ranked.namespace, "score": ranked.hit.score, "ranks": ranks, **passage, "document": document}


class Target(StrEnum):
    """List the kinds of indices of a namespace; typer takes no list of literals."""

    VECTORS = "vectors"
    WORDS = "words"


@index_app.command(help="types, rows and bytes of a namespace's indices")
def status(name: Name, config: ConfigFile = None) -> int:
    from retrieval.corpus.namespaces.dense import is_dense

    with opened(config) as (_, retrieval), retrieval.namespaces.using(name) as namespace:
        pending = namespace.store.counts().pending
        for target in namespace.settings.targets:
            encoder = namespace.settings.encoder_of(target)
            shown = f"{target} ({encoder})" if encoder and encoder not in target else target
            if not namespace.has(target):
                print(f"{shown}\tnot made yet\t{pending[target]:,} to index")
                continue
            rows = namespace.rows(target)
            detail = ""
            if is_dense(target):
                stats = namespace.dense(target).vectors.stats()
                kinds = stats.detail.get("kinds", "")
                recall = stats.detail.get("recall")
                kinds = f"{kinds} recall@10 {recall:.3f}" if recall is not None else kinds
                detail = f"\t{stats.segments} segments {kinds}\t{stats.deleted:,} deleted\t{stats.bytes_disk:,} bytes"
            print(f"{shown}\t{rows:,} rows\t{pending[target]:,} to index{detail}")
    return 0


@index_app.command(help="give a namespace the vectors of one more encoder, beside those that it has")
def add(name: Name, encoder: Encoder, config: ConfigFile = None) -> int:
    with opened(config) as (_, retrieval):
        retrieval.encoders.check(encoder)
        retrieval.namespaces.add_encoder(name, encoder)
    return catch_up_namespace(name, config)


@index_app.command(help="take the vectors of an encoder away")
def remove(name: Name, encoder: Encoder, config: ConfigFile = None) -> int:
    with opened(config) as (_, retrieval):
        retrieval.namespaces.remove_encoder(name, encoder)
    print(f"{name}: vectors of {encoder} removed")
    return 0


@index_app.command(help="make an index again from the namespace's passages")
def rebuild(
    name: Name,
    index: Annotated[list[Target] | None, typer.Option(help="default: all; vectors are those of all encoders")] = None,
    config: ConfigFile = None,
) -> int:
    with opened(config) as (_, retrieval):
        with retrieval.namespaces.using(name) as namespace:
            targets = namespace.settings.targets
        for target in targets:
            if not index or target.partition(":")[0] in index:
                retrieval.namespaces.empty_index(name, target)
    return catch_up_namespace(name, config)


@index_app.command("catch-up", help="index what waits to be indexed")
def catch_up_namespace(name: Name, config: ConfigFile = None) -> int:
    from retrieval.corpus.ingest.add import catch_up

    with opened(config) as (_, retrieval), watched(name) as watch:
        added = catch_up(retrieval.namespaces, name, watch)
    print(f"{name}: {added.indexed:,} entries indexed")
    return 0


@index_app.command(help="take in NCBI's MedCPT embeddings of PubMed")
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
            retrieval.namespaces, name, folder, lambda count: status.update(f"{name}: {count:,} articles")
        )
    print(
        f"{name}: {report.rows:,} articles with embeddings, {report.without_text:,} embeddings without text, "
        f"{report.without_row:,} texts without embedding, {len(report.passed_over)} chunks were there"
    )
    return catch_up_namespace(name, config)
