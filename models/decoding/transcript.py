"""Maintain the token sequence of one answer: the prompt, the sampled text and the replies between.

Pure. Owns which ids are in the sequence and how old replies are shortened when the context is full; decides nothing
about calls, limits or the end of the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from models.decoding.realign import count_covering, encode_continuation, realign
from models.decoding.replies import DROPPED_REPLY, cut_reply
from models.decoding.types import Span
from models.engines.base import Tokenizer
from models.types import TokenLogprob

# The length to which an old reply is cut before it is dropped.
_SHORT_REPLY_TOKENS = 64


@dataclass(slots=True)
class _Sampled:
    """Hold one sampled part of the sequence.

    ``logprobs`` is parallel to ``token_ids``; None for re-tokenised text and where none are reported.
    """

    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob | None] = field(default_factory=list)


@dataclass(slots=True)
class _Injected:
    """Hold one reply in the sequence.

    ``rest`` is the end of the model's text that no id of its own spells; it is tokenised with the reply.
    """

    span: Span
    rest: str
    in_context: list[int]


class Transcript:
    """Append sampled text and replies to a prompt; only replies other than the latest ever change."""

    def __init__(self, prompt_ids: Sequence[int], tokenizer: Tokenizer, *, reply_suffix: str) -> None:
        self._prompt_ids = tuple(prompt_ids)
        self._tokenizer = tokenizer
        self._reply_suffix = reply_suffix
        self._parts: list[_Sampled | _Injected] = []
        self._rest = ""

    def token_ids(self) -> tuple[int, ...]:
        """Return all ids that the engine has to continue."""
        ids = list(self._prompt_ids)
        for part in self._parts:
            ids += part.token_ids if isinstance(part, _Sampled) else part.in_context
        return tuple(ids)

    def num_tokens(self) -> int:
        sizes = (len(p.token_ids if isinstance(p, _Sampled) else p.in_context) for p in self._parts)
        return len(self._prompt_ids) + sum(sizes)

    def add_sampled(
        self, text: str, token_ids: Sequence[int], logprobs: Sequence[TokenLogprob] | None, *, then_reply: bool
    ) -> None:
        """Append sampled text; ids beyond ``text`` are left out.

        Text at the end that the kept ids do not spell is tokenised again: at once, or together with the reply that
        follows (``then_reply``), since the two may share a token.
        """
        kept, rest = realign(token_ids, text, self._tokenizer)
        part = self._open_sampled()
        part.text += text
        part.token_ids += kept
        part.logprobs += _parallel(logprobs, len(kept))
        if then_reply:
            self._rest = rest
        elif rest:
            fresh = encode_continuation(rest, self._tokenizer)
            part.token_ids += fresh
            part.logprobs += [None] * len(fresh)

    def add_last(self, text: str, token_ids: Sequence[int], logprobs: Sequence[TokenLogprob] | None) -> None:
        """Append the end of the answer: the ids that spell ``text``, none that spells only a stop string or EOS."""
        count = count_covering(token_ids, text, self._tokenizer)
        part = self._open_sampled()
        part.text += text
        part.token_ids += token_ids[:count]
        part.logprobs += _parallel(logprobs, count)

    def retract(self, num_chars: int) -> None:
        """Remove the last ``num_chars`` sampled characters, which turned out to begin a stop string."""
        part = self._open_sampled()
        part.text = part.text[: len(part.text) - num_chars]
        count = count_covering(part.token_ids, part.text, self._tokenizer)
        del part.token_ids[count:], part.logprobs[count:]

    def add_reply(self, text: str) -> int:
        """Append a reply (its suffix included) and return the number of tokens it took."""
        token_ids = encode_continuation(self._rest + text, self._tokenizer)
        self._parts.append(_Injected(Span("injected", text, tuple(token_ids)), self._rest, token_ids))
        self._rest = ""
        return len(token_ids)

    def room_for_reply(self, max_model_len: int) -> int:
        """Return the number of tokens left for a new reply if every earlier reply were dropped."""
        dropped = len(self._dropped_ids(""))
        shortest = sum(min(len(p.in_context), dropped) - len(p.in_context) for p in self._replies())
        return max_model_len - self.num_tokens() - shortest

    def make_room(self, wanted: int, max_model_len: int) -> int:
        """Shorten, then drop, replies before the latest, oldest first, until ``wanted`` tokens fit.

        Returns the number of free tokens. The prompt, the model's own text and the latest reply stay as they are.
        """
        for shorten in (self._shorten, self._drop):
            for part in self._replies()[:-1]:
                if max_model_len - self.num_tokens() >= wanted:
                    break
                shorten(part)
        return max_model_len - self.num_tokens()

    def spans(self) -> tuple[Span, ...]:
        """Return the sampled and injected spans in order, replies as they were first injected."""
        spans = [_sampled_span(p) if isinstance(p, _Sampled) else p.span for p in self._parts]
        return tuple(span for span in spans if span.text)

    def _open_sampled(self) -> _Sampled:
        if self._parts and isinstance(self._parts[-1], _Sampled):
            return self._parts[-1]
        part = _Sampled()
        self._parts.append(part)
        return part

    def _replies(self) -> list[_Injected]:
        return [part for part in self._parts if isinstance(part, _Injected)]

    def _shorten(self, part: _Injected) -> None:
        text = part.span.text.removesuffix(self._reply_suffix)
        short = cut_reply(text, self._reply_suffix, _SHORT_REPLY_TOKENS, self._tokenizer)
        self._put(part, encode_continuation(part.rest + short, self._tokenizer))

    def _drop(self, part: _Injected) -> None:
        self._put(part, self._dropped_ids(part.rest))

    def _put(self, part: _Injected, token_ids: list[int]) -> None:
        if len(token_ids) < len(part.in_context):
            part.in_context = token_ids

    def _dropped_ids(self, rest: str) -> list[int]:
        return encode_continuation(rest + DROPPED_REPLY + self._reply_suffix, self._tokenizer)


def _parallel(logprobs: Sequence[TokenLogprob] | None, count: int) -> list[TokenLogprob | None]:
    known = (logprobs or ())[:count]
    return [*known, *[None] * (count - len(known))]


def _sampled_span(part: _Sampled) -> Span:
    known = tuple(logprob for logprob in part.logprobs if logprob is not None)
    return Span("sampled", part.text, tuple(part.token_ids), known or None)
