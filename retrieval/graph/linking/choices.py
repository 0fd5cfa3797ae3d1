"""Find where a question ends and its answer options begin."""

from __future__ import annotations

import re
from typing import Final

# "Given list is: A, B", "Options: ...", or answers lettered A, B.
_HEADED: Final = re.compile(
    r"\b(?:given list is|given list|options(?: are)?|choices(?: are)?|choose (?:one )?(?:of|from)(?: the following)?"
    r"|select (?:one )?(?:of|from)(?: the following)?|answer choices)\s*:",
    re.IGNORECASE,
)
_FIRST: Final = re.compile(r"(?:^|(?<=\s))(?:\(A\)|A[.):])\s")
_SECOND: Final = re.compile(r"\s(?:\(B\)|B[.):])\s")


def choices_start(question: str) -> int:
    """Return the character at which the answer options begin, or the question's length without options."""
    headed, lettered = _HEADED.search(question), _FIRST.search(question)
    if lettered and not _SECOND.search(question, lettered.end()):
        lettered = None
    return min((match.start() for match in (headed, lettered) if match), default=len(question))
