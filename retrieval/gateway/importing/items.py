"""Define the items that readers yield and the options that they accept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from retrieval.gateway.importing.sources import Source
from retrieval.gateway.records import Entry, Organism

MAX_REASON: Final = 200


@dataclass(frozen=True, slots=True)
class Good:
    """Hold one valid record.

    ``line`` is the 1-based line on which the record begins; in a tar archive the 1-based number of the member.
    """

    line: int
    entry: Entry


@dataclass(frozen=True, slots=True)
class Bad:
    """Report a skipped record.

    ``line`` as in ``Good``; ``reason`` is a message for people of at most ``MAX_REASON`` characters.
    """

    line: int
    reason: str


Item = Good | Bad


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Select and enrich the records that a reader yields.

    ``organisms``: names by taxonomy id, from an imported taxonomy. ``tax_ids``: only rows of these organisms, for gene
    files. ``only_in_genes``: only rows with a gene or a clinical significance, for dbSNP.

    A reader's ``skip`` counts items under one set of options and is not valid under another.
    """

    organisms: Mapping[int, Organism] = field(default_factory=dict)
    tax_ids: frozenset[int] | None = None
    only_in_genes: bool = False


NO_OPTIONS: Final = ReadOptions()


class MalformedRecord(ValueError):
    """Signal inside a reader that the current record becomes a ``Bad`` with this text as its reason."""


def bad(line: int, reason: object) -> Bad:
    text = " ".join(str(reason).split())
    return Bad(line, text if len(text) <= MAX_REASON else text[: MAX_REASON - 1] + "…")


def shown(text: str, limit: int = 40) -> str:
    """Return a value as a reason quotes it: short, on one line."""
    return repr(text if len(text) <= limit else text[:limit] + "…")


class Reader(Protocol):
    """Read one file from its beginning with constant memory.

    The first ``skip`` items are skipped without building records.

    Raises:
        ImportFileError: before the first item if the file is not of the expected kind, later if it is truncated or
            damaged; the items before that point are valid.
    """

    def __call__(self, source: Source, options: ReadOptions = ..., skip: int = ...) -> Iterator[Item]: ...
