"""Generate the text of a script, token by token, under the real engine contract and without weights.

Deterministic. Owns scripts, slots and a prefix count; the text runs through the same stop, length and withholding code
as a real model's. It samples nothing, so seeds and temperature change nothing, and a grammar is recorded but not
enforced.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

from models.card import ModelCard
from models.engines.base import EngineOptions, ThinkingTokens, Tokenizer, block_hashes, check_place, check_request
from models.engines.text_stream import TextStream
from models.errors import EngineUnavailable, UnsupportedParam
from models.types import Delta, EngineStats, FinishReason, GenerateParams, TokenLogprob

_SPECIALS = ("<|begin|>", "<|eos|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>")
_FIRST_SPECIAL = 256
_ROLES = {"system": 258, "developer": 258, "user": 259, "assistant": 260, "tool": 259}
_END_OF_TURN = 261


class ByteTokenizer:
    """Map ids 0-255 to bytes, the next ones to special tokens, then to ``extra_tokens`` (matched longest first).

    With ``thinks`` the extra tokens ``<think>`` and ``</think>`` are around thinking, also in a script. With ``tools``
    it stands for a model that writes calls as Hermes does; its chats do not list the tools.
    """

    def __init__(
        self, extra_tokens: Sequence[str] = (), *, chat: bool = True, thinks: bool = False, tools: bool = False
    ) -> None:
        self._chat = chat
        self._tools = tools
        first = _FIRST_SPECIAL + len(_SPECIALS)
        marks = ("<think>", "</think>") if thinks else ()
        extra = dict.fromkeys((*extra_tokens, *marks))
        self._extra = {token: first + i for i, token in enumerate(extra) if token}
        self._thinking = ThinkingTokens.of(self._extra) if thinks else None
        self._pieces = [bytes([i]) for i in range(256)] + [b""] * len(_SPECIALS) + [t.encode() for t in self._extra]
        longest_first = sorted(self._extra, key=len, reverse=True)
        self._splitter = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")") if longest_first else None

    @property
    def vocab_size(self) -> int:
        return len(self._pieces)

    @property
    def eos_token_ids(self) -> frozenset[int]:
        return frozenset({257})

    @property
    def bos_token_id(self) -> int | None:
        return _FIRST_SPECIAL

    @property
    def has_chat_template(self) -> bool:
        return self._chat

    @property
    def thinking(self) -> ThinkingTokens | None:
        return self._thinking

    def encode_start(self, text: str) -> list[int]:
        return [_FIRST_SPECIAL, *self.encode(text)]

    def encode(self, text: str) -> list[int]:
        if self._splitter is None:
            return list(_utf8(text))
        ids: list[int] = []
        for piece in self._splitter.split(text):
            if piece in self._extra:
                ids.append(self._extra[piece])
            else:
                ids.extend(_utf8(piece))
        return ids

    def decode(self, token_ids: Sequence[int]) -> str:
        known = (self._pieces[i] for i in token_ids if 0 <= i < len(self._pieces))
        return b"".join(known).decode("utf-8", errors="replace")

    def token_id(self, token: str) -> int | None:
        if token in self._extra:
            return self._extra[token]
        raw = _utf8(token)
        return raw[0] if len(raw) == 1 else None

    @property
    def tool_template(self) -> str | None:
        return "<tool_call>" if self._tools else None

    def special_id(self, token: str) -> int | None:
        return _FIRST_SPECIAL + _SPECIALS.index(token) if token in _SPECIALS else None

    def encode_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> list[int]:
        _refuse_event_loop()
        if tools and not self._tools:
            raise UnsupportedParam("the chat template has no place for tools", param="tools")
        if not self._chat:
            raise UnsupportedParam("this model has no chat template", param="messages")
        ids = [_FIRST_SPECIAL]
        for message in messages:
            role = _ROLES.get(message["role"])
            if role is None:
                raise UnsupportedParam(f"unknown role {message['role']!r}", param="messages")
            ids += [role, *self.encode(message["content"]), _END_OF_TURN]
        if add_generation_prompt:
            ids.append(_ROLES["assistant"])
        return ids


def _refuse_event_loop() -> None:
    """Hold callers to what a real chat template demands, which takes as long as its author wants."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise AssertionError("a chat template is not rendered on the event loop")


def _utf8(text: str) -> bytes:
    # A lone surrogate, which JSON can contain, has no UTF-8 encoding.
    return text.encode("utf-8", errors="replace")


_CERTAINTY = 0.9
_MAX_CACHED_BLOCKS = 65536


@dataclass(frozen=True, slots=True)
class Rule:
    """Continue a prompt whose text ends with ``when`` (or matches it, if it is a pattern) with ``text``.

    After ``text`` comes EOS.
    """

    when: str | re.Pattern[str]
    text: str

    def applies(self, prompt: str) -> bool:
        return prompt.endswith(self.when) if isinstance(self.when, str) else self.when.search(prompt) is not None


Script = Sequence[Rule] | Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedBehaviour:
    """Set the delays and failures of a scripted engine, delays in seconds.

    ``fail_after_tokens`` makes every request fail with EngineUnavailable after so many tokens. ``die_after_tokens``
    ends the engine itself, with all its requests, when one of them has so many.
    """

    token_delay_s: float = 0.0
    fail_after_tokens: int | None = None
    die_after_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ScriptedRequest:
    """Record the parameters of one request for assertions."""

    request_id: str
    prompt: str
    params: GenerateParams
    num_cached_tokens: int


class ScriptedEngine:
    """Generate text from ``script``, a list of rules, tried in order, or a function of the prompt's text.

    ``requests`` holds every request that got a slot, oldest first.
    """

    def __init__(
        self,
        card: ModelCard,
        options: EngineOptions,
        script: Script,
        *,
        tokenizer: Tokenizer | None = None,
        behaviour: ScriptedBehaviour | None = None,
    ) -> None:
        self._card = card
        self._options = options
        self._script = script
        self._tokenizer = tokenizer or ByteTokenizer()
        self._behaviour = behaviour or ScriptedBehaviour()
        self._slots = asyncio.Semaphore(options.slots)
        self._open: dict[str, asyncio.Event] = {}
        self._cached: OrderedDict[bytes, None] = OrderedDict()
        self._stats = EngineStats()
        self._ready = False
        self.requests: list[ScriptedRequest] = []

    @property
    def name(self) -> str:
        return self._card.name

    @property
    def tokenizer(self) -> Tokenizer:
        return self._tokenizer

    @property
    def max_model_len(self) -> int:
        return self._options.max_model_len or self._card.context_length

    @property
    def block_size(self) -> int:
        return self._options.block_size

    async def start(self) -> None:
        self._ready = True

    async def close(self) -> None:
        self._ready = False
        for aborted in self._open.values():
            aborted.set()

    def is_ready(self) -> bool:
        return self._ready

    def stats(self) -> EngineStats:
        return self._stats

    async def abort(self, request_id: str) -> None:
        if request_id in self._open:
            self._open[request_id].set()

    async def generate(
        self, prompt_ids: Sequence[int], params: GenerateParams, request_id: str
    ) -> AsyncIterator[Delta]:
        self._admit(prompt_ids, params, request_id)
        aborted = self._open[request_id] = asyncio.Event()
        try:
            if not await self._take_slot(aborted):
                yield Delta(finish_reason="abort", num_prompt_tokens=len(prompt_ids))
                return
            try:
                async with aclosing(self._run(prompt_ids, params, request_id, aborted)) as deltas:
                    async for delta in deltas:
                        yield delta
            finally:
                self._slots.release()
                self._count(running=-1, requests_finished=1)
        finally:
            del self._open[request_id]

    def _admit(self, prompt_ids: Sequence[int], params: GenerateParams, request_id: str) -> None:
        if not self._ready:
            raise EngineUnavailable(f"the scripted engine {self.name} is not started")
        check_request(prompt_ids, params, vocab_size=self._tokenizer.vocab_size, max_model_len=self.max_model_len)
        check_place(request_id, self._open, self._options.slots + self._options.max_queue)

    async def _take_slot(self, aborted: asyncio.Event) -> bool:
        """Wait for a slot; return False if the request was aborted meanwhile."""
        self._count(waiting=1)
        slot = asyncio.create_task(self._slots.acquire())
        abort_wait = asyncio.create_task(aborted.wait())
        try:
            await asyncio.wait((slot, abort_wait), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if slot.done():
                self._slots.release()
            raise
        finally:
            abort_wait.cancel()
            slot.cancel()
            self._count(waiting=-1)
        if slot.done():
            self._count(running=1)
        return slot.done()

    async def _run(
        self, prompt_ids: Sequence[int], params: GenerateParams, request_id: str, aborted: asyncio.Event
    ) -> AsyncGenerator[Delta, None]:
        cached = self._look_up(prompt_ids, params.cache_salt)
        self._count(prompt_tokens_cached=cached, prompt_tokens_computed=len(prompt_ids) - cached)
        prompt = self._tokenizer.decode(prompt_ids)
        self.requests.append(ScriptedRequest(request_id, prompt, params, cached))
        stream = TextStream(self._tokenizer, params, prompt_ids)
        script = self._tokenizer.encode(self._continuation(prompt))
        room = min(params.max_tokens, self.max_model_len - len(prompt_ids))
        written: list[int] = []
        finish: FinishReason | None = None
        try:
            while finish is None:
                await self._pause(len(written))
                if aborted.is_set():
                    text = stream.flush()
                    delta = Delta(text=text, reasoning=stream.thought, finish_reason="abort")
                else:
                    written.append(self._next_token(script, len(written)))
                    delta = self._write(stream, written[-1], params, is_last=len(written) == room)
                finish = delta.finish_reason
                if finish is not None:
                    delta = replace(delta, num_prompt_tokens=len(prompt_ids), num_cached_tokens=cached)
                yield delta
        finally:
            # Like a real engine: the last token was sampled, but never computed.
            self._remember([*prompt_ids, *written[:-1]], params.cache_salt)

    async def _pause(self, num_written: int) -> None:
        await asyncio.sleep(self._behaviour.token_delay_s)
        if num_written == self._behaviour.fail_after_tokens:
            raise EngineUnavailable("scripted failure")
        if num_written == self._behaviour.die_after_tokens:
            self._ready = False
        if not self._ready:
            raise EngineUnavailable(f"the scripted engine {self.name} was stopped")

    def _next_token(self, script: Sequence[int], position: int) -> int:
        return script[position] if position < len(script) else min(self._tokenizer.eos_token_ids)

    def _write(self, stream: TextStream, token: int, params: GenerateParams, *, is_last: bool) -> Delta:
        self._count(tokens_generated=1)
        is_eos = token in self._tokenizer.eos_token_ids and not params.ignore_eos
        text, finish = stream.advance(token, is_eos=is_eos, is_last=is_last)
        return Delta(
            text=text,
            reasoning=stream.thought,
            token_ids=(token,),
            num_reasoning_tokens=int(stream.was_thought),
            logprobs=self._logprobs(token, params.logprobs),
            finish_reason=finish,
            stop_reason=stream.stop_reason,
        )

    def _continuation(self, prompt: str) -> str:
        if callable(self._script):
            return self._script(prompt)
        for rule in self._script:
            if rule.applies(prompt):
                return rule.text
        raise UnsupportedParam(f"no rule of the script matches a prompt ending in {prompt[-60:]!r}", param="prompt")

    def _look_up(self, prompt_ids: Sequence[int], salt: str | None) -> int:
        hits = 0
        # One prompt token is always computed, for its logits.
        for digest in block_hashes(prompt_ids[:-1], self.block_size, salt):
            if digest not in self._cached:
                break
            self._cached.move_to_end(digest)
            hits += 1
        return hits * self.block_size

    def _remember(self, token_ids: Sequence[int], salt: str | None) -> None:
        for digest in block_hashes(token_ids, self.block_size, salt):
            self._cached[digest] = None
            self._cached.move_to_end(digest)
        while len(self._cached) > _MAX_CACHED_BLOCKS:
            self._cached.popitem(last=False)

    def _logprobs(self, token: int, num_logprobs: int | None) -> tuple[TokenLogprob, ...] | None:
        """Return probability 0.9 for the scripted token; the alternatives are the ids after it and share the rest."""
        if num_logprobs is None:
            return None
        sure = math.log(_CERTAINTY)
        rest = math.log((1 - _CERTAINTY) / (self._tokenizer.vocab_size - 1))
        others = (((token + i) % self._tokenizer.vocab_size, rest) for i in range(1, num_logprobs))
        return (TokenLogprob(token, sure, ((token, sure), *others)[:num_logprobs]),)

    def _count(self, **changes: int) -> None:
        self._stats = replace(self._stats, **{name: getattr(self._stats, name) + by for name, by in changes.items()})
