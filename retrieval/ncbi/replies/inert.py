"""Take from the fields of records what could be read as more than a field.

A record is somebody else's text. In what a model reads, ``[`` begins a reply, ``[1]`` cites a source, ``Answer:`` ends
the look-ups, and ``SYMBOL (human) protein-coding`` names a gene: of these, only what stands in its own field may be
read so. Facts stay readable: words and numbers are kept, brackets become round. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final, TypeVar

from retrieval.ncbi.replies.records import GeneRecord, OmimRecord, SnpRecord

_T = TypeVar("_T")
# What a condensed reply begins with, and what cites: "[3 gene records", "[0 ids", "[error: …", "[same call as …".
_HEAD: Final = re.compile(
    r"\s*(?:\d[\d,]*\s+(?:of\s+\d[\d,]*\s+)?[A-Za-z]|error\s*:|same call|https?\s*:)", re.IGNORECASE
)
_MARK: Final = re.compile(r"\s*\d{1,4}(?:\s*[-,;–—]\s*\d{1,4})*\s*\]")
# Wherever it stands, as texts are put on one line; in a whole reply behind the escape of a line's end, too.
_ANSWER: Final = re.compile(r"(?:(?<![A-Za-z])|(?<=\\n)|(?<=\\r)|(?<=\\t))(answers?)\s*[:：]", re.IGNORECASE)
# At the beginning of a field or sentence alone, as "response: 45 %" is a finding.
_TURN: Final = re.compile(
    r"(^|[\n.;!?)\]>|]\s*)(#*\s*(?:question|user|assistant|system|human|instructions?|response|tool))\s*[:：]",
    re.IGNORECASE,
)
_GENE: Final = re.compile(r"\(([^()]*)\)(?=\s+(?:protein-coding|pseudogene|ncRNA)\b)|\((human)\)", re.IGNORECASE)
_NO_BRACKETS: Final = str.maketrans("", "", "()")
_BLANKS: Final = re.compile(r"\s+")
# Names of one word.
_SYMBOLS: Final[Mapping[type, frozenset[str]]] = {
    GeneRecord: frozenset({"symbol"}),
    OmimRecord: frozenset({"symbol"}),
    SnpRecord: frozenset({"genes"}),
}


def inert(parsed: _T) -> _T:
    """Return a parsed reply whose texts are fields and nothing else."""
    made: _T = _inert(parsed, "", type(None))
    return made


def inert_text(text: str) -> str:
    """Return a text without heads of replies, marks of citations, and the names of turns.

    Applying it twice changes nothing more.
    """
    return _TURN.sub(r"\1\2 -", _ANSWER.sub(r"\1 -", _round(_BLANKS.sub(" ", text).strip())))


def inert_body(body: str) -> str:
    """Return a whole reply as NCBI wrote it, in which nothing ends the look-ups; its lines and brackets stay."""
    return _ANSWER.sub(r"\1 -", body)


def _inert(value: Any, name: str, owner: type) -> Any:
    if isinstance(value, str):
        text = inert_text(value)
        if name in _SYMBOLS.get(owner, ()):
            return text.replace(" ", "_").replace(";", ",")
        if owner is GeneRecord and name in ("organism", "scientific_name"):
            text = text.translate(_NO_BRACKETS)  # it stands in such
        text = _GENE.sub(lambda found: found[1] or found[2] or "", text)
        # A gene's fields are told apart by what separates them; a title of an article may have it.
        return text.replace("; ", ", ") if owner is GeneRecord and name != "summary" else text
    if isinstance(value, Mapping):
        return {key: _inert(inner, name, owner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_inert(inner, name, owner) for inner in value)
    if is_dataclass(value) and not isinstance(value, type):
        kind = type(value)
        return replace(value, **{one.name: _inert(getattr(value, one.name), one.name, kind) for one in fields(value)})
    return value


def _round(text: str) -> str:
    """Return a text with round brackets for those that begin a reply, cite, or have no other half."""
    if "[" not in text and "]" not in text:
        return text
    signs, opened = list(text), list[int]()
    for place, sign in enumerate(text):
        if sign == "[":
            opened.append(place)
        elif sign == "]":
            start = opened.pop() if opened else None
            if start is None or _HEAD.match(text, start + 1) or _MARK.match(text, start + 1):
                signs[place] = ")"
                if start is not None:
                    signs[start] = "("
    for start in opened:
        signs[start] = "("
    return "".join(signs)
