"""Define the contract of every engine.

``tests/contract/test_engine_contract.py`` checks each engine against it.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from models.engines.thinking import ThinkingTokens
from models.errors import ContextTooLong, UnsupportedParam
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
    def bos_token_id(self) -> int | None:
        """Return the token that the tokenizer puts in front of a text, None where it puts none."""
        ...

    @property
    def has_chat_template(self) -> bool: ...

    @property
    def tool_template(self) -> str | None:
        """Return the chat template that lists tools, None where the model has none that does."""
        ...

    def special_id(self, token: str) -> int | None:
        """Return the id of the special token that is written ``token``, or None."""
        ...

    @property
    def thinking(self) -> ThinkingTokens | None:
        """Return the tokens between which the model thinks before it answers, None where there are none."""
        ...

    def encode(self, text: str) -> list[int]:
        """Encode text that continues a sequence, without BOS; text that spells a control token is ordinary tokens."""
        ...

    def encode_start(self, text: str) -> list[int]:
        """Encode text that begins a sequence, as the model was trained: with BOS and a space where it has them."""
        ...

    def decode(self, token_ids: Sequence[int]) -> str:
        """Decode ids to text; special tokens decode to nothing.

        Exact inverse of ``encode`` up to incomplete UTF-8 (U+FFFD).
        """
        ...

    def token_id(self, token: str) -> int | None:
        """Return the id of the single ordinary token that decodes to exactly ``token``, or None."""
        ...

    def encode_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> list[int]:
        """Apply the model's chat template.

        Message text cannot produce control tokens: markup comes from the template alone. Messages have ``role`` and
        ``content``; those with calls also ``tool_calls``, as objects, and replies to calls ``tool_call_id``. ``tools``
        are OpenAI's objects. Where the template has no system role or demands turns in alternation, the system text
        goes into the first user turn and adjacent messages of one role become one.

        Raises:
            UnsupportedParam: the model has no chat template, or it refuses the messages or has no place for tools.
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
        ``max_tokens``, the context's end or repetition (``stop_on_repetition``) gives ``length``. Closing the iterator
        (``aclose`` or cancelling its task) or ``abort`` frees the slot at once. The same seed, prompt and params give
        the same tokens. ``request_id`` is the id of an answer; an answer of several generations appends ``-sN`` or
        ``.NAME`` to it, so that an engine of several places keeps them where their prefix is cached.

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

    @property
    @abstractmethod
    def slots(self) -> int:
        """Return how many sequences the running engine decodes together, which it may have chosen itself."""

    @abstractmethod
    async def openai_layer(self) -> OpenAiLayer:
        """Return the layer, the same object at every call.

        It checks no API key and accepts prompts and limits as given.

        Raises:
            EngineUnavailable: the engine is not running, or its layer cannot be built.
        """


def block_hashes(
    token_ids: Sequence[int], block_size: int, cache_salt: str | None, known: Sequence[bytes] = ()
) -> list[bytes]:
    """Return one digest per full block, in order.

    Each covers the salt and every token up to the block's end. ``known`` are the digests of the first blocks, from an
    earlier call for a prefix of the same tokens.
    """
    digests = list(known)
    root = b"open" if cache_salt is None else b"salt" + cache_salt.encode("utf-8", errors="surrogatepass")
    previous = digests[-1] if digests else hashlib.blake2b(root, digest_size=16).digest()
    for start in range(len(digests) * block_size, len(token_ids) - block_size + 1, block_size):
        block = array("q", token_ids[start : start + block_size]).tobytes()
        previous = hashlib.blake2b(previous + block, digest_size=16).digest()
        digests.append(previous)
    return digests


MAX_LOGPROBS = 20


def check_request(prompt_ids: Sequence[int], params: GenerateParams, *, vocab_size: int, max_model_len: int) -> None:
    """Check the prompt and the parameters of a request.

    Raises:
        ContextTooLong: the prompt leaves no room for one token.
        UnsupportedParam: the prompt or a parameter is invalid.
    """
    if not prompt_ids:
        raise UnsupportedParam("the prompt is empty", param="prompt")
    if min(prompt_ids) < 0 or max(prompt_ids) >= vocab_size:
        raise UnsupportedParam(f"prompt token ids must lie in 0..{vocab_size - 1}", param="prompt")
    if len(prompt_ids) >= max_model_len:
        raise ContextTooLong(
            f"the prompt has {len(prompt_ids)} tokens and leaves no room in a context of {max_model_len}",
            param="prompt",
        )
    _check_params(params)
    if any(not 0 <= token < vocab_size for token, _ in params.logit_bias):
        raise UnsupportedParam(f"logit_bias: token ids must lie in 0..{vocab_size - 1}", param="logit_bias")


def _check_params(params: GenerateParams) -> None:
    checks = (
        ("max_tokens", params.max_tokens >= 1, "must be at least 1"),
        (
            "temperature",
            math.isfinite(params.temperature) and params.temperature >= 0,
            "must be a number of at least 0",
        ),
        ("top_p", 0 < params.top_p <= 1, "must lie in (0, 1]"),
        ("top_k", params.top_k >= 0, "must be at least 0"),
        ("min_p", 0 <= params.min_p <= 1, "must lie in [0, 1]"),
        ("frequency_penalty", abs(params.frequency_penalty) <= 2, "must lie in [-2, 2]"),
        ("presence_penalty", abs(params.presence_penalty) <= 2, "must lie in [-2, 2]"),
        ("repetition_penalty", 0 < params.repetition_penalty < math.inf, "must be a number above 0"),
        ("logit_bias", all(abs(bias) <= 100 for _, bias in params.logit_bias), "must have values in [-100, 100]"),
        ("logprobs", params.logprobs is None or 0 <= params.logprobs <= MAX_LOGPROBS, f"must lie in 0..{MAX_LOGPROBS}"),
        ("stop", all(params.stop), "must not hold an empty string"),
    )
    for name, valid, rule in checks:
        if not valid:
            raise UnsupportedParam(f"{name} {rule}, not {getattr(params, name)!r}", param=name)
