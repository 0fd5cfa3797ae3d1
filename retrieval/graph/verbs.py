"""Express edges in words: a phrase for each edge type, and the sentence of a whole edge."""

from __future__ import annotations

import re
from typing import Final

from retrieval.graph.types import Edge, Node, Statement
from retrieval.graph.verb_table import HETIONET, OTHERS, PRIMEKG, SPOKE

# Prefix for the type of an edge that its graph negates (KGX's ``negated``).
NOT: Final = "NOT:"
_SIGNATURE: Final = re.compile(r"[A-Za-z]*[a-z>][A-Za-z>]*")
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z][a-z])")
_PHRASES: Final = {**OTHERS, **PRIMEKG, **HETIONET, **SPOKE}
_ARTICLE_LESS: Final = frozenset({"in", "of", "on", "to", "by", "with", "for", "from"})
_COPULA: Final = frozenset({"part", "member", "marker", "resistant", "sensitive", "associated", "related"})


def phrase(kind: str) -> str:
    """Return the phrase between source and target, derived from the name of an unknown type and never empty."""
    if kind.startswith(NOT):
        return f"does not stand in the relation ({_shorter(phrase(kind.removeprefix(NOT)))}) to"
    name = kind.removeprefix("biolink:")
    return _PHRASES.get(name) or _guess(name)


def is_known(kind: str) -> bool:
    return kind.removeprefix(NOT).removeprefix("biolink:") in _PHRASES


def statement(edge: Edge, source: Node, target: Node, row: int = -1) -> Statement:
    """Build the statement of an edge, with its ends and its sentence."""
    text = f"{readable_kind(source.kind)} {source.name} {phrase(edge.kind)} {readable_kind(target.kind)} {target.name}"
    return Statement(edge=edge, source=source, target=target, text=text, row=row)


def readable_kind(kind: str) -> str:
    """Return "Side Effect" for "SideEffect" and "Biological process" for "biological_process"; abbreviations stay."""
    text = _HUMP.sub(" ", kind.removeprefix("biolink:").replace("_", " ")).strip()
    return text[:1].upper() + text[1:]


def _guess(kind: str) -> str:
    """Derive a phrase from the name of an unknown type, dropping the signature (_XyZ) that ends SPOKE's names."""
    words = kind.split("_")
    if len(words) > 1 and words[0].isupper() and _SIGNATURE.fullmatch(words[-1]):
        words = words[:-1]
    text = re.sub(r"[\s:/>-]+", " ", " ".join(_HUMP.sub(" ", word) for word in words)).strip().lower()
    first, _, rest = text.partition(" ")
    if first in _COPULA or (first in _ARTICLE_LESS and rest):
        return f"is {text}"
    return text or "is linked to"


def _shorter(text: str) -> str:
    return text if len(text) <= 80 else text[:79] + "…"
