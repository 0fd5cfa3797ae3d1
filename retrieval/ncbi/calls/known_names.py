"""Define the names that this machine knows from public records: those that may be told apart from free text.

The gateway's store and the graph implement ``KnownNames``. Knows nothing of calls and of what may leave.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, Literal, Protocol, get_args

# symbol and alias are those of human genes, other_symbol both of other species; gene_name is a gene's full name.
NameKind = Literal["symbol", "alias", "other_symbol", "gene_name", "organism", "disease", "heading"]
NAME_KINDS: Final[tuple[NameKind, ...]] = get_args(NameKind)
# The longest names of controlled vocabularies are near this; longer text is not looked up.
MAX_NAME_CHARS: Final = 120


@dataclass(frozen=True, slots=True)
class KnownName:
    """Hold a name in its stored spelling."""

    spelling: str
    kind: NameKind


class KnownNames(Protocol):
    """Look up names that records of public vocabularies have, from any thread."""

    def find(self, name: str, kinds: Collection[NameKind]) -> Iterable[KnownName]:
        """Yield the names of these kinds that equal the whole of ``name`` but for letter case, as they are found.

        Punctuation counts. A name can have several kinds.
        """
        ...


def same(written: str, stored: str) -> bool:
    """Return whether two spellings differ in letter case alone."""
    return written.casefold() == stored.casefold()
