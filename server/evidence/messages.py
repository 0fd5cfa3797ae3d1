"""Read what kind of message a person writes, and what it asks of a graph, with the encoder that ships and its heads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from models.encoders.base import Encoder, EncoderOptions
from models.encoders.message_head import MessageHead, MessageReading, load_head, shortened
from models.encoders.registry import create_encoder
from models.encoders.relation_head import AskedRelation, RelationHead, load_relation_head
from models.encoders.specs import DEFAULT_ENCODER, HASHING
from models.errors import ModelNotFound
from server.settings.retrieval import RetrievalSettings

log = logging.getLogger(__name__)
# An answer does not wait longer; a message takes some milliseconds.
_TIMEOUT_S: Final = 2.0
_T = TypeVar("_T")
_Loaded = tuple[Encoder, MessageHead, RelationHead]


class MessageKinds:
    """Implement the methods' ``MessageReader``; what is not available is logged once and then left out.

    The encoder is its own, on the CPU and in float32, as the head was trained: it neither waits for passages that are
    being embedded nor depends on the encoders of the settings. ``load`` blocks until it is in memory.
    """

    def __init__(
        self,
        load: Callable[[], Encoder],
        head: Callable[[], MessageHead] = load_head,
        relation_head: Callable[[], RelationHead] = load_relation_head,
    ) -> None:
        self._load = load
        self._load_head = head
        self._load_relation_head = relation_head
        self._loaded: _Loaded | None = None
        self._is_lacking = False
        self._has_warned = False
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="messages")

    async def read(self, message: str) -> MessageReading | None:
        return await self._read(self._reading, message, _TIMEOUT_S)

    async def asked(self, question: str) -> AskedRelation | None:
        """Return the relation that a question asks for, the names in it replaced by their kinds."""
        return await self._read(self._relation, question, _TIMEOUT_S)

    async def warm_up(self, _: object) -> None:
        """Load encoder and head, so that the first message does not wait for them."""
        await self._read(self._reading, "", None)

    async def close(self) -> None:
        self._worker.shutdown(wait=False, cancel_futures=True)

    async def _read(self, read: Callable[[str], _T], message: str, timeout_s: float | None) -> _T | None:
        if self._is_lacking:
            return None
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.get_running_loop().run_in_executor(self._worker, read, message)
        # Whatever fails here, libraries' own errors included, the question is answered all the same.
        except Exception as error:
            self._warn(error)
            return None

    def _reading(self, message: str) -> MessageReading:
        encoder, head, _ = self._ready()
        text = shortened(message)
        return head.read(text, encoder.encode_queries([text])[0])

    def _relation(self, question: str) -> AskedRelation:
        encoder, _, head = self._ready()
        text = shortened(question)
        return head.read(text, encoder.encode_queries([text])[0])

    def _ready(self) -> _Loaded:
        if self._loaded is None:
            try:
                self._loaded = self._load(), self._load_head(), self._load_relation_head()
            except Exception:
                self._is_lacking = True
                raise
        return self._loaded

    def _warn(self, error: Exception) -> None:
        if not self._has_warned:
            self._has_warned = True
            log.warning("emergencies are not noted before answers: %s: %s", type(error).__name__, error)


def message_kinds(settings: RetrievalSettings) -> MessageKinds:
    """Return the reader of messages; without one where the settings want no encoder with weights."""

    def load() -> Encoder:
        if set(settings.encoder_names) == {HASHING}:
            raise ModelNotFound(f"retrieval.encoders is {HASHING}, and no encoder with weights is loaded beside it")
        return create_encoder(DEFAULT_ENCODER, EncoderOptions(device="cpu", dtype="float32", threads=1))

    return MessageKinds(load)
