"""The interception loop over the scripted engine: every bound holds, every end is clean, many run at once."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing

import pytest
from loop_scripts import SYNTAX, Replies, collect, done, following, make_engine, make_request, play, shown

from models.decoding.call_loop import LoopRequest
from models.decoding.driver import run
from models.decoding.types import Call, CallFinished, CallReply, LoopLimits, TextSampled
from models.engines.scripted_engine import Rule, ScriptedBehaviour
from models.errors import EngineUnavailable, UnsupportedParam
from models.types import GenerateParams, Grammar


def test_end_reasons() -> None:
    """EOS, stop string and max_tokens are told apart; what spells the stop is not in the span."""
    engine = make_engine(following("one two STOP three"))
    stopped = done(play(engine, make_request(engine, stop=("STOP",)), Replies("")))
    ended = done(play(engine, make_request(engine), Replies("")))
    short = done(play(engine, make_request(engine, max_tokens=5), Replies("")))

    assert (stopped.finish_reason, stopped.stop_reason, stopped.spans[0].text) == ("stop", "STOP", "one two ")
    assert stopped.spans[0].token_ids == tuple(b"one two ")
    assert (ended.finish_reason, ended.stop_reason) == ("stop", None)
    assert (short.finish_reason, short.spans[0].text) == ("length", "one t")


def test_max_tokens_counts_what_the_model_writes_over_all_segments() -> None:
    """Replies are not counted, and a segment gets only what the earlier ones left."""
    engine = make_engine([Rule("Q\n", "[https://ncbi/1]->"), Rule("", "abcdefgh")])
    events = play(engine, make_request(engine, max_tokens=len("[https://ncbi/1]->") + 3), Replies("[" + "r" * 50 + "]"))

    assert shown(events) == "[https://ncbi/1]->abc"
    assert done(events).finish_reason == "length"
    assert done(events).usage.sampled_tokens == len("[https://ncbi/1]->") + 3


def test_usage_counts_each_kind_of_token_once() -> None:
    """Prompt, sampled, injected, cached and computed tokens of two segments, with the prefix cache's help."""
    prompt = "Q" * 100 + "\n"
    engine = make_engine([Rule("QQ\n", "[https://ncbi/1]->"), Rule("", "abc")])
    usage = done(play(engine, make_request(engine, prompt=prompt), Replies("[reply]"))).usage
    resumed = engine.requests[1]
    sampled = len("[https://ncbi/1]->") + len("abc") + 1

    assert (usage.prompt_tokens, usage.sampled_tokens, usage.injected_tokens) == (101, sampled, len("[reply]\n"))
    assert (usage.segments, usage.cached_tokens) == (2, 0)
    new_tokens = len(resumed.prompt) - resumed.num_cached_tokens
    assert usage.computed_tokens == 101 + sampled + new_tokens
    assert new_tokens <= len("[reply]\n") + engine.block_size


def test_the_call_after_the_last_is_refused_and_the_model_may_answer() -> None:
    """At the limit a refusal stands in for the reply; the handler is not asked; one more segment is written."""
    engine = make_engine([Rule("answer now]\n", "Answer: 1"), Rule("", "[https://ncbi/1]->")])
    handler = Replies("[r]")
    events = play(engine, make_request(engine, limits=LoopLimits(max_calls=2)), handler)
    finished = [event for event in events if isinstance(event, CallFinished)]

    assert [call.ordinal for call in handler.calls] == [0, 1]
    assert [event.reply.status for event in finished] == ["ok", "ok", "refused"]
    assert done(events).finish_reason == "call_limit"
    assert shown(events).endswith("Answer: 1")


def test_a_model_that_goes_on_calling_at_the_limit_is_ended() -> None:
    """After the refusal another call ends the answer."""
    engine = make_engine([Rule("", "[https://ncbi/1]->")])
    handler = Replies("[r]")
    events = play(engine, make_request(engine, limits=LoopLimits(max_calls=1)), handler)

    assert len(handler.calls) == 1
    assert shown(events) == "[https://ncbi/1]->" * 3
    assert done(events).finish_reason == "call_limit"


def test_a_long_reply_is_cut_to_its_budget() -> None:
    """The cut is marked, the bracket closed, and the event says what was injected."""
    engine = make_engine([Rule("Q\n", "[https://ncbi/1]->"), Rule("", "ok")])
    limits = LoopLimits(max_reply_tokens=40)
    events = play(engine, make_request(engine, limits=limits), Replies("[" + "r" * 500 + "]"))
    finished = next(event for event in events if isinstance(event, CallFinished))

    assert finished.injected == "[" + "r" * (40 - len("[ ...(cut)]\n")) + " ...(cut)]\n"
    assert finished.num_tokens == 40
    assert done(events).usage.injected_tokens == 40


def test_old_replies_give_way_when_the_context_fills() -> None:
    """Prompt, model text and the latest reply stay; older replies are shortened, then dropped, oldest first."""
    prompt = "HEADER question\n"
    calls = 8

    def script(text: str) -> str:
        at = text.count("]->")
        return f"[https://ncbi/{at}]->" if at < calls else "Answer: done"

    engine = make_engine(script, max_model_len=950)
    replies = [f"[{n}:" + "r" * 190 + "]" for n in range(calls)]
    events = play(engine, make_request(engine, prompt=prompt), Replies(*replies))
    last = engine.requests[-1].prompt

    assert done(events).finish_reason == "stop"
    assert shown(events).endswith("Answer: done")
    assert last.startswith(prompt + "[https://ncbi/0]->[earlier reply left out]\n[https://ncbi/1]->")
    assert last.endswith(replies[-1] + "\n")
    assert [f"[https://ncbi/{n}]->" in last for n in range(calls)] == [True] * calls
    assert "...(cut)]\n" in last
    assert all(len(request.prompt) < 950 for request in engine.requests)
    assert [span.text for span in done(events).spans if span.kind == "injected"] == [r + "\n" for r in replies]


def test_an_answer_ends_as_length_when_nothing_can_give_way() -> None:
    """Model text alone fills the context: the prompt is not cut and the engine is not asked for the impossible."""
    engine = make_engine([Rule("", "x" * 20 + "[https://ncbi/1]->")], max_model_len=110)
    events = play(engine, make_request(engine), Replies("[r]"))

    assert done(events).finish_reason == "length"
    assert all(request.prompt.startswith("Q\nxxxx") for request in engine.requests[1:])


def test_a_slow_call_ends_as_an_error_and_the_model_goes_on() -> None:
    """The call's own time limit cancels the handler and tells the model."""
    engine = make_engine([Rule("Q\n", "[https://ncbi/1]->"), Rule("too long]\n", "so be it"), Rule("", "astray")])
    cancelled = []

    async def slow(call: Call) -> CallReply:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(call.ordinal)
            raise
        raise AssertionError("never")

    events = play(engine, make_request(engine, limits=LoopLimits(call_timeout_s=0.05)), slow)
    finished = next(event for event in events if isinstance(event, CallFinished))

    assert cancelled == [0]
    assert (finished.reply.status, finished.reply.record) == ("error", {"error_type": "CallTimeout"})
    assert shown(events).endswith("so be it")


def test_a_failing_handler_is_reported_without_its_words(caplog: pytest.LogCaptureFixture) -> None:
    """The model gets a short error; neither it nor the log gets the exception's text."""
    engine = make_engine([Rule("Q\n", "[https://ncbi/secret]->"), Rule("failed]\n", "ok"), Rule("", "astray")])

    async def broken(call: Call) -> CallReply:
        raise TimeoutError(f"upstream said no to {call.text}")

    with caplog.at_level(logging.WARNING):
        events = play(engine, make_request(engine), broken)
    finished = next(event for event in events if isinstance(event, CallFinished))

    assert (finished.reply.text, finished.reply.record["error_type"]) == ("[error: the call failed]", "TimeoutError")
    assert "TimeoutError" in caplog.text
    assert "secret" not in caplog.text
    assert shown(events).endswith("ok")


def test_total_time_ends_a_generation_in_the_middle() -> None:
    """What was written is kept, the engine's slot is freed, the reason is timeout."""
    engine = make_engine([Rule("", "x" * 5000)], behaviour=ScriptedBehaviour(token_delay_s=0.01))
    events = play(engine, make_request(engine, limits=LoopLimits(total_timeout_s=0.2)), Replies(""))

    assert done(events).finish_reason == "timeout"
    assert 0 < len(shown(events)) < 5000
    assert done(events).spans[0].token_ids == tuple(b"x" * len(shown(events)))
    assert engine.stats().running == 0


def test_total_time_bounds_a_call_too() -> None:
    """A call that outlasts the answer's time is ended, and nothing is generated after it."""
    engine = make_engine([Rule("", "[https://ncbi/1]->")])

    async def endless(call: Call) -> CallReply:
        await asyncio.sleep(60)
        raise AssertionError("never")

    events = play(engine, make_request(engine, limits=LoopLimits(total_timeout_s=0.2)), endless)

    assert done(events).finish_reason == "timeout"
    assert len(engine.requests) == 1


async def test_cancelling_in_the_middle_of_a_call_cancels_the_handler() -> None:
    """The handler sees the cancellation and the engine has nothing running."""
    engine = make_engine([Rule("", "[https://ncbi/1]->")])
    asked, cancelled = asyncio.Event(), []

    async def endless(call: Call) -> CallReply:
        asked.set()
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.append(call.ordinal)
        raise AssertionError("never")

    task = asyncio.create_task(collect(engine, make_request(engine), endless))
    await asyncio.wait_for(asked.wait(), 5)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert cancelled == [0]
    assert engine.stats().running == 0


async def test_closing_the_events_frees_the_engine() -> None:
    """A reader that goes away in the middle of the text leaves no request behind."""
    engine = make_engine([Rule("", "x" * 5000)])
    await engine.start()
    async with aclosing(run(engine, make_request(engine), Replies(""))) as events:
        async for event in events:
            assert isinstance(event, TextSampled)
            assert engine.stats().running == 1
            break

    assert engine.stats().running == 0


async def test_a_dying_engine_is_no_answer() -> None:
    """The engine's error reaches the reader as it is."""
    engine = make_engine([Rule("", "x" * 50)], behaviour=ScriptedBehaviour(fail_after_tokens=3))

    with pytest.raises(EngineUnavailable):
        await collect(engine, make_request(engine), Replies(""))


async def test_a_grammar_for_the_whole_output_is_refused() -> None:
    """It cannot span a reply, so it is refused by name before anything is generated."""
    engine = make_engine([Rule("", "x")])
    request = make_request(engine)
    params = GenerateParams(max_tokens=5, grammar=Grammar("json_schema", "{}"))

    with pytest.raises(UnsupportedParam) as refused:
        await collect(
            engine,
            LoopRequest(prompt_ids=request.prompt_ids, params=params, syntax=SYNTAX, request_id="r"),
            Replies(""),
        )
    assert refused.value.param == "response_format"
    assert engine.requests == []


def test_segments_have_their_own_seeds_ids_and_first_grammar() -> None:
    """Seed + k, id -sk, the closer among the stops, and the forcing grammar in the first segment alone."""
    engine = make_engine([Rule("Q\n", "[https://ncbi/1]->"), Rule("", "ok")])
    forced, free = Grammar("structural_tag", "forced"), Grammar("structural_tag", "free")
    request = LoopRequest(
        prompt_ids=tuple(b"Q\n"),
        params=GenerateParams(max_tokens=50, seed=7, stop=("END",), grammar=free),
        syntax=SYNTAX,
        request_id="r",
        first_grammar=forced,
    )
    play(engine, request, Replies("[r]"))

    assert [r.request_id for r in engine.requests] == ["r-s0", "r-s1"]
    assert [r.params.seed for r in engine.requests] == [7, 8]
    assert [r.params.grammar for r in engine.requests] == [forced, free]
    assert {r.params.stop for r in engine.requests} == {("END", "]->")}


@pytest.mark.parametrize("tokens", [(), ("]->[",)])
def test_logprobs_are_those_of_sampled_tokens(tokens: tuple[str, ...]) -> None:
    """Sampled spans carry the logprobs of their own tokens, injected ones none."""
    engine = make_engine(following("[https://ncbi/1]->[r]\nok"), tokens)
    events = play(engine, make_request(engine, logprobs=1), Replies("[r]"))
    first, injected, last = done(events).spans
    streamed = [lp.token_id for e in events if isinstance(e, TextSampled) for lp in e.logprobs or ()]

    assert injected.logprobs is None
    assert tuple(lp.token_id for lp in first.logprobs or ()) == first.token_ids
    assert tuple(lp.token_id for lp in last.logprobs or ()) == last.token_ids == tuple(b"ok")
    assert streamed == [t for e in events if isinstance(e, TextSampled) for t in e.token_ids]
