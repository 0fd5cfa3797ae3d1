"""Implement espell: the words of a query as the index spells them.

A word that stands nowhere in the index is replaced by the commonest one that differs from it by one change (a letter
missing, added, replaced, or two swapped), else, where it is long, by two changes behind the same first letters. Short
words and those with digits stay: a name of a gene is not a misspelling of another's.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from retrieval.formats.records import Database
from retrieval.gateway.http_reply import Reply, text_of, xml_reply
from retrieval.gateway.store.reader import GatewayStore

_DOCTYPE: Final = (
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
    return xml_reply("eSpellResult", _DOCTYPE, inner)


def espell_error(_: Mapping[str, str], message: str) -> Reply:
    return xml_reply("eSpellResult", _DOCTYPE, f"\n\t<ERROR>{text_of(message)}</ERROR>\n")


def _piece(name: str, text: str) -> str:
    return f"<{name}>{text_of(text)}</{name}>" if text else ""


def respelled(store: GatewayStore, db: Database, word: str) -> str:
    """Return the index's spelling of a lower-case word, "" where the word stands there or nothing is close to it."""
    if not _MIN_WORD <= len(word) <= _MAX_WORD or not word.isalpha() or not word.isascii():
        return ""
    if _counts(store, db, [word]):
        return ""
    near = _counts(store, db, sorted(set(_one_change(word))))
    if not near and len(word) >= _LONG:
        near = {other: count for other, count in _starting(store, db, word) if _is_within_two(word, other)}
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


def _one_change(word: str) -> Iterator[str]:
    for at in range(len(word) + 1):
        head, tail = word[:at], word[at:]
        yield from (head + letter + tail for letter in string.ascii_lowercase)
        if tail:
            yield head + tail[1:]
            yield from (head + letter + tail[1:] for letter in string.ascii_lowercase if letter != tail[0])
        if len(tail) > 1 and tail[0] != tail[1]:
            yield head + tail[1] + tail[0] + tail[2:]


def _is_within_two(word: str, other: str) -> bool:
    """Return whether at most two letters have to be added, removed or replaced."""
    if abs(len(word) - len(other)) > 2:
        return False
    row = list(range(len(other) + 1))
    for place, letter in enumerate(word, 1):
        above, row[0] = row[0], place
        for at, candidate in enumerate(other, 1):
            above, row[at] = row[at], min(row[at] + 1, row[at - 1] + 1, above + (letter != candidate))
    return row[-1] <= 2
