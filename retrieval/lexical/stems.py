"""Stem the words of passages and queries, as the only module that imports PyStemmer.

Snowball's English stemmer makes one term of "inhibitor" and "inhibitors", "mutated" and "mutations". Names are not
stemmed, nor the words whose stem means something else to a biologist. Keyword frequency (PES2) and answers keep whole
words.
"""

from __future__ import annotations

import re
import threading
from functools import lru_cache
from typing import Final, Protocol

_SHORTEST_STEMMED: Final = 4
# Words that Snowball gives the stem of another one.
_UNSTEMMED: Final = frozenset(
    re.findall(
        r"\w+",
        "organic organism organization universal university general generic generation generate experiment experience "
        "international internal policy police animal animation arsenic arsenal author authority physics physical "
        "physician physiology import important importance operate operation operative lateral national natural nature "
        "immune immunity community marker market iron ironic ionic ester esterase",
    )
)
_of_thread: Final = threading.local()


class _Stems(Protocol):
    def stemWord(self, word: str) -> str: ...  # noqa: N802 (PyStemmer's name)


@lru_cache(maxsize=2**16)
def stem(term: str) -> str:
    """Return the stem of a term of small ASCII letters, any other term unchanged."""
    if len(term) < _SHORTEST_STEMMED or not (term.isascii() and term.isalpha()) or term in _UNSTEMMED:
        return term
    return str(_stemmer().stemWord(term))


def _stemmer() -> _Stems:
    """Return the stemmer of this thread, since its state is not safe to share."""
    found: _Stems | None = getattr(_of_thread, "stemmer", None)
    if found is None:
        import Stemmer

        found = _of_thread.stemmer = Stemmer.Stemmer("english")
    return found
