"""Vectors of statements that came without one, kept for the next question: as float16, in a bounded number of bytes.

SPOKE's statements have no row in a store. A vector is one of a text under an encoder, so it is kept under both: the
same statement of another release, with other sources, needs none of its own. As in a store, what is compared with a
question is always what float16 holds, at the first question as at the second.
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
# Beside a vector: its key, both objects' heads and the table's entry.
_OVERHEAD: Final = 320
# Between two batches questions of others get their turn in the encoder's one thread.
_BATCH: Final = 128
# float16 [n, dim] as bytes, for each text.
_Rows = dict[bytes, bytes]
Encode = Callable[[Sequence[str]], Awaitable[Floats]]


class StatementVectors:
    """One per encoder and process; for the tasks of one event loop. ``max_bytes`` 0 keeps nothing."""

    def __init__(self, fingerprint: Mapping[str, Any], encode: Encode, max_bytes: int = DEFAULT_BYTES) -> None:
        """``encode``: float32 [n, dim] of passages, from whatever thread."""
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
        """float32 [n, dim], in the order given. A text that another question has under way is waited for.

        Raises what ``encode`` raises; nothing of that is kept.
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
            # Who asked first may go away; others wait for the same.
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
