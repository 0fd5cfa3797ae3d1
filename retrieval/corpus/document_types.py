"""Publication types as filters know them, from the names that PubMed and JATS use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

RETRACTED: Final = "retracted publication"
# Under their new or shorter names; PubMed has called a notice by both.
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
# What is one is the other too (the tree of publication types in MeSH, branch V03).
_KINDS: Final = {
    "randomized controlled trial": ("clinical trial",),
    "controlled clinical trial": ("clinical trial",),
    "pragmatic clinical trial": ("clinical trial",),
    "practice guideline": ("guideline",),
}


def document_types(names: Iterable[str], *, retracted: bool = False) -> tuple[str, ...]:
    """Small letters, each once, in the order given, general types behind the special ones that stand for them.

    ``retracted``: a notice says so, whether or not the record's types do.
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
