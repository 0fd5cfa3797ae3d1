"""Sequences that are kept while a call is made, over a small double that follows vLLM's rules of a session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any

import pytest
from waiting import until

from models.engines.scripted_engine import ByteTokenizer
from models.engines.vllm_engine.sessions import Part, Sessions, pausing_ids
from models.engines.vllm_engine.stream import VllmStream
from models.types import Delta, GenerateParams, Grammar

TOKENIZER = ByteTokenizer()
EOS = min(TOKENIZER.eos_token_ids)
PAUSES = pausing_ids(TOKENIZER, "]->")
Input = tuple[list[int], int, frozenset[int]]


class Vllm:
    """Write ``text`` from the end of the first prompt on, in sessions that keep vLLM's rules.

    A part ends at a stop token or its most tokens; its last token is dropped and must be given again. The reason of an
    earlier stop token stays behind an end token.
    """

    def __init__(self, text: Iterable[int]) -> None:
        self.text = list(text)
        self.inputs: list[Input] = []
        self.sequence: list[int] = []
        self.num_open = 0

    async def start(self, inputs: AsyncGenerator[Input, None]) -> AsyncGenerator[Any, None]:
        last: list[int] = []
        self.sequence, reason = [], None
        self.num_open += 1
        try:
            async for ids, most, stops in inputs:
                self.inputs.append((ids, most, stops))
                assert ids[: len(last)] == last
                self.sequence += ids
                for number in range(1, most + 1):
                    token = self.text.pop(0)
                    stopped = token in stops or token == EOS
                    reason = token if token in stops else reason
                    finish = "stop" if stopped else "length" if number == most else None
                    last = [token]
                    yield self._output(token, finish, reason if stopped else None)
                    if finish:
                        break
                    self.sequence.append(token)
        finally:
            self.num_open -= 1

    def _output(self, token: int, finish: str | None, reason: int | None) -> Any:
        completion = SimpleNamespace(token_ids=[token], finish_reason=finish, stop_reason=reason, logprobs=None)
        return SimpleNamespace(outputs=[completion], num_cached_tokens=0, finished=False)


async def read(sessions: Sessions, vllm: Vllm, prompt: str, grammar: Grammar | None = None, most: int = 50) -> Delta:
    """The text of one part of the answer ``a``, as the engine reads it, in one delta."""
    params = GenerateParams(max_tokens=most, stop=("]->", "\n"), pause_at="]->", grammar=grammar)
    ids = TOKENIZER.encode(prompt)
    part = Part(ids, params, "a", PAUSES, lambda ids, most, stops: (ids, most, stops), vllm.start)
    stream, text, last = VllmStream(ids, params, TOKENIZER), "", Delta()
    async with aclosing(sessions.outputs(part, stream)) as outputs:
        async for output in outputs:
            last = stream.advance(output)
            text += last.text
            if stream.finished:
                await outputs.aclose()
    return Delta(
        text=text,
        finish_reason=last.finish_reason,
        stop_reason=last.stop_reason,
        num_cached_tokens=last.num_cached_tokens,
    )


def ids(text: str) -> list[int]:
    return TOKENIZER.encode(text)


async def test_a_reply_is_all_that_is_given_to_the_sequence_of_a_call() -> None:
    """But for the arrow's last token, which vLLM drops; then the sequence is as if it had been one prompt."""
    vllm, sessions = Vllm([*ids("[x]->yes"), EOS]), Sessions(60.0, 2)
    first = await read(sessions, vllm, "Q:")
    held = sessions.held
    last = await read(sessions, vllm, "Q:[x]->[reply]")

    assert (first.text, first.stop_reason, set(held)) == ("[x", "]->", {"a"})
    assert [(one, most) for one, most, _ in vllm.inputs] == [(ids("Q:"), 50), (ids(">[reply]"), 50)]
    assert (last.text, last.finish_reason, last.stop_reason) == ("yes", "stop", None)
    assert last.num_cached_tokens == len("Q:[x]-")
    assert TOKENIZER.decode(vllm.sequence) == "Q:[x]->[reply]yes"
    assert (sessions.held, vllm.num_open) == (frozenset(), 0)


async def test_a_token_that_ends_no_call_goes_on_with_the_tokens_that_are_left() -> None:
    """As ``>`` in text."""
    vllm, sessions = Vllm(ids("p > 0.05 and so on")), Sessions(60.0, 2)
    whole = await read(sessions, vllm, "Q:", most=8)

    assert (whole.text, whole.finish_reason) == ("p > 0.05", "length")
    assert [(one, most) for one, most, _ in vllm.inputs] == [(ids("Q:"), 8), (ids(">"), 5)]
    assert vllm.num_open == 0


async def test_a_grammar_gets_no_other_end_tokens_than_its_own() -> None:
    """The first input's stop tokens would be ends of it, which a call may not have inside: so that one is one token."""
    vllm, sessions = Vllm([*ids("[x]->yes"), EOS]), Sessions(60.0, 2)
    grammar = Grammar("structural_tag", "{}")
    await read(sessions, vllm, "Q:", grammar)
    await read(sessions, vllm, "Q:[x]->[reply]", grammar)

    assert vllm.inputs[0] == (ids("Q:"), 1, frozenset())
    assert [(one, most) for one, most, _ in vllm.inputs[1:]] == [(ids("["), 49), (ids(">[reply]"), 50)]
    assert TOKENIZER.decode(vllm.sequence) == "Q:[x]->[reply]yes"


@pytest.mark.parametrize(
    ("prompt", "grammar"), [("Q:[y]->[reply]", None), ("Q:[x]", None), ("Q:[x]->[reply]", Grammar("regex", "a"))]
)
async def test_a_prompt_that_is_no_continuation_begins_anew(prompt: str, grammar: Grammar | None) -> None:
    """Of other tokens, no more tokens, or under another grammar; the kept sequence is freed."""
    vllm, sessions = Vllm([*ids("[x]->yes"), EOS]), Sessions(60.0, 2)
    await read(sessions, vllm, "Q:")
    last = await read(sessions, vllm, prompt, grammar)

    assert last.text == "yes"
    assert vllm.inputs[1][0] == ids(prompt)
    assert (sessions.held, vllm.num_open) == (frozenset(), 0)


@pytest.mark.parametrize("most", [0, 1])
async def test_no_more_sequences_are_held_than_may_be(most: int) -> None:
    sessions = Sessions(60.0, most)
    vllm = Vllm(ids("[x]->"))
    await read(sessions, vllm, "Q:")

    assert vllm.num_open == len(sessions.held) == most


async def test_a_sequence_is_freed_when_its_call_takes_too_long_or_its_answer_ends() -> None:
    for seconds in (0.01, 60.0):
        sessions, vllm = Sessions(seconds, 2), Vllm(ids("[x]->"))
        await read(sessions, vllm, "Q:")
        if seconds > 1:
            await sessions.release("a")
        await until(lambda: not sessions.held and not vllm.num_open)  # noqa: B023


async def test_a_user_stop_frees_the_sequence() -> None:
    sessions, vllm = Sessions(60.0, 2), Vllm(ids("yes\n and more"))
    last = await read(sessions, vllm, "Q:")

    assert (last.text, last.stop_reason) == ("yes", "\n")
    assert (sessions.held, vllm.num_open) == (frozenset(), 0)


async def test_a_reader_that_leaves_frees_the_sequence() -> None:
    """Its task is cancelled while vLLM computes."""

    async def never(inputs: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
        try:
            yield await asyncio.Event().wait()
        finally:
            freed.set()

    freed, params = asyncio.Event(), GenerateParams(max_tokens=5, pause_at="]->")
    part = Part([1], params, "a", PAUSES, lambda ids, most, stops: ids, never)
    sessions = Sessions(60.0, 2)
    task = asyncio.ensure_future(anext(sessions.outputs(part, VllmStream([1], params, TOKENIZER))))
    await asyncio.sleep(0)
    task.cancel()

    await until(freed.is_set)
    assert not sessions.held


def test_the_tokens_that_may_complete_an_arrow_hold_it_or_begin_with_an_ending_of_it() -> None:
    class Words(ByteTokenizer):
        texts = ("]->", ">", "-", "->", " >", "x]->y", ">>", "]-")
        vocab_size = len(texts)

        def decode(self, token_ids: Any) -> str:
            return "".join(self.texts[i] for i in token_ids)

    words = Words()
    assert {words.texts[i] for i in pausing_ids(words, "]->")} == {"]->", ">", "->", "x]->y", ">>"}
