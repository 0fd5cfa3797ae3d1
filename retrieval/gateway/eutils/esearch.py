"""Implement esearch and espell: what a query finds, with its translation, and its words as the index spells them.

Replies are JSON and XML in NCBI's layout. espell replaces a word that stands nowhere in the index by the commonest one
that differs from it by one change (a letter missing, added, replaced, or two swapped), else, where it is long, by two
changes behind the same first letters. Short words and those with digits stay: a name of a gene is not a misspelling of
another's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from retrieval.formats.edits import edit_distance, single_edits
from retrieval.formats.records import Database
from retrieval.gateway.eutils.history import History, StoredSearch
from retrieval.gateway.http_reply import Reply, is_json, json_reply, text_of, whole_number, xml_reply
from retrieval.gateway.query.conditions import Condition, term_condition
from retrieval.gateway.query.search import Hits, Page, organism_of, search
from retrieval.gateway.query.syntax import (
    ALL,
    Node,
    Query,
    QueryTooComplexError,
    Run,
    Term,
    field_of,
    parse_query,
    postfix,
    translation,
    with_field,
    written,
)
from retrieval.gateway.store.reader import GatewayStore

_DOCTYPE: Final = "-//NLM//DTD esearch 20060628//EN|https://eutils.ncbi.nlm.nih.gov/eutils/dtd/20060628/esearch.dtd"
_RETMAX_DEFAULT: Final = 20
_RETMAX_HIGHEST: Final = 100_000
_RETSTART_HIGHEST: Final = 10_000_000
_MAX_DAYS: Final = 36_500
_DATED: Final = ("pubmed", "pmc")
# A search of the history, by its key.
_KEY: Final = re.compile(r"(?<![^\s()])#(\d{1,5})(?![^\s()])")
_HistoryRef = tuple[str, int]  # WebEnv ("" if no history was requested) and query key
_SPELL_DOCTYPE: Final = (
    "-//NLM//DTD eSpellResult, 23 November 2004//EN|https://www.ncbi.nlm.nih.gov/entrez/query/DTD/eSpell.dtd"
)
_WORD: Final = re.compile(r"[^\W_]+(?:[-'][^\W_]+)*")
_FIXED: Final = frozenset({"AND", "OR", "NOT"})
_MIN_WORD: Final = 5
_MAX_WORD: Final = 30
# A word of so many letters may have two changes, behind as many unchanged ones.
_LONG: Final = 8
_SAME_START: Final = 4
_MAX_WORDS: Final = 40
_MAX_TERM: Final = 4000
# Of the words with one start, so many are compared.
_MAX_COMPARED: Final = 20_000
_BATCH: Final = 400


def esearch(store: GatewayStore, db: Database, params: Mapping[str, str], history: History) -> Reply:
    try:
        params = _with_searches(db, params, history)
        term = params.get("term", "").strip()
        query = _query_of(params)
    except (QueryTooComplexError, _UnknownSearch) as error:
        return esearch_error(params, str(error))
    if not term:
        return esearch_error(params, "Empty term and query_key - nothing todo")
    if query.tree is None:
        return _nothing(params, query.ignored or (term,))
    count_only = params.get("rettype", "").lower() == "count"
    hits = search(store, db, query.tree, _page(params, count_only=count_only), _dates(db, params))
    if count_only:
        return _count_only(params, hits.count)
    history_ref = ("", 0)
    if params.get("usehistory", "").lower() in ("y", "yes", "true", "1"):
        history_ref = history.keep(params.get("webenv", ""), StoredSearch(db, dict(params)))
    return _Page((store, db), query, hits, params, history_ref).reply()


def found_uids(store: GatewayStore, stored_search: StoredSearch, start: int, size: int) -> list[str]:
    """Return one page of what a stored search finds now."""
    if stored_search.uids:
        return list(stored_search.uids[start : start + size])
    query = _query_of(stored_search.params)
    if query.tree is None:
        return []
    page, dates = Page(start, size, _sort(stored_search.params)), _dates(stored_search.db, stored_search.params)
    return search(store, stored_search.db, query.tree, page, dates).uids


class _UnknownSearch(ValueError):
    """Signal a query key without a search."""


def _query_of(params: Mapping[str, str]) -> Query:
    """Return the query; words without a tag are searched in the call's ``field``.

    Raises:
        QueryTooComplexError: the term exceeds a limit.
    """
    query = parse_query(params.get("term", "").strip())
    tag = params.get("field", "").strip()
    return replace(query, tree=with_field(query.tree, tag)) if tag and query.tree is not None else query


def _with_searches(db: Database, params: Mapping[str, str], history: History) -> Mapping[str, str]:
    """Return the call with the stored searches that it names by their keys (``#1 AND asthma``, query_key) written out.

    Raises:
        _UnknownSearch: the WebEnv has no search with this key, or it is of another database.
    """
    term, key = params.get("term", "").strip(), params.get("query_key", "").strip()
    if key:
        term = f"#{key} AND ({term})" if term else f"#{key}"
    environment = params.get("webenv", "")
    if not environment or "#" not in term:
        return params

    def stored(found: re.Match[str]) -> str:
        search = history.find(environment, found[1])
        if search is None or search.db != db:
            raise _UnknownSearch(f"Unable to obtain query #{found[1]}")
        return f"({_written_out(search)})"

    return {name: value for name, value in params.items() if name != "query_key"} | {"term": _KEY.sub(stored, term)}


def _written_out(search: StoredSearch) -> str:
    """Return a stored search as one query, with its field and dates."""
    if search.uids:
        return f"{' '.join(search.uids)}[uid]"
    tree, span = _query_of(search.params).tree, _span(search.params)
    query = search.params.get("term", "") if tree is None else written(with_field(tree, ALL.full_name.lower()))
    return f"({query}) AND {span}[pdat]" if span and search.db in _DATED else query


def _page(params: Mapping[str, str], *, count_only: bool) -> Page:
    start = whole_number(params, "retstart", 0, _RETSTART_HIGHEST)
    size = 0 if count_only else whole_number(params, "retmax", _RETMAX_DEFAULT, _RETMAX_HIGHEST)
    return Page(start, size, _sort(params))


def _sort(params: Mapping[str, str]) -> str:
    order = params.get("sort", "").strip().lower().replace("+", " ").replace("_", " ")
    return {"relevance": "relevance", "pub date": "pub_date", "date": "pub_date"}.get(order, "")


def _dates(db: Database, params: Mapping[str, str]) -> Condition | None:
    """Return mindate, maxdate and reldate (days back from today) as a condition on articles."""
    span = _span(params) if db in _DATED else ""
    field = field_of(db, "pdat")
    if not span or field is None:
        return None
    return term_condition(db, Term(span, "pdat"), field)


def _span(params: Mapping[str, str]) -> str:
    low, high = (params.get(name, "").strip() for name in ("mindate", "maxdate"))
    days = whole_number(params, "reldate", 0, _MAX_DAYS)
    if days:
        low = (datetime.now(UTC).date() - timedelta(days=days)).strftime("%Y/%m/%d")
    return f"{low or '0001'}:{high or '3000'}" if low or high else ""


def esearch_error(params: Mapping[str, str], message: str) -> Reply:
    if is_json(params):
        return json_reply("esearch", {"esearchresult": {"ERROR": message}})
    return xml_reply("eSearchResult", _DOCTYPE, f"<ERROR>{text_of(message)}</ERROR>")


def _count_only(params: Mapping[str, str], count: int) -> Reply:
    if is_json(params):
        return json_reply("esearch", {"esearchresult": {"count": str(count)}})
    return xml_reply("eSearchResult", _DOCTYPE, f"<Count>{count}</Count>")


def _nothing(params: Mapping[str, str], ignored: Sequence[str]) -> Reply:
    """Return the reply to a term of punctuation and stop words only."""
    warnings = {"phrasesignored": list(ignored), "quotedphrasesnotfound": [], "outputmessages": ["No items found."]}
    if is_json(params):
        empty = {"count": "0", "retmax": "0", "retstart": "0", "idlist": [], "translationset": []}
        return json_reply("esearch", {"esearchresult": {**empty, "querytranslation": "", "warninglist": warnings}})
    inner = (
        "<Count>0</Count><RetMax>0</RetMax><RetStart>0</RetStart><IdList/><TranslationSet/><QueryTranslation/>"
        f"<WarningList>{_ignored_markup(ignored)}"
        "<OutputMessage>No items found.</OutputMessage></WarningList>"
    )
    return xml_reply("eSearchResult", _DOCTYPE, inner)


class _Page:
    """Render one page of a search's reply."""

    def __init__(
        self,
        place: tuple[GatewayStore, Database],
        query: Query,
        hits: Hits,
        params: Mapping[str, str],
        history_ref: _HistoryRef,
    ) -> None:
        if query.tree is None:
            raise ValueError("a query without terms has no page")
        self._store, self._db = place
        self._hits, self._params, self._history_ref = hits, params, history_ref
        self._tree: Node = query.tree
        self._ignored = query.ignored
        self._start = whole_number(params, "retstart", 0, _RETSTART_HIGHEST)
        self._ids = hits.uids

    def reply(self) -> Reply:
        if is_json(self._params):
            return json_reply("esearch", {"esearchresult": self._as_mapping()})
        return xml_reply("eSearchResult", _DOCTYPE, self._as_markup())

    @property
    def _unfound(self) -> bool:
        """Return whether nothing is found because words are found nowhere (not because no record holds them all)."""
        return not self._hits.count and bool(self._hits.missing)

    def _organism(self, term: Term) -> str | None:
        return organism_of(self._store, term)

    def _render(self, term: Term) -> str:
        if (scientific := self._organism(term)) is not None and self._hits.count:
            return f'"{scientific}"[Organism]'
        if self._unfound and term.tag:
            return term.written
        text = f'"{term.text}"' if term.quoted else term.text
        return f"{text}[{self._field_name(term)}]"

    def _field_name(self, term: Term) -> str:
        known = field_of(self._db, term.tag)
        return known.full_name if known else "All Fields"

    def _translation(self) -> str:
        text = translation(self._tree, self._render)
        if self._hits.loosened and isinstance(self._tree, Run):
            return " OR ".join(map(self._render, self._tree.terms))
        return f"({text})" if self._unfound and isinstance(self._tree, Term) else text

    def _translation_set(self) -> list[dict[str, str]]:
        return [
            {"from": term.written, "to": f'"{scientific}"[Organism]'}
            for term in self._hits.counts
            if (scientific := self._organism(term)) is not None
        ]

    def _stack(self) -> list[dict[str, str] | str]:
        operator = "OR" if self._hits.loosened else "AND"
        return [
            (operator if item == "AND" else item) if isinstance(item, str) else self._stack_term(item)
            for item in postfix(self._tree)
        ]

    def _stack_term(self, term: Term) -> dict[str, str]:
        organism = self._organism(term) is not None
        field_name = "Organism" if organism else self._field_name(term)
        count, explode = str(self._hits.counts[term]), "Y" if organism else "N"
        return {"term": self._render(term), "field": field_name, "count": count, "explode": explode}

    def _history(self) -> dict[str, str]:
        environment, key = self._history_ref
        return {"querykey": str(key), "webenv": environment} if environment else {}

    def _history_markup(self) -> str:
        environment, key = self._history_ref
        return f"<QueryKey>{key}</QueryKey><WebEnv>{environment}</WebEnv>" if environment else ""

    @property
    def _messages(self) -> list[str]:
        """Return what is to be said of the whole search."""
        return ["No items found."] if self._unfound else []

    def _missing(self) -> list[str]:
        return [term.written for term in self._hits.missing]

    def _as_mapping(self) -> dict[str, Any]:
        hits = self._hits
        result: dict[str, Any] = {
            "count": str(hits.count),
            "retmax": str(len(self._ids)),
            "retstart": str(self._start),
            **self._history(),
            "idlist": self._ids,
            "translationset": self._translation_set(),
        }
        if not self._unfound:
            result["translationstack"] = self._stack()
        result["querytranslation"] = self._translation()
        if self._missing() or hits.unknown_tags:
            result["errorlist"] = {"phrasesnotfound": self._missing(), "fieldsnotfound": hits.unknown_tags}
        if self._messages or self._ignored:
            result["warninglist"] = {
                "phrasesignored": list(self._ignored),
                "quotedphrasesnotfound": [],
                "outputmessages": self._messages,
            }
        return result

    def _as_markup(self) -> str:
        hits = self._hits
        ids = "".join(f"<Id>{text_of(uid)}</Id>\n" for uid in self._ids)
        parts = [
            f"<Count>{hits.count}</Count><RetMax>{len(self._ids)}</RetMax><RetStart>{self._start}</RetStart>",
            self._history_markup(),
            f"<IdList>\n{ids}</IdList>" if ids else "<IdList/>",
            self._translation_set_markup(),
            "" if self._unfound else self._stack_markup(),
            f"<QueryTranslation>{text_of(self._translation())}</QueryTranslation>",
            self._errors_markup(),
            self._warnings_markup(),
        ]
        return "".join(parts)

    def _translation_set_markup(self) -> str:
        pairs = "".join(
            f"   <Translation>     <From>{text_of(pair['from'])}</From>     <To>{text_of(pair['to'])}</To>"
            "    </Translation>"
            for pair in self._translation_set()
        )
        return f"<TranslationSet>{pairs}</TranslationSet>" if pairs else "<TranslationSet/>"

    def _stack_markup(self) -> str:
        return f"<TranslationStack>{''.join(map(_stack_item, self._stack()))}  </TranslationStack>"

    def _warnings_markup(self) -> str:
        messages = "".join(f"<OutputMessage>{text_of(text)}</OutputMessage>" for text in self._messages)
        warnings = _ignored_markup(self._ignored) + messages
        return f"<WarningList>{warnings}</WarningList>" if warnings else ""

    def _errors_markup(self) -> str:
        phrases = "".join(f"<PhraseNotFound>{text_of(text)}</PhraseNotFound>" for text in self._missing())
        fields = "".join(f"<FieldNotFound>{text_of(tag)}</FieldNotFound>" for tag in self._hits.unknown_tags)
        return f"<ErrorList>{phrases}{fields}</ErrorList>" if phrases or fields else ""


def _ignored_markup(ignored: Sequence[str]) -> str:
    return "".join(f"<PhraseIgnored>{text_of(word)}</PhraseIgnored>" for word in ignored)


def _stack_item(item: dict[str, str] | str) -> str:
    if isinstance(item, str):
        return f"   <OP>{item}</OP>"
    return (
        f"   <TermSet>    <Term>{text_of(item['term'])}</Term>    <Field>{text_of(item['field'])}</Field>"
        f"    <Count>{item['count']}</Count>    <Explode>{item['explode']}</Explode>   </TermSet>"
    )


def espell(store: GatewayStore, db: Database, params: Mapping[str, str]) -> Reply:
    term = params.get("term", "").strip()
    if not term:
        return espell_error(params, "Empty term")
    pieces, at, replaced = [], 0, False
    for number, found in enumerate(_WORD.finditer(term[:_MAX_TERM])):
        word = found[0]
        better = "" if number >= _MAX_WORDS or word in _FIXED else respelled(store, db, word.lower())
        if better:
            pieces += [_piece("Original", term[at : found.start()]), _piece("Replaced", better)]
            at, replaced = found.end(), True
    pieces.append(_piece("Original", term[at:]))
    corrected = re.sub(r"<[^>]+>", "", "".join(pieces)) if replaced else ""
    inner = (
        f"\n\t<Database>{db}</Database>\n\t<Query>{text_of(term)}</Query>\n\t<CorrectedQuery>{corrected}"
        f"</CorrectedQuery>\n\t<SpelledQuery>{''.join(pieces) if replaced else ''}</SpelledQuery>\n\t<ERROR/>\n"
    )
    return xml_reply("eSpellResult", _SPELL_DOCTYPE, inner)


def espell_error(_: Mapping[str, str], message: str) -> Reply:
    return xml_reply("eSpellResult", _SPELL_DOCTYPE, f"\n\t<ERROR>{text_of(message)}</ERROR>\n")


def _piece(name: str, text: str) -> str:
    return f"<{name}>{text_of(text)}</{name}>" if text else ""


def respelled(store: GatewayStore, db: Database, word: str) -> str:
    """Return the index's spelling of a lower-case word, "" where the word stands there or nothing is close to it."""
    if not _MIN_WORD <= len(word) <= _MAX_WORD or not word.isalpha() or not word.isascii():
        return ""
    if _counts(store, db, [word]):
        return ""
    near = _counts(store, db, sorted(set(single_edits(word))))
    if not near and len(word) >= _LONG:
        near = {other: count for other, count in _starting(store, db, word) if edit_distance(word, other, 2) <= 2}
    return min(near, key=lambda other: (-near[other], other)) if near else ""


def _counts(store: GatewayStore, db: Database, words: Sequence[str]) -> dict[str, int]:
    """Return in how many records each of the words stands, without those that stand in none."""
    found: dict[str, int] = {}
    for first in range(0, len(words), _BATCH):
        batch = words[first : first + _BATCH]
        found |= dict(store.vocabulary(db, f"term IN ({','.join('?' * len(batch))})", batch))
    return found


def _starting(store: GatewayStore, db: Database, word: str) -> Iterator[tuple[str, int]]:
    start = word[:_SAME_START]
    rows = store.vocabulary(db, f"term >= ? AND term < ? LIMIT {_MAX_COMPARED}", [start, f"{start}\U0010ffff"])
    yield from ((other, count) for other, count in rows if other.isalpha())
