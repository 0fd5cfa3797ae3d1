"""Define the contract of every engine, and the options that one runs with.

Options are sizes and bounds of a whole process, not of one request; defaults of a particular model are on its card.
``tests/contract/test_engine_contract.py`` checks each engine against the contract.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, Literal, Protocol

from models.errors import CONTEXT_TOO_LONG, ENGINE_FULL, ModelError, UnsupportedParam
from models.types import Delta, Dtype, EngineStats, GenerateParams, Grammar, ServerAddress

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

EngineKind = Literal["auto", "transformers", "vllm", "remote", "scripted"]

DEFAULT_SEQS: Final = 32

MAX_LOGPROBS = 20

_THINKING_PAIRS: Final = (
    ("<think>", "</think>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
)


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
            UnsupportedParam, ModelError: the prompt leaves no room for one token, or ``param`` names the field.
            EngineUnavailable, ModelError: there is no engine, or its queue is full.
        """
        ...

    async def abort(self, request_id: str) -> None: ...

    def is_ready(self) -> bool: ...

    def stats(self) -> EngineStats: ...


class ExplainsFailure(ABC):
    """Mark an engine that runs in other processes and learns why they end."""

    @abstractmethod
    def failure_cause(self) -> str:
        """Return the exception with which they ended, in one line; "" where none is known."""


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


@dataclass(frozen=True, slots=True)
class LoraAdapter:
    """Name an adapter and its folder, in PEFT's format; requests choose it by the name, as a model."""

    name: str
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteOptions(ServerAddress):
    """Set where the vLLM server of the remote engine is, or a router before several, and how long it is waited for.

    A request that gets nothing for ``silence_s`` is given up. The server is down when its health is not reported within
    ``probe_timeout_s`` twice in a row; a request then waits for ``wait_s`` at most, the start for ``start_s``.
    """

    silence_s: float = 120.0
    probe_every_s: float = 2.0
    probe_timeout_s: float = 5.0
    wait_s: float = 15.0
    start_s: float = 900.0


def is_private(address: str) -> bool:
    """Return whether an IP address belongs to this machine or to a private network.

    Raises:
        ValueError: it is no IP address.
    """
    ip = ip_address(address.split("%")[0])
    ip = getattr(ip, "ipv4_mapped", None) or ip
    return ip.is_private and not ip.is_unspecified


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Set device, dtype, limits and parsers of an engine.

    ``dtype`` ``auto`` is the card's dtype, else the checkpoint's on CUDA with vLLM, bfloat16 with transformers, and
    float32 on CPU; with transformers also bfloat16 on a CPU that has instructions for it, for weights that are saved in
    it. ``device`` is ``auto``, ``cpu``, ``cuda`` or
    ``cuda:N``. ``max_model_len`` None takes the card's context length, vLLM
    as much of it as the memory for keys and values holds. ``max_num_seqs`` sequences decode together,
    None leaves the number to vLLM on a GPU and is ``DEFAULT_SEQS`` elsewhere; ``max_queue`` more may wait, after which
    requests are rejected. ``kv_cache_bytes`` bounds the prefix cache
    (transformers) or the whole KV cache (vLLM); None leaves the size to the engine. ``block_size`` is the block size of
    the prefix cache in tokens. ``seed`` is the base for requests without one. ``tool_call_parser`` and
    ``reasoning_parser`` are vLLM's names for how a model writes tool calls and reasoning, ``chat_template`` is a Jinja
    file in place of the model's own; only the plain model on vLLM uses them.

    For vLLM on GPUs: ``tensor_parallel_size`` of them share each layer. ``gpu_memory_utilization`` is the share of each
    GPU's memory, None takes what is free but for ``device_reserve_bytes``, which other users of the GPU allocate at
    work. ``quantization`` is vLLM's name of a format, None reads it from the checkpoint. ``lora_adapters`` are
    served beside the model. ``batch_invariant`` takes vLLM's slower kernels, with which a request's numbers do not
    depend on what runs beside it.

    ``draft_tokens`` is the most tokens that a step verifies beside the one it decodes, taken from where the last tokens
    stood before. The texts stay the same. None: the transformers engine chooses, and vLLM drafts nothing, since it has
    no ``min_p`` and ``logit_bias`` beside drafts.

    ``hold_during_calls_s`` is how long vLLM keeps a sequence whose call is being answered, to continue it in place: for
    hybrids, whose prefix cache is coarse. 0: it resumes by the prefix cache.

    ``remote`` is for the remote engine alone, which needs it.
    """

    dtype: Dtype = "auto"
    device: str = "auto"
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    kv_cache_bytes: int | None = None
    max_queue: int = 256
    block_size: int = 32
    seed: int = 0
    tool_call_parser: str | None = None
    reasoning_parser: str | None = None
    chat_template: Path | None = None
    tensor_parallel_size: int = 1
    gpu_memory_utilization: float | None = None
    device_reserve_bytes: int = 0
    quantization: str | None = None
    lora_adapters: tuple[LoraAdapter, ...] = ()
    batch_invariant: bool = False
    draft_tokens: int | None = None
    hold_during_calls_s: float = 0.0
    remote: RemoteOptions | None = None

    def __post_init__(self) -> None:
        for name in ("max_queue", "block_size", "tensor_parallel_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("max_model_len", "max_num_seqs", "kv_cache_bytes"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        if self.draft_tokens is not None and self.draft_tokens < 0:
            raise ValueError(f"draft_tokens must be at least 0, not {self.draft_tokens}")
        share = self.gpu_memory_utilization
        if share is not None and not 0 < share <= 1:
            raise ValueError(f"gpu_memory_utilization must be above 0 and at most 1, not {share}")

    @property
    def slots(self) -> int:
        """Return how many sequences decode together where the engine does not choose the number."""
        return self.max_num_seqs or DEFAULT_SEQS

    @property
    def device_indices(self) -> tuple[int, ...]:
        """Return the GPUs that the engine uses, counted among those that the process sees."""
        first = int(self.device.removeprefix("cuda:")) if self.device.startswith("cuda:") else 0
        return tuple(range(first, first + self.tensor_parallel_size))


@dataclass(frozen=True, slots=True)
class ThinkingTokens:
    """Hold the tokens that begin and end the thinking of a reply, as ids and as text."""

    start: int
    end: int
    start_text: str
    end_text: str

    @classmethod
    def of(cls, control: Mapping[str, int]) -> ThinkingTokens | None:
        """Return the tokens that a vocabulary has for thinking, if any."""
        for start, end in _THINKING_PAIRS:
            if start in control and end in control:
                return cls(control[start], control[end], start, end)
        return None

    def is_open(self, prompt_ids: Sequence[int]) -> bool:
        """Return whether the prompt ends inside thinking, as some templates begin a reply."""
        for token_id in reversed(prompt_ids):
            if token_id in (self.start, self.end):
                return token_id == self.start
        return False


def begins_thinking(tokens: ThinkingTokens | None, prompt_ids: Sequence[int], grammar: Grammar | None) -> bool:
    """Return whether the first token of a reply is thinking; a grammar of the whole output leaves no room for any."""
    if tokens is None or (grammar is not None and grammar.kind != "structural_tag"):
        return False
    return tokens.is_open(prompt_ids)


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


def check_request(prompt_ids: Sequence[int], params: GenerateParams, *, vocab_size: int, max_model_len: int) -> None:
    """Check the prompt and the parameters of a request.

    Raises:
        ModelError: the prompt leaves no room for one token.
        UnsupportedParam: the prompt or a parameter is invalid.
    """
    if not prompt_ids:
        raise UnsupportedParam("the prompt is empty", param="prompt")
    if min(prompt_ids) < 0 or max(prompt_ids) >= vocab_size:
        raise UnsupportedParam(f"prompt token ids must lie in 0..{vocab_size - 1}", param="prompt")
    if len(prompt_ids) >= max_model_len:
        raise ModelError(
            f"the prompt has {len(prompt_ids)} tokens and leaves no room in a context of {max_model_len}",
            CONTEXT_TOO_LONG,
            param="prompt",
        )
    _check_params(params)
    if any(not 0 <= token < vocab_size for token, _ in params.logit_bias):
        raise UnsupportedParam(f"logit_bias: token ids must lie in 0..{vocab_size - 1}", param="logit_bias")


def check_place(request_id: str, open_ids: Collection[str], most: int) -> None:
    """Check that a request may be opened beside those that are; ``most`` run and wait together.

    Raises:
        ModelError: the queue is full.
        UnsupportedParam: one of this id is open.
    """
    if request_id in open_ids:
        raise UnsupportedParam(f"request {request_id!r} is already running", param="request_id")
    if len(open_ids) >= most:
        raise ModelError(f"{len(open_ids)} requests are open and the queue is full", ENGINE_FULL)


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
