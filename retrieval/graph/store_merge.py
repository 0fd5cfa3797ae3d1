"""Merge edges that make the same statement, preserving every source, article and attribute, without I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from retrieval.graph.types import Edge

_MOST: Final = 1000


def merged(edges: Iterable[Edge]) -> Edge:
    """Merge edges with the same ends and type.

    Attributes that differ become lists under their names, in their order.
    """
    found = list(edges)
    first = found[0]
    if all(edge == first for edge in found[1:]):
        return first
    return Edge(
        source_id=first.source_id,
        target_id=first.target_id,
        kind=first.kind,
        provenance=tuple(dict.fromkeys(name for edge in found for name in edge.provenance)),
        pmids=tuple(dict.fromkeys(name for edge in found for name in edge.pmids)),
        evidence=_evidence([edge.evidence for edge in found]),
        licence="; ".join(dict.fromkeys(edge.licence for edge in found if edge.licence)),
    )


def _evidence(all_of: list[Mapping[str, Any]]) -> dict[str, Any]:
    values: dict[str, list[Any]] = {}
    for evidence in all_of:
        for key, value in evidence.items():
            kept = values.setdefault(key, [])
            if value not in kept and len(kept) < _MOST:
                kept.append(value)
    return {key: kept[0] if len(kept) == 1 else kept for key, kept in values.items()}
