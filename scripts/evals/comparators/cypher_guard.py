"""Check a model's Cypher query: one statement that matches and returns, nothing else. Pure.

Opening the database read-only is not sufficient: Ladybug 0.22 still wrote a file for COPY … TO and read any file for
LOAD FROM, and its time limit did not stop UNWIND range(1, 100000000) for seconds. Therefore clauses and functions that
are not on a list are refused before the query is run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from models.errors import ArrowheadError

MAX_QUERY: Final = 4_000
_TOKEN: Final = re.compile(
    r"""(?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
      | (?P<quoted>`[^`]+`)
      | (?P<comment>//|/\*)
      | (?P<number>\d+(?:\.(?!\.)\d*)?(?:[eE][+-]?\d+)?)
      | (?P<word>[^\W\d]\w*)
      | (?P<parameter>\$)
      | (?P<sign>[-+*/%^=<>!~.,:;|&()\[\]{}])
      | (?P<blank>\s+)
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
# All clauses and statements of openCypher and of Ladybug that are not for reading the graph, and what starts them.
_OTHER_CLAUSES: Final = (
    "alter analyze attach begin call checkpoint comment commit copy create delete detach drop explain export extension "
    "fetch force foreach import install load macro merge profile project remove rollback set start transaction "
    "uninstall unwind update use using yield"
)
_OPENING: Final = ("match", "optional")
# Words that may stand before a bracket: without being functions, and functions.
_KEYWORDS: Final = (
    "match optional where and or xor not in with return distinct by as when then else case on exists count union all "
    "any none single contains"
)
_READING: Final = (
    "lower upper tolower toupper lcase ucase trim size length coalesce label labels type id properties collect count "
    "min max avg sum abs round contains starts_with ends_with prefix suffix list_contains list_sort keys nodes rels "
    "relationships startnode endnode exists tostring tofloat tointeger regexp_matches left right substring"
)
_REFUSED: Final = frozenset(_OTHER_CLAUSES.split())
_BEFORE_BRACKET: Final = frozenset((_KEYWORDS + " " + _READING).split())


class CypherRefused(ArrowheadError):
    """The message says what may not stand in a query; a writer can be told."""

    hint = "one statement of MATCH, OPTIONAL MATCH, WHERE, WITH, RETURN, UNION, ORDER BY, SKIP and LIMIT"


class CypherFailed(ArrowheadError):
    """The database could not run it: syntax, unknown names, its time limit."""


Token = tuple[str, str]


def checked(query: str) -> str:
    """The query without a semicolon at its end. Raises CypherRefused."""
    text = query.strip().removesuffix(";").rstrip()
    if not text:
        raise CypherRefused("the query is empty")
    if len(text) > MAX_QUERY:
        raise CypherRefused(f"the query is longer than {MAX_QUERY} characters")
    tokens = _tokens(text)
    words = [_plain_word(tokens, place) for place in range(len(tokens))]
    if words[0] not in _OPENING:
        raise CypherRefused(f"a query begins with MATCH, not with {tokens[0][1][:20]}")
    if "return" not in words:
        raise CypherRefused("the query returns nothing")
    for place, word in enumerate(words):
        if word in _REFUSED:
            raise CypherRefused(f"{tokens[place][1].upper()} is not allowed: queries only read")
        kind, piece = tokens[place]
        allowed = kind == "word" and piece.casefold() in _BEFORE_BRACKET
        if kind in ("word", "quoted") and _is_call(tokens, place) and not allowed:
            raise CypherRefused(f"the function {piece} is not allowed")
    return text


def _tokens(text: str) -> list[Token]:
    found = [(match.lastgroup or "", match.group()) for match in _TOKEN.finditer(text)]
    for kind, piece in found:
        if kind == "comment":
            raise CypherRefused("comments are not allowed")
        if kind == "parameter":
            raise CypherRefused("parameters are not allowed: write the names themselves")
        if kind == "other":
            raise CypherRefused(f"{piece!r} is not allowed outside a string")
        if piece == ";":
            raise CypherRefused("one statement only")
    return [token for token in found if token[0] != "blank"]


def _plain_word(tokens: Sequence[Token], place: int) -> str:
    """In small letters; "" for what is no word, and for labels in brackets and properties, which may have any name."""
    kind, piece = tokens[place]
    if kind != "word":
        return ""
    before = tokens[place - 1] if place else ("", "")
    if before[1] == ":" and _is_within_brackets(tokens[: place - 1]):
        return ""
    is_property = before[1] == "." and place > 1 and (tokens[place - 2][0] in ("word", "quoted"))
    return "" if is_property else piece.casefold()


def _is_within_brackets(tokens: Sequence[Token]) -> bool:
    pieces = [piece for kind, piece in tokens if kind == "sign"]
    return sum(map(pieces.count, "([{")) > sum(map(pieces.count, ")]}"))


def _is_call(tokens: Sequence[Token], place: int) -> bool:
    return place + 1 < len(tokens) and tokens[place + 1][1] == "("
