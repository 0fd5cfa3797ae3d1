"""Cache the vectors of statements that come without one, as float16 and in a bounded number of bytes.

SPOKE's statements have no row in a store. A vector depends on a text and an encoder, so both are part of its key: the
same statement of another release, with other sources, needs no vector of its own. As in a store, a question is always
compared with the float16 values, the first time as well as later.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from models.encoders.base import Floats

DEFAULT_BYTES: Final = 64 << 20
# Bytes per entry beside the vector: its key, the headers of both objects and the entry of the dict.
_OVERHEAD: Final = 320
# Between two batches, the one thread of the encoder serves other questions.
_BATCH: Final = 128
# Key of a text -> float16 [dim] as bytes.
_Rows = dict[bytes, bytes]
Encode = Callable[[Sequence[str]], Awaitable[Floats]]


class StatementVectors:
    """Encode statements and cache their vectors; one instance per encoder and process.

    Safe for concurrent tasks of one event loop. ``max_bytes`` 0 disables the cache.
    """

    def __init__(self, fingerprint: Mapping[str, Any], encode: Encode, max_bytes: int = DEFAULT_BYTES) -> None:
        """Create an empty cache.

        ``encode`` returns float32 [n, dim] of passages; it may compute them on any thread.
        """
        self._salt = hashlib.blake2b(json.dumps(dict(fingerprint), sort_keys=True).encode()).digest()
        self._encode = encode
        self._max_bytes = max_bytes
        self._kept: OrderedDict[bytes, bytes] = OrderedDict()
        self._bytes = 0
        self._under_way: dict[bytes, asyncio.Task[_Rows]] = {}

    @property
    def num_bytes(self) -> int:
        return self._bytes

    def __len__(self) -> int:
        return len(self._kept)

    async def of(self, texts: Sequence[str]) -> Floats:
        """Return float32 [n, dim], in the order of ``texts``.

        A text that another question is encoding is awaited and not encoded twice. Raises what ``encode`` raises;
        nothing of that batch is cached.
        """
        keys = [self._key(text) for text in texts]
        rows: _Rows = {}
        new: dict[bytes, str] = {}
        waiting: dict[asyncio.Task[_Rows], None] = {}
        for key, text in zip(keys, texts, strict=True):
            if (row := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
                rows[key] = row
            elif (task := self._under_way.get(key)) is not None:
                waiting[task] = None
            else:
                new[key] = text
        if new:
            waiting[self._begin(new)] = None
        for task in waiting:
            # The question that started the task may be cancelled while others await it.
            rows |= await asyncio.shield(task)
        return np.frombuffer(b"".join(rows[key] for key in keys), np.float16).reshape(len(keys), -1).astype(np.float32)

    def _begin(self, new: Mapping[bytes, str]) -> asyncio.Task[_Rows]:
        task = asyncio.create_task(self._encoded(new))
        self._under_way |= dict.fromkeys(new, task)
        task.add_done_callback(lambda done: self._ended(done, new))
        return task

    async def _encoded(self, new: Mapping[bytes, str]) -> _Rows:
        rows: _Rows = {}
        keys = list(new)
        for first in range(0, len(keys), _BATCH):
            part = keys[first : first + _BATCH]
            vectors = (await self._encode([new[key] for key in part])).astype(np.float16)
            rows |= {key: vector.tobytes() for key, vector in zip(part, vectors, strict=True)}
        return rows

    def _ended(self, task: asyncio.Task[_Rows], new: Mapping[bytes, str]) -> None:
        for key in new:
            del self._under_way[key]
        if task.cancelled() or task.exception() is not None:
            return
        for key, row in task.result().items():
            self._kept[key] = row
            self._bytes += len(row) + _OVERHEAD
        while self._bytes > self._max_bytes:
            _, row = self._kept.popitem(last=False)
            self._bytes -= len(row) + _OVERHEAD

    def _key(self, text: str) -> bytes:
        return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16, key=self._salt).digest()
