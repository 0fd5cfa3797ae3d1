"""Build the URLs and cutoffs of SPOKE requests, as pure functions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote, urlencode

from retrieval.graph.errors import GraphSourceMalformed

API: Final = "/api/v1"
# Node types with metadata of the graph's build instead of knowledge.
_NOT_ASKED: Final = frozenset({"DatabaseTimestamp", "Version"})
_MAX_TYPES: Final = 2000
# As published with KG-RAG (utility.py), except the prevalence: its 0.001 is below all values (1.6 to 56.8 percent) and
# would admit every place in the country; 16.4 is SPOKE's own default.
CUTOFFS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "cutoff_Compound_max_phase": ("3",),
        "cutoff_Protein_source": ("SwissProt",),
        "cutoff_DaG_diseases_sources": ("knowledge", "experiments"),
        "cutoff_DaG_textmining": ("3",),
        "cutoff_CtD_phase": ("3",),
        "cutoff_PiP_confidence": ("0.7",),
        "cutoff_ACTeG_level": ("Low", "Medium", "High"),
        "cutoff_DpL_average_prevalence": ("16.4",),
    }
)


@dataclass(frozen=True, slots=True)
class Types:
    """Hold the node types, edge types and cutoffs that SPOKE currently supports."""

    nodes: tuple[str, ...]
    edges: tuple[str, ...]
    cutoffs: frozenset[str]


def read_types(value: Any) -> Types:
    """Parse the reply of /types.

    Raises:
        GraphSourceMalformed: the reply has another form.
    """
    try:
        nodes, edges = (tuple(map(str, value[key])) for key in ("nodes", "edges"))
        cutoffs = frozenset(name for key in ("node_cutoffs", "edge_cutoffs") for name in value.get(key, {}))
    except (TypeError, KeyError, AttributeError) as fault:
        raise GraphSourceMalformed("SPOKE's list of types has not the form it had") from fault
    if not 0 < len(nodes) <= _MAX_TYPES or not 0 < len(edges) <= _MAX_TYPES:
        raise GraphSourceMalformed(f"SPOKE lists {len(nodes)} kinds of nodes and {len(edges)} of edges")
    return Types(nodes, edges, cutoffs)


def types_url(base: str) -> str:
    return f"{base.rstrip('/')}{API}/types"


def neighbourhood_url(base: str, path: tuple[str, str, str], types: Types, kinds: Iterable[str] | None) -> str:
    """Return the URL of a neighbourhood request.

    ``path``: node type, property, value ("Disease", "name", "a/b"). ``kinds``: edge types, None for all.
    """
    wanted = set(types.edges if kinds is None else kinds)
    query = [("node_filters", name) for name in types.nodes if name not in _NOT_ASKED]
    query += [("edge_filters", name) for name in types.edges if name in wanted]
    # Omit a cutoff that SPOKE no longer lists; if it lists none, send all.
    sent = {name: values for name, values in CUTOFFS.items() if not types.cutoffs or name in types.cutoffs}
    query += [(name, value) for name, values in sent.items() for value in values]
    query.append(("depth", "1"))
    place = "/".join(quote(part, safe="") for part in path)
    return f"{base.rstrip('/')}{API}/neighborhood/{place}?{urlencode(query)}"


def can_be_asked(value: str) -> bool:
    """Return True if the value is valid in a path, which "." and ".." are not, even percent-encoded."""
    return 0 < len(value) <= 500 and value not in {".", ".."} and value.isprintable()


def backoff_s(attempt: int) -> float:
    """Return the seconds before the next attempt; ``attempt`` counts from 1."""
    return min(8.0, 0.5 * math.pow(2, attempt - 1))
