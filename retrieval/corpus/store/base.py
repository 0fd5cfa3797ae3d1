"""Filter passages by the properties of their documents; the store translates the filter for the indices."""

from __future__ import annotations

from dataclasses import dataclass

from retrieval.corpus.errors import NamespaceInvalid
from retrieval.passages import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageFilter:
    """Restrict which passages may be found; every condition must be met.

    Dates are yyyymmdd, inclusive, 0 for none: a passage without date fails where one is set. ``types``: the document
    has one of these (any, where empty); ``without_types``: it has none of them. ``documents``: ids, any where None.

    Raises:
        NamespaceInvalid: invalid dates, or dates in the wrong order.
    """

    date_from: int = 0
    date_to: int = 0
    types: tuple[str, ...] = ()
    without_types: tuple[str, ...] = ()
    documents: frozenset[str] | None = None

    def __post_init__(self) -> None:
        for name, value in (("date_from", self.date_from), ("date_to", self.date_to)):
            if value and not 10_000_000 <= value <= 99_991_231:
                raise NamespaceInvalid(f"{name} must be a date as yyyymmdd", param=name)
        if self.date_to and self.date_from > self.date_to:
            raise NamespaceInvalid("date_from lies after date_to", param="date_from")
        object.__setattr__(self, "types", _small(self.types))
        object.__setattr__(self, "without_types", _small(self.without_types))

    @property
    def is_open(self) -> bool:
        return self == MATCH_ALL

    def admits(self, document: Document) -> bool:
        """Return whether a document passes, by its own fields; every index must agree with this result."""
        dated = bool(self.date_from or self.date_to)
        return (
            (not dated or (document.date > 0 and self.date_from <= document.date <= (self.date_to or 99_999_999)))
            and (not self.types or not frozenset(self.types).isdisjoint(document.types))
            and frozenset(self.without_types).isdisjoint(document.types)
            and (self.documents is None or document.document_id in self.documents)
        )


def _small(types: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip().lower() for name in types if name.strip()))


MATCH_ALL = PassageFilter()
