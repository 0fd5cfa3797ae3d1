"""Register the kinds of files from which a graph can be built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from retrieval.graph.base import GraphLoader
from retrieval.graph.loaders.hetionet import HetionetLoader
from retrieval.graph.loaders.kgx import KgxLoader
from retrieval.graph.loaders.open_edges import OpenEdgesLoader
from retrieval.graph.loaders.plain import PlainLoader
from retrieval.graph.loaders.primekg import PrimekgLoader
from retrieval.graph.loaders.reading import Report
from retrieval.graph.loaders.spoke import SpokeLoader


class Kind(NamedTuple):
    """Describe a kind of file; ``what`` is a description for people."""

    name: str
    what: str
    open: Callable[[Sequence[Path], Report], GraphLoader]


_ALL: Final = (
    Kind("hetionet", "Hetionet v1.0 as JSON: hetionet-v1.0.json.bz2", HetionetLoader),
    Kind("primekg", "PrimeKG: kg.csv", PrimekgLoader),
    Kind("kgx", "KGX nodes and edges (Monarch): two .tsv or one .tar.gz", KgxLoader),
    Kind("spoke", "kept replies of SPOKE's /neighborhood: .json or .jsonl", SpokeLoader),
    Kind("tsv", "own tables of nodes and edges: see docs/graph.md", PlainLoader),
    Kind("open-edges", "edges of diseases with evidence and licence: .jsonl", OpenEdgesLoader),
)
KINDS: Final = MappingProxyType({kind.name: kind for kind in _ALL})
