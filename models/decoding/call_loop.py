"""Run the interception loop as a state machine without I/O.

Returns what to generate or fetch next, and accepts the result. Knows tokens, calls and limits; does not know engines,
handlers, clocks or event streams (``driver`` does the I/O).

    begin -> Generate -> on_segment -> Generate | Fetch | Finish
                                Fetch -> on_reply -> Resumed(..., then=Generate | Finish)

After ``max_calls`` the next call is not made: a short refusal replaces its reply, and the model may write one more
segment, to answer from what it has. A stop in that segment, or another call, ends the answer as ``call_limit``. So
does a third equal call in a row, of which the second brought nothing new.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from models.decoding.transcript import LIMIT_REPLY, Transcript, break_up_markers, cut_reply, decode_continuation
from models.decoding.types import Call, CallReply, CallSyntax, LoopDone, LoopFinish, LoopLimits, LoopUsage
from models.engines.base import Tokenizer
from models.errors import UnsupportedParam
from models.types import REPETITION, FinishReason, GenerateParams, Grammar, TokenLogprob

DEFAULT_MAX_CALL_CHARS = 8000
# Hostile text can contain hundreds of openers before one closer; each candidate costs one run of ``is_call``.
_MAX_CANDIDATES = 16


@dataclass(frozen=True, slots=True)
class CloserMatch:
    """Mark one closer in the sampled text.

    ``end`` is the offset just after it, in characters fed since the last reset. ``call`` is what ``is_call`` accepted,
    or None where the arrow is ordinary text.
    """

    end: int
    call: str | None


class CallScanner:
    """Find the calls in sampled text that is fed in chunks.

    Feed sampled text only: an opener in a reply must not start a call. A call never contains a closer, so each closer
    decides everything before it. Of several openers before one closer the last that makes a call wins, and the call
    ends exactly at the closer. Candidates longer than ``max_call_chars`` are ordinary text.
    """

    def __init__(self, syntax: CallSyntax, max_call_chars: int = DEFAULT_MAX_CALL_CHARS) -> None:
        self._syntax = syntax
        self._max_call_chars = max_call_chars
        # The opener's bracket, the call, and a closer that is not complete yet.
        self._window = 1 + max_call_chars + len(syntax.closer)
        self._buffer = ""
        self._base = 0

    @property
    def num_fed(self) -> int:
        """Return the number of characters fed since the last reset."""
        return self._base + len(self._buffer)

    def feed(self, text: str) -> list[CloserMatch]:
        """Return the arrows that ``text`` completes, in order."""
        closer = self._syntax.closer
        search_from = max(0, len(self._buffer) - len(closer) + 1)
        self._buffer += text
        arrows = []
        while (at := self._buffer.find(closer, search_from)) != -1:
            end = at + len(closer)
            arrows.append(CloserMatch(self._base + end, self._judge(self._buffer[:at])))
            self._drop(end)
            search_from = 0
        if len(self._buffer) > 2 * self._window:
            self._drop(len(self._buffer) - self._window)
        return arrows

    def reset(self) -> None:
        """Forget all text, because a reply separates it from the text that follows."""
        self._buffer = ""
        self._base = 0

    def _drop(self, count: int) -> None:
        self._buffer = self._buffer[count:]
        self._base += count

    def _judge(self, before: str) -> str | None:
        opener = self._syntax.opener
        search_to = len(before)
        for _ in range(_MAX_CANDIDATES):
            start = before.rfind(opener, 0, search_to)
            if start == -1:
                return None
            candidate = before[start + 1 :]
            if len(candidate) > self._max_call_chars:
                return None
            if self._syntax.is_call(candidate):
                return candidate
            search_to = start + len(opener) - 1
        return None


# Tokens to free for the text after a reply: a quarter of a small context, at most this many in a large one.
_MAX_RESUME_TOKENS = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopRequest:
    """Describe one answer to generate.

    ``params.max_tokens`` bounds what the model writes, replies not counted. ``first_grammar`` replaces
    ``params.grammar`` in the first segment only (an answer that must begin with a call).
    """

    prompt_ids: tuple[int, ...]
    params: GenerateParams
    syntax: CallSyntax
    request_id: str
    limits: LoopLimits = field(default_factory=LoopLimits)
    reply_suffix: str = "\n"
    first_grammar: Grammar | None = None
    max_call_chars: int = DEFAULT_MAX_CALL_CHARS


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Hold the result of one generation.

    ``text`` excludes the stop string; ``token_ids`` are as sampled. ``num_streamed`` characters of ``text`` were
    already shown. The first ``num_reasoning_tokens`` ids are thinking, which is no part of ``text``. ``timeout``: the
    generation was cut off at the total time limit.
    """

    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...] | None = None
    finish_reason: FinishReason | Literal["timeout"]
    stop_reason: str | int | None = None
    num_prompt_tokens: int = 0
    num_cached_tokens: int = 0
    num_streamed: int = 0
    num_reasoning_tokens: int = 0

    @property
    def text_ids(self) -> tuple[int, ...]:
        return self.token_ids[self.num_reasoning_tokens :]

    @property
    def text_logprobs(self) -> tuple[TokenLogprob, ...] | None:
        return None if self.logprobs is None else self.logprobs[self.num_reasoning_tokens :]


@dataclass(frozen=True, slots=True)
class Generate:
    """Request a continuation of ``prompt_ids``.

    ``emit`` is text of the last segment to show now. ``withheld`` is text that may yet turn out to begin a stop string:
    show it in front of the segment's first text, not before, and not at all if the segment ends without any.
    """

    prompt_ids: tuple[int, ...]
    params: GenerateParams
    ordinal: int
    emit: str = ""
    withheld: str = ""


@dataclass(frozen=True, slots=True)
class Fetch:
    """Request the reply to ``call``.

    With ``refusal`` the call is not made and ``refusal`` is its reply.
    """

    call: Call
    emit: str
    refusal: CallReply | None = None


@dataclass(frozen=True, slots=True)
class Finish:
    """End the answer with ``done``, after showing ``emit``."""

    done: LoopDone
    emit: str = ""


@dataclass(frozen=True, slots=True)
class Resumed:
    """Report the text that was injected into the sequence, its token count, and the next action."""

    injected: str
    num_tokens: int
    then: Generate | Finish


class CallLoop:
    """Decide the next action of one answer.

    ``at`` is always seconds since the answer began.
    """

    def __init__(self, request: LoopRequest, tokenizer: Tokenizer, max_model_len: int) -> None:
        grammars = (request.params.grammar, request.first_grammar)
        if any(grammar is not None and grammar.kind != "structural_tag" for grammar in grammars):
            raise UnsupportedParam("a grammar for the whole output cannot span a call's reply", param="response_format")
        self._request = request
        self._tokenizer = tokenizer
        self._max_model_len = max_model_len
        self._transcript = Transcript(request.prompt_ids, tokenizer, reply_suffix=request.reply_suffix)
        self._scanner = CallScanner(request.syntax, request.max_call_chars)
        self._usage = LoopUsage(prompt_tokens=len(request.prompt_ids))
        self._num_calls = 0
        self._refused = False
        # Tokens since the last reply.
        self._num_own = 0
        self._last_call = ""
        self._is_duplicate = False
        # Text not shown yet that may begin a user's stop string, and what would complete it: ending -> stop string.
        self._withheld = ""
        self._stop_by_ending: dict[str, str] = {}

    def begin(self) -> Generate:
        # The engine rejects a prompt that leaves no room, and names the field.
        room = max(1, self._max_model_len - len(self._request.prompt_ids))
        return self._generate(min(self._to_write, room))

    def on_segment(self, segment: Segment, at: float) -> Generate | Fetch | Finish:
        self._count(segment)
        self._transcript.add_thinking(segment.token_ids[: segment.num_reasoning_tokens])
        stop = segment.stop_reason
        if segment.finish_reason != "stop" or not isinstance(stop, str):
            return self._end(segment, segment.text, segment.finish_reason, stop)
        if not segment.text and stop in self._stop_by_ending:
            return self._end_inside_withheld(stop)
        written = segment.text + stop
        before = self._scanner.num_fed
        for arrow in self._scanner.feed(written):
            if arrow.call is not None:
                return self._take_call(segment, written[: arrow.end - before], arrow.call, at)
        user_stop = self._earliest_user_stop(segment.text, written)
        if user_stop is not None:
            return self._end(segment, written[: user_stop[0]], "stop", user_stop[1])
        return self._resume_after_false_stop(segment, written, at)

    def on_reply(self, reply: CallReply, at: float) -> Resumed:
        self._is_duplicate = reply.status == "duplicate"
        self._num_own = 0
        injected = self._fitted(reply.text)
        num_tokens = self._transcript.add_reply(injected)
        self._usage = replace(self._usage, injected_tokens=self._usage.injected_tokens + num_tokens)
        self._scanner.reset()
        self._withheld, self._stop_by_ending = "", {}
        return Resumed(injected, num_tokens, self._resume("", at))

    def _take_call(self, segment: Segment, text: str, call_text: str, at: float) -> Fetch | Finish:
        call = Call(call_text, self._num_calls)
        if self._refused:
            return self._end(segment, text, "stop", None)
        if at >= self._request.limits.total_timeout_s:
            return self._end(segment, text, "timeout", None)
        if self._is_duplicate and call_text == self._last_call:
            return self._end(segment, text, "call_limit", REPETITION)
        self._last_call = call_text
        emit = self._unseen(segment, text)
        self._transcript.add_sampled(text, segment.text_ids, segment.text_logprobs, then_reply=True)
        self._num_calls += 1
        self._refused = call.ordinal >= self._request.limits.max_calls
        refusal = CallReply(LIMIT_REPLY, "refused", {"error_type": "CallLimit"}) if self._refused else None
        return Fetch(call, emit, refusal)

    def _resume_after_false_stop(self, segment: Segment, written: str, at: float) -> Generate | Finish:
        """Continue after a false stop, since an arrow that ends no call is ordinary text."""
        text = written + self._overshoot(segment, written)
        self._scanner.feed(text[len(written) :])
        unseen = self._unseen(segment, text)
        self._transcript.add_sampled(text, segment.text_ids, segment.text_logprobs, then_reply=False)
        self._withheld = self._beginning_of_stop(unseen)
        return self._resume(unseen[: len(unseen) - len(self._withheld)], at)

    def _overshoot(self, segment: Segment, written: str) -> str:
        """Return the text beyond the stop that the last token spells, or "" if it cannot be kept.

        It is kept if it completes no stop string and has no partial character. The model's own tokens then stay as
        sampled, as if generation had not stopped there.
        """
        spelled = decode_continuation(segment.text_ids, self._tokenizer)
        if not spelled.startswith(written):
            return ""
        extra = spelled[len(written) :]
        # An engine withholds what may begin a stop string, so nothing that was shown can be part of one.
        before = self._unseen(segment, written)
        for stop in self._stops():
            if stop in (before + extra)[max(0, len(before) - len(stop) + 1) :]:
                return ""
        return "" if "\ufffd" in extra else extra

    def _beginning_of_stop(self, unseen: str) -> str:
        """Return the longest unseen suffix that begins a user's stop string, and make its possible endings stops.

        Of two stop strings with one ending the longer one wins, as in an engine.

        The engine sees only the text of the current segment, so the ending of such a stop string becomes a stop of its
        own, which counts only at the very start of the next segment.
        """
        self._stop_by_ending = {}
        withheld = ""
        for stop in self._request.params.stop:
            for length in range(1, len(stop)):
                if unseen.endswith(stop[:length]):
                    known = self._stop_by_ending.get(stop[length:], "")
                    self._stop_by_ending[stop[length:]] = max(known, stop, key=len)
                    withheld = max(withheld, stop[:length], key=len)
        return withheld

    def _earliest_user_stop(self, text: str, written: str) -> tuple[int, str] | None:
        """Return position and text of the earliest user's stop string that ends inside the stop just found, or None."""
        starts = []
        for stop in self._request.params.stop:
            at = written.find(stop, max(0, len(text) - len(stop) + 1))
            if stop and at != -1:
                starts.append((at, stop))
        return min(starts, default=None)

    def _fitted(self, text: str) -> str:
        limits, params = self._request.limits, self._request.params
        suffix, syntax = self._request.reply_suffix, self._request.syntax
        to_write = min(params.max_tokens - self._usage.sampled_tokens, max(1, self._max_model_len // 16))
        room = self._transcript.available_reply_tokens(self._max_model_len) - max(to_write, 1)
        budget = max(0, min(limits.max_reply_tokens, room))
        cut = cut_reply(break_up_markers(text, syntax), suffix, budget, self._tokenizer)
        return break_up_markers(cut.removesuffix(suffix), syntax) + suffix

    def _resume(self, emit: str, at: float) -> Generate | Finish:
        remaining = self._to_write
        if at >= self._request.limits.total_timeout_s:
            return self._finish("timeout", None, emit + self._withheld)
        requested = min(remaining, max(1, self._max_model_len // 4), _MAX_RESUME_TOKENS)
        room = self._transcript.free_tokens(requested, self._max_model_len)
        if min(remaining, room) < 1:
            return self._finish("length", None, emit + self._withheld)
        return self._generate(min(remaining, room), emit)

    @property
    def _to_write(self) -> int:
        """Return how many tokens the model may still write before the next reply."""
        left = self._request.params.max_tokens - self._usage.sampled_tokens
        most = self._request.limits.max_own_tokens
        return left if most is None else min(left, most - self._num_own)

    def _generate(self, max_tokens: int, emit: str = "") -> Generate:
        params, ordinal = self._request.params, self._usage.segments
        first_grammar = self._request.first_grammar if ordinal == 0 else None
        params = replace(
            params,
            max_tokens=max_tokens,
            # The same seed would repeat the same random numbers.
            seed=None if params.seed is None else params.seed + ordinal,
            stop=tuple(dict.fromkeys((*self._stops(), *self._stop_by_ending))),
            pause_at=self._request.syntax.closer,
            grammar=first_grammar or params.grammar,
            written=self._transcript.sampled_ids(),
        )
        return Generate(self._transcript.token_ids(), params, ordinal, emit, self._withheld)

    def _stops(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self._request.params.stop, self._request.syntax.closer)))

    def _unseen(self, segment: Segment, text: str) -> str:
        # Held text was shown with the segment's first text, if there was any.
        return text[segment.num_streamed :] if segment.num_streamed else self._withheld + text

    def _end_inside_withheld(self, ending: str) -> Finish:
        stop = self._stop_by_ending[ending]
        prefix_length = len(stop) - len(ending)
        self._transcript.retract(prefix_length)
        return self._finish("stop", stop, self._withheld[: len(self._withheld) - prefix_length])

    def _end(self, segment: Segment, text: str, reason: LoopFinish, stop_reason: str | int | None) -> Finish:
        emit = self._unseen(segment, text)
        self._transcript.add_last(text, segment.text_ids, segment.text_logprobs)
        return self._finish(reason, stop_reason, emit)

    def _finish(self, reason: LoopFinish, stop_reason: str | int | None, emit: str) -> Finish:
        if reason == "stop" and self._refused:
            reason = "call_limit"
        return Finish(LoopDone(reason, stop_reason, self._transcript.spans(), self._usage), emit)

    def _count(self, segment: Segment) -> None:
        usage, sampled = self._usage, len(segment.token_ids)
        self._num_own += sampled
        # An interrupted segment has no counts; then everything may have been computed.
        prefilled = (segment.num_prompt_tokens or self._transcript.num_tokens()) - segment.num_cached_tokens
        self._usage = replace(
            usage,
            sampled_tokens=usage.sampled_tokens + sampled,
            cached_tokens=segment.num_cached_tokens if usage.segments == 0 else usage.cached_tokens,
            computed_tokens=usage.computed_tokens + prefilled + sampled,
            segments=usage.segments + 1,
        )
