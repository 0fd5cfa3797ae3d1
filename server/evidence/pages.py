"""Draw and read single pages of stored PDFs, in few processes with little time each.

A file of a thousand bytes can keep a renderer busy for hours, and its reader will ask again: what failed is not tried
again for a while. Knows nothing of HTTP.
"""

from __future__ import annotations

import copy
import time
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from retrieval.corpus.readers.pdf import MAX_WIDTH, PageLimits, PageText, draw_page, page_words
from retrieval.errors import CorpusError, DocumentUnreadable
from server.on_demand import OnDemand

# A page is drawn at one of these widths, so that a browser of any width finds what another one had drawn, and nobody
# has one page drawn in thousands of sizes.
WIDTHS: Final = (200, 400, 700, 1000, 1400, 2000, 2400, MAX_WIDTH)
_LIMITS: Final = PageLimits(seconds=5.0)
_REMEMBERED_S: Final = 600.0
_MAX_REMEMBERED: Final = 1000
_T = TypeVar("_T")


def drawn_width(width: int) -> int:
    """Return the width at which a page is drawn that shall be shown ``width`` pixels wide: the next in the list."""
    return WIDTHS[min(bisect_left(WIDTHS, width), len(WIDTHS) - 1)]


class PageViews:
    """Show pages of PDFs to the keys that ask; one instance per process.

    ``key_id`` is that of the API key, "" without keys; a path names its content.
    """

    def __init__(
        self, pool: OnDemand, limits: PageLimits = _LIMITS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._pool = pool
        self._limits = limits
        self._clock = clock
        self._failed: OrderedDict[tuple[str, str, int], tuple[float, CorpusError]] = OrderedDict()

    async def picture(self, key_id: str, path: Path, page: int, width: int) -> bytes:
        """Return a page as a PNG, of one of ``WIDTHS``.

        Raises:
            DOCUMENT_UNKNOWN, DocumentUnreadable: as ``draw_page``, also without another try.
            QUEUE_FULL: too many pages wait.
        """
        work = partial(draw_page, path, page, drawn_width(width), self._limits)
        return await self._tried(key_id, (path.name, "picture", page), work)

    async def words(self, key_id: str, path: Path, page: int) -> PageText:
        """Return the words of a page; raises what ``picture`` does."""
        return await self._tried(key_id, (path.name, "words", page), partial(page_words, path, page, self._limits))

    async def _tried(self, key_id: str, what: tuple[str, str, int], work: Callable[[], _T]) -> _T:
        self._check(what)

        def in_turn() -> _T:
            self._check(what)  # it may have failed while this request waited
            return work()

        try:
            return await self._pool.run(key_id, in_turn)
        except DocumentUnreadable as error:
            self._failed.setdefault(what, (self._clock() + _REMEMBERED_S, error))
            while len(self._failed) > _MAX_REMEMBERED:
                self._failed.popitem(last=False)
            raise

    def _check(self, what: tuple[str, str, int]) -> None:
        until, error = self._failed.get(what, (0.0, None))
        if error is not None and self._clock() < until:
            raise copy.copy(error)
        self._failed.pop(what, None)
