"""Cache what an encoder computes of texts, as bytes."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

DEFAULT_BYTES: Final = 64 << 20
# Bytes per entry beside the row: its key, the headers of both objects and the entry of the dict.
_OVERHEAD: Final = 320
# Between two batches, the one thread of the encoder serves other questions.
_BATCH: Final = 128
# Key of a text -> its row.
_Rows = dict[bytes, bytes]
EncodeRows = Callable[[Sequence[str]], Awaitable[list[bytes]]]


class TextCache:
    """Encode texts and cache a row of bytes for each.

    Safe for concurrent tasks of one event loop. ``max_bytes`` 0 disables the cache.
    """

    def __init__(self, fingerprint: Mapping[str, Any], encode: EncodeRows, max_bytes: int = DEFAULT_BYTES) -> None:
        self._salt = hashlib.blake2b(json.dumps(dict(fingerprint), sort_keys=True).encode()).digest()
        self._encode = encode
        self._max_bytes = max_bytes
        self._cached_rows: OrderedDict[bytes, bytes] = OrderedDict()
        self._bytes = 0
        self._in_flight: dict[bytes, asyncio.Task[_Rows]] = {}

    @property
    def num_bytes(self) -> int:
        return self._bytes

    def __len__(self) -> int:
        return len(self._cached_rows)

    async def rows_of(self, texts: Sequence[str]) -> list[bytes]:
        """Return the row of each text, in order.

        A text that another question is encoding is awaited and not encoded twice. Raises what ``encode`` raises;
        nothing of that batch is cached.
        """
        keys = [self._key(text) for text in texts]
        rows: _Rows = {}
        new: dict[bytes, str] = {}
        waiting: dict[asyncio.Task[_Rows], None] = {}
        for key, text in zip(keys, texts, strict=True):
            if (row := self._cached_rows.get(key)) is not None:
                self._cached_rows.move_to_end(key)
                rows[key] = row
            elif (task := self._in_flight.get(key)) is not None:
                waiting[task] = None
            else:
                new[key] = text
        if new:
            waiting[self._begin(new)] = None
        for task in waiting:
            # The question that started the task may be cancelled while others await it.
            rows |= await asyncio.shield(task)
        return [rows[key] for key in keys]

    def _begin(self, new: Mapping[bytes, str]) -> asyncio.Task[_Rows]:
        task = asyncio.create_task(self._encoded(new))
        self._in_flight |= dict.fromkeys(new, task)
        task.add_done_callback(lambda done: self._ended(done, new))
        return task

    async def _encoded(self, new: Mapping[bytes, str]) -> _Rows:
        rows: _Rows = {}
        keys = list(new)
        for first in range(0, len(keys), _BATCH):
            part = keys[first : first + _BATCH]
            rows |= zip(part, await self._encode([new[key] for key in part]), strict=True)
        return rows

    def _ended(self, task: asyncio.Task[_Rows], new: Mapping[bytes, str]) -> None:
        for key in new:
            del self._in_flight[key]
        if task.cancelled() or task.exception() is not None:
            return
        for key, row in task.result().items():
            self._cached_rows[key] = row
            self._bytes += len(row) + _OVERHEAD
        while self._bytes > self._max_bytes:
            _, row = self._cached_rows.popitem(last=False)
            self._bytes -= len(row) + _OVERHEAD

    def _key(self, text: str) -> bytes:
        return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16, key=self._salt).digest()
