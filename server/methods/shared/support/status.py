"""Read from a record's own notes whether its article is retracted or has been replaced. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from server.methods.base import SourceStatus

# PubMed's publication types and kinds of CommentsCorrections (NLM, PubMed DTD).
_RETRACTED_TYPES: Final = frozenset({"retracted publication"})
_RETRACTED_NOTICES: Final = frozenset({"RetractionIn", "RetractedandRepublishedIn", "PartialRetractionIn"})
_NEWER_NOTICES: Final = frozenset({"UpdateIn", "RepublishedIn", "CorrectedandRepublishedIn"})
# How publishers mark a title, and how NCBI and this server write it.
_RETRACTED_TITLE: Final = re.compile(
    r"\s*\[?(?:RETRACTED|Retracted)(?: ARTICLE| Article)?\s*[:\]]|.{0,400}[;(] ?RETRACTED\)"
)
_WITHDRAWN_TITLE: Final = re.compile(r"\s*\[?(?:WITHDRAWN|Withdrawn)(?: ARTICLE| Article)?\s*[:\]]")


def status_of(title: str, types: Iterable[str] = (), notices: Iterable[str] = ()) -> SourceStatus:
    """Return a record's status by its title's mark, its publication types and the kinds of its notices."""
    kinds = frozenset(notices)
    if (
        _RETRACTED_TITLE.match(title)
        or _RETRACTED_TYPES & {name.lower() for name in types}
        or _RETRACTED_NOTICES & kinds
    ):
        return "retracted"
    return "superseded" if _WITHDRAWN_TITLE.match(title) or _NEWER_NOTICES & kinds else "current"
