"""List the English words that say how a sentence is built and not what it is about."""

from __future__ import annotations

import re
from typing import Final

FUNCTION_WORDS: Final = frozenset(
    re.findall(
        r"\w+",
        "a an and any are as at be been between both but by can could did do does for from had has have how if in into "
        "is it its may me of on or our than that the their there these they this those through to under was we were "
        "what when where whether which who why will with would",
    )
)
