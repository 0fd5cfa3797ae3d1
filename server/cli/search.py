"""Implement ``arrowhead search``: find passages of namespaces by meaning, words or keywords."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from server.cli.namespaces import opened
from server.cli.options import ConfigFile
from server.printable import for_json

if TYPE_CHECKING:
    from retrieval.corpus.search.ranking import RankedPassage, Retriever
    from server.evidence.passages import Retrieval

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


# Longer than forty lines by its options: typer reads them from this signature.
def search(
    query: str,
    namespace: Annotated[
        list[str] | None, typer.Option("--namespace", "-n", metavar="NAME", help="default: all")
    ] = None,
    retriever: Annotated[
        str,
        typer.Option(
            metavar="R",
            help="dense, bm25, pes2, hybrid, rrf-2, rrf-4, a list as bm25+dense:medcpt, or the name of an encoder",
            show_default=False,
        ),
    ] = "",
    k: Annotated[int, typer.Option("-k", help="passages")] = 5,
    late: Annotated[
        int | None,
        typer.Option(metavar="N", help="order the N best by token vectors; default: 50 of hybrid", show_default=False),
    ] = None,
    rerank: Annotated[
        int,
        typer.Option(metavar="[N]", help="let the cross-encoder judge the N best (50)", show_default=False),
    ] = 0,
    date_from: Annotated[str, typer.Option("--from", metavar="YYYY[-MM[-DD]]", show_default=False)] = "",
    date_to: Annotated[str, typer.Option("--to", metavar="YYYY[-MM[-DD]]", show_default=False)] = "",
    types: Annotated[
        list[str] | None, typer.Option("--type", metavar="TYPE", help="only documents of this type, as 'review'")
    ] = None,
    without_types: Annotated[list[str] | None, typer.Option("--without-type", metavar="TYPE")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="one object a line")] = False,
    config: ConfigFile = None,
) -> int:
    from retrieval.corpus.errors import NamespaceInvalid
    from retrieval.corpus.search.searcher import SearchOptions
    from retrieval.corpus.store.base import PassageFilter
    from server.settings.loading import SettingsInvalid

    where = PassageFilter(
        date_from=parse_day(date_from, "--from", "0000"),
        date_to=parse_day(date_to, "--to", "9999"),
        types=tuple(types or ()),
        without_types=tuple(without_types or ()),
    )
    with opened(config) as (settings, retrieval):
        if rerank and settings.retrieval.cross_encoder is None:
            raise NamespaceInvalid("there is no cross-encoder: retrieval.cross_encoder names one", param="rerank")
        names = namespace or retrieval.namespaces.names()
        if not names:
            raise SettingsInvalid("there is no namespace yet: `arrowhead namespace create NAME` makes one")
        chosen = retriever_of(retrieval, retriever, names)
        options = SearchOptions(k=k, retriever=chosen, where=where, rerank=rerank, late=late)
        results = retrieval.searcher.search(query, names, options)
        lists = retrieval.searcher.lists(names, chosen)
    if lists.missing:
        fused = f"fused: {', '.join(lists.rankers)}; of the paper's four {', '.join(lists.missing)} missing"
        print(f"arrowhead: {chosen} {fused}", file=sys.stderr)
    for rank, one in enumerate(results, 1):
        print(for_json(json.dumps(_as_dict(one), ensure_ascii=False)) if as_json else _as_text(rank, one))
    return 0


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
    from retrieval.corpus.errors import NamespaceInvalid
    from retrieval.corpus.search.ranking import RANKERS, is_retriever
    from retrieval.corpus.search.searcher import default_retriever

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
