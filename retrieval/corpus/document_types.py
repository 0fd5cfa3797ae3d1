"""Map the publication types of PubMed and JATS to the names that filters use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

RETRACTED: Final = "retracted publication"
# Current or shorter names; PubMed has used both for retraction notices.
_SAME: Final = {
    "retraction of publication": "retraction notice",
    "research-article": "journal article",
    "review-article": "review",
    "systematic-review": "systematic review",
    "case-report": "case reports",
    "correction": "published erratum",
    "retraction": "retraction notice",
    "expression-of-concern": "expression of concern",
    "article-commentary": "comment",
}
# Special types and the general ones that they imply (publication types in MeSH, branch V03).
_KINDS: Final = {
    "randomized controlled trial": ("clinical trial",),
    "controlled clinical trial": ("clinical trial",),
    "pragmatic clinical trial": ("clinical trial",),
    "practice guideline": ("guideline",),
}


def document_types(names: Iterable[str], *, retracted: bool = False) -> tuple[str, ...]:
    """Return normalized types, each once, in the order given.

    Types are in lower case; a general type follows the special one that implies it. ``retracted``: a notice reports the
    retraction, whether or not the record's types do.
    """
    found: dict[str, None] = {}
    for written in names:
        name = " ".join(written.lower().split())
        if not name:
            continue
        name = _SAME.get(name, name)
        found[name] = None
        phase = ("clinical trial",) if name.startswith("clinical trial, phase") else ()
        found |= dict.fromkeys((*_KINDS.get(name, ()), *phase))
    if retracted:
        found[RETRACTED] = None
    return tuple(found)
