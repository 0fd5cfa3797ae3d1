"""The engine seam: what every engine promises. ``tests/contract/test_engine_contract.py`` holds all of them to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from models.types import Delta, EngineStats, GenerateParams

AsgiSend = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class LayerCall:
    """A request to an engine's own OpenAI layer. ``headers``: those that the layer may see, as ASGI has them."""

    path: str
    body: Mapping[str, Any]
    headers: tuple[tuple[bytes, bytes], ...] = ()


# Sends one reply as ASGI's messages. Cancelling it ends what is generated for it, and frees the engine's slot.
OpenAiLayer = Callable[[LayerCall, AsgiSend], Awaitable[None]]


class Tokenizer(Protocol):
    """Text to token ids and back, without HTTP, prompts or torch."""

    @property
    def vocab_size(self) -> int: ...

    @property
    def eos_token_ids(self) -> frozenset[int]: ...

    @property
    def bos_token_id(self) -> int | None: ...

    @property
    def has_chat_template(self) -> bool: ...

    def encode(self, text: str) -> list[int]:
        """Plain text only: no BOS is added, and text that spells a special token becomes ordinary tokens."""
        ...

    def decode(self, token_ids: Sequence[int]) -> str:
        """Exact inverse of ``encode`` up to incomplete UTF-8 (U+FFFD); special tokens decode to nothing."""
        ...

    def token_id(self, token: str) -> int | None:
        """The id of the single ordinary token that decodes to exactly ``token``, or None."""
        ...

    def encode_chat(self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool = True) -> list[int]:
        """Apply the model's chat template. Message text cannot produce special tokens (role markup is data).

        Raises:
            UnsupportedParam: the model has no chat template.
        """
        ...


class Engine(Protocol):
    """Generates. One object per loaded model; all methods are safe to call from one event loop, many at once."""

    @property
    def name(self) -> str: ...

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def max_model_len(self) -> int:
        """Most tokens a prompt and its continuation may have together."""
        ...

    @property
    def block_size(self) -> int:
        """Grain of the prefix cache, tokens."""
        ...

    async def start(self) -> None:
        """Load the weights. Raises ModelNotFound or EngineUnavailable."""
        ...

    async def close(self) -> None: ...

    def generate(self, prompt_ids: Sequence[int], params: GenerateParams, request_id: str) -> AsyncIterator[Delta]:
        """Continue ``prompt_ids``; yields deltas, the last with a ``finish_reason``.

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
    """An engine that has an OpenAI layer of its own for the plain model.

    To be inherited: every request asks for it, and whether a class has a protocol's members is found out each time.
    """

    @abstractmethod
    async def openai_layer(self) -> OpenAiLayer:
        """The same one at every call. It checks no key and takes its prompts and limits as they come.

        Raises:
            EngineUnavailable: the engine is not running, or its layer cannot be built.
        """
