"""What the readers yield and what can be asked of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from retrieval.gateway.importing.sources import Source
from retrieval.gateway.records import Entry, Organism

MAX_REASON: Final = 200


@dataclass(frozen=True, slots=True)
class Good:
    """``line``: 1-based line where the record starts; in a tar archive the 1-based number of the member."""

    line: int
    entry: Entry


@dataclass(frozen=True, slots=True)
class Bad:
    """A record that is passed over; ``line`` as in ``Good``, ``reason`` for a person, at most ``MAX_REASON`` long."""

    line: int
    reason: str


Item = Good | Bad


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """``organisms``: names by taxonomy id, from an imported taxonomy. ``tax_ids``: of gene files, only these organisms'
    rows. ``only_in_genes``: of dbSNP, only rows with a gene or a clinical significance.

    A ``skip`` counts items under one set of options: it means nothing under another.
    """

    organisms: Mapping[int, Organism] = field(default_factory=dict)
    tax_ids: frozenset[int] | None = None
    only_in_genes: bool = False


NO_OPTIONS: Final = ReadOptions()


class MalformedRecord(ValueError):
    """Inside a reader: this record becomes a ``Bad`` with the text as its reason."""


def bad(line: int, reason: object) -> Bad:
    text = " ".join(str(reason).split())
    return Bad(line, text if len(text) <= MAX_REASON else text[: MAX_REASON - 1] + "…")


def shown(text: str, limit: int = 40) -> str:
    """A value as a reason may quote it: short, on one line."""
    return repr(text if len(text) <= limit else text[:limit] + "…")


class Reader(Protocol):
    """Reads one file from its beginning with constant memory.

    ``skip`` leading items are passed over without building records. Raises ImportFileError before the first item where
    the file is not of the kind, and later where it is cut or damaged; the items before that point are sound.
    """

    def __call__(self, source: Source, options: ReadOptions = ..., skip: int = ...) -> Iterator[Item]: ...
