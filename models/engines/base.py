"""Define the contract of every engine.

``tests/contract/test_engine_contract.py`` checks each engine against it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from models.types import Delta, EngineStats, GenerateParams

AsgiSend = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class LayerCall:
    """Describe a request to an engine's own OpenAI layer.

    ``headers`` are those that the layer may see, in ASGI form.
    """

    path: str
    body: Mapping[str, Any]
    headers: tuple[tuple[bytes, bytes], ...] = ()


# Sends one reply as ASGI messages. Cancelling it aborts its generation and frees the engine's slot.
OpenAiLayer = Callable[[LayerCall, AsgiSend], Awaitable[None]]


class Tokenizer(Protocol):
    """Convert text to token ids and back, without HTTP, prompts or torch."""

    @property
    def vocab_size(self) -> int: ...

    @property
    def eos_token_ids(self) -> frozenset[int]: ...

    @property
    def bos_token_id(self) -> int | None: ...

    @property
    def has_chat_template(self) -> bool: ...

    def encode(self, text: str) -> list[int]:
        """Encode plain text, without BOS; text that spells a special token becomes ordinary tokens."""
        ...

    def decode(self, token_ids: Sequence[int]) -> str:
        """Decode ids to text; special tokens decode to nothing.

        Exact inverse of ``encode`` up to incomplete UTF-8 (U+FFFD).
        """
        ...

    def token_id(self, token: str) -> int | None:
        """Return the id of the single ordinary token that decodes to exactly ``token``, or None."""
        ...

    def encode_chat(self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool = True) -> list[int]:
        """Apply the model's chat template.

        Message text cannot produce special tokens (role markup is data).

        Raises:
            UnsupportedParam: the model has no chat template.
        """
        ...


class Engine(Protocol):
    """Generate continuations with one loaded model.

    All methods may be called concurrently from one event loop.
    """

    @property
    def name(self) -> str: ...

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def max_model_len(self) -> int:
        """Return the most tokens that a prompt and its continuation may have together."""
        ...

    @property
    def block_size(self) -> int:
        """Return the block size of the prefix cache in tokens."""
        ...

    async def start(self) -> None:
        """Load the weights.

        Raises:
            ModelNotFound: files are missing or damaged.
            EngineUnavailable: this engine or machine cannot run them.
        """
        ...

    async def close(self) -> None: ...

    def generate(self, prompt_ids: Sequence[int], params: GenerateParams, request_id: str) -> AsyncIterator[Delta]:
        """Continue ``prompt_ids`` and yield deltas, the last with a ``finish_reason``.

        A stop string ends the stream and ``stop_reason`` says which. EOS ends it with ``stop_reason`` None.
        ``max_tokens`` or the context's end gives ``length``. Closing the iterator (``aclose`` or cancelling its
        task) or ``abort`` frees the slot at once. The same seed, prompt and params give the same tokens.

        Raises:
            ContextTooLong: the prompt leaves no room for one token.
            UnsupportedParam, GrammarInvalid: names the field.
            EngineOverloaded, EngineUnavailable.
        """
        ...

    async def abort(self, request_id: str) -> None: ...

    def is_ready(self) -> bool: ...

    def stats(self) -> EngineStats: ...


class ServesOpenAi(ABC):
    """Mark an engine that has its own OpenAI layer for the plain model.

    A base class and not a Protocol: every request checks for it, and a Protocol check looks up its members each time.
    """

    @abstractmethod
    async def openai_layer(self) -> OpenAiLayer:
        """Return the layer, the same object at every call.

        It checks no API key and accepts prompts and limits as given.

        Raises:
            EngineUnavailable: the engine is not running, or its layer cannot be built.
        """
