"""Where a question ends and the answers to choose from begin."""

from __future__ import annotations

import re
from typing import Final

# "Given list is: A, B", "Options: ...", or the first of at least two lines or words lettered A, B.
_HEADED: Final = re.compile(
    r"\b(?:given list is|given list|options(?: are)?|choices(?: are)?|choose (?:one )?(?:of|from)(?: the following)?"
    r"|select (?:one )?(?:of|from)(?: the following)?|answer choices)\s*:",
    re.IGNORECASE,
)
_LETTERED: Final = re.compile(r"(?:^|[\n\s])(?:\(A\)|A[.):])\s.*?[\n\s](?:\(B\)|B[.):])\s", re.DOTALL)


def choices_start(question: str) -> int:
    """Character at which the answers begin; the question's length where it gives none."""
    places = [match.start() for match in (_HEADED.search(question), _LETTERED.search(question)) if match]
    return min(places, default=len(question))
