"""The answers of one request: their ids and seeds, their events as one stream, how one failure ends them all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from bare_services import bare_services
from lexical_verifier import lexical_gate
from loop_scripts import Replies, make_engine, make_request
from slow_database import SlowDatabase

from models.card import ModelCard
from models.decoding.driver import run
from models.decoding.types import Call, CallHandler, CallReply, LoopDone, LoopUsage
from models.engines.base import EngineOptions
from models.engines.scripted_engine import ByteTokenizer, Rule, ScriptedBehaviour, ScriptedEngine
from models.errors import EngineUnavailable
from retrieval.errors import NamespaceUnknown
from server.api.answers.session import Answers, fan_out, run_all
from server.engine.lifecycle import EngineLifecycle
from server.evidence.passages import PassageService
from server.methods.base import AnswerRequest, Done, Event, Message, Sampling, Step
from server.methods.direct import Direct
from server.methods.medrag.method import MedRag
from server.settings.schema import Settings
from server.traces import TraceHead
from server.wiring.retrieval import build_retrieval
from server.wiring.services import Services


class _Talker:
    """Yields one step and its end; ``fail`` raises instead, ``hang`` waits until it is cancelled."""

    name = "talker"
    description = "test"

    def __init__(self) -> None:
        self.cancelled = 0

    def check(self, ask: AnswerRequest) -> None:
        pass

    async def answer(self, ask: AnswerRequest) -> AsyncGenerator[Event, None]:
        yield Step(ask.request_id)
        if ask.options.get("fail"):
            raise EngineUnavailable("died")
        if ask.options.get("hang"):
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled += 1
        yield Done(answer="", finish_reason="stop", stop_reason=None, usage=LoopUsage())


def test_choices_differ_in_id_and_seed() -> None:
    """Seeds are far apart, because segments of one answer count up from its seed."""
    asks = fan_out(AnswerRequest(request_id="r", sampling=Sampling(seed=7)), 3)

    assert [ask.request_id for ask in asks] == ["r-0", "r-1", "r-2"]
    assert [ask.sampling.seed for ask in asks] == [7, 1007, 2007]
    assert [ask.sampling.seed for ask in fan_out(AnswerRequest(request_id="r"), 2)] == [None, None]


async def test_all_events_of_all_answers_come_through() -> None:
    """Each is marked with its answer."""
    items = [item async for item in run_all(_Talker(), fan_out(AnswerRequest(request_id="r"), 3))]

    assert sorted(i.choice for i in items) == [0, 0, 1, 1, 2, 2]


async def test_one_failing_answer_ends_the_others() -> None:
    """The error is raised, and the answer that was still waiting has been cancelled by then."""
    method = _Talker()
    asks = [
        AnswerRequest(request_id="a", options={"hang": True}),
        AnswerRequest(request_id="b", options={"fail": True}),
    ]

    with pytest.raises(EngineUnavailable):
        _ = [item async for item in run_all(method, asks)]

    assert method.cancelled == 1


class _Looping:
    """Runs the interception loop over one engine, with a call handler for each answer; yields the loop's own events."""

    name = "looping"
    description = "test"

    def __init__(self, engine: ScriptedEngine, handlers: Sequence[CallHandler]) -> None:
        self._engine = engine
        self._handlers = handlers

    def check(self, ask: AnswerRequest) -> None:
        pass

    async def answer(self, ask: AnswerRequest) -> AsyncGenerator[Event, None]:
        number = int(ask.request_id.rpartition("-")[2])
        request = replace(make_request(self._engine, seed=ask.sampling.seed), request_id=ask.request_id)
        async with aclosing(run(self._engine, request, self._handlers[number])) as events:
            async for event in events:
                yield cast(Any, event)


async def test_many_answers_run_at_once_with_their_own_seeds() -> None:
    """Each answer has its own handler, seeds and ids; their events interleave and all end."""
    engine = make_engine([Rule("Q\n", "[https://ncbi/1]->"), Rule("", "ok")])
    await engine.start()
    handlers = [Replies(f"[reply {n}]") for n in range(3)]
    waiting = asyncio.Barrier(3)

    def together(handler: Replies) -> CallHandler:
        async def ask(call: Call) -> CallReply:
            await asyncio.wait_for(waiting.wait(), 5)
            return await handler(call)

        return ask

    asks = fan_out(AnswerRequest(request_id="r", sampling=Sampling(seed=1)), 3)
    items = [item async for item in run_all(_Looping(engine, [together(h) for h in handlers]), asks)]
    ends = {item.choice: item.event for item in items if isinstance(cast(Any, item.event), LoopDone)}

    assert [len(handler.calls) for handler in handlers] == [1, 1, 1]
    assert [cast(Any, ends[n]).spans[1].text for n in range(3)] == [f"[reply {n}]\n" for n in range(3)]
    assert {r.params.seed for r in engine.requests} == {1, 2, 1001, 1002, 2001, 2002}
    assert {r.request_id for r in engine.requests} == {f"r-{n}-s{k}" for n in range(3) for k in range(2)}


async def test_one_failing_answer_frees_the_engine() -> None:
    """The first error reaches the reader and nothing keeps running."""
    engine = make_engine([Rule("", "x" * 50)], behaviour=ScriptedBehaviour(fail_after_tokens=3))
    await engine.start()
    method = _Looping(engine, [Replies("")] * 3)

    with pytest.raises(EngineUnavailable):
        async for _ in run_all(method, fan_out(AnswerRequest(request_id="r"), 3)):
            pass
    assert engine.stats().running == 0


async def test_closing_many_answers_frees_the_engine() -> None:
    """A reader that goes away ends all answers."""
    engine = make_engine([Rule("", "x" * 5000)])
    await engine.start()
    asks = fan_out(AnswerRequest(request_id="r"), 3)
    async with aclosing(run_all(_Looping(engine, [Replies("")] * 3), asks)) as events:
        async for _ in events:
            if engine.stats().running == 3:
                break

    assert engine.stats().running == 0


def _services(folder: Path, database: SlowDatabase) -> Services:
    """The plain model, which writes 200 letters, and a method that searches the database's namespaces."""
    card, settings = ModelCard(name="base", source="-", prompt_form="base"), Settings()
    options = EngineOptions(max_model_len=20_000)
    engine = ScriptedEngine(card, options, [Rule("", "x" * 200)], tokenizer=ByteTokenizer(()))
    lifecycle = EngineLifecycle(card, lambda: engine)
    retrieval = build_retrieval(settings.retrieval, folder, database=database)
    passages = PassageService(retrieval, settings.retrieval)
    methods = {"direct": Direct(lifecycle), "medrag": MedRag(lifecycle, passages, lexical_gate(), 100)}
    return bare_services(settings, lifecycle, folder, methods=methods, retrieval=retrieval, passages=passages)


def _answers(services: Services, model: str, **options: Any) -> Answers:
    served = next(one for one in services.models(services.key_lookup.principal_of("")) if one.id == model)
    ask = AnswerRequest(request_id=model, messages=(Message("user", "Which gene?"),), options=options)
    return Answers(services, served, fan_out(ask, 1), TraceHead(model, model, "", 0))


async def test_a_stream_goes_on_while_the_database_of_namespaces_is_slow(tmp_path: Path) -> None:
    """To its end, while another request waits to learn which namespaces there are."""
    database = SlowDatabase("trials")
    services = _services(tmp_path, database)
    services.start()
    await services.loaded()
    stream, waiting = _answers(services, "base"), _answers(services, "base:medrag", namespaces=["unknown"])
    await stream.check()
    async with aclosing(stream.events()) as events:
        await anext(events)
        checking = asyncio.create_task(waiting.check())
        assert await asyncio.to_thread(database.asked.wait, 5)
        rest = [item async for item in events]
        assert isinstance(rest[-1].event, Done) and not checking.done()
    database.go.set()
    with pytest.raises(NamespaceUnknown, match="there are: notes, trials"):
        await checking
    await services.close()


async def test_a_model_that_searches_nothing_does_not_ask_the_database_of_namespaces(tmp_path: Path) -> None:
    """Nor does it wait for it."""
    database = SlowDatabase("trials")
    services = _services(tmp_path, database)
    services.start()
    await services.loaded()

    await _answers(services, "base").check()

    assert not database.asked.is_set()
    await services.close()
