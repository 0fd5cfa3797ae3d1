"""Parts of an answer as spans: whose child each is, what may stand in them, how they end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from models.card import ModelCard
from models.decoding.types import Call
from models.engines.base import EngineOptions
from models.engines.scripted_engine import Rule, ScriptedBehaviour, ScriptedEngine
from models.errors import EngineUnavailable
from models.types import GenerateParams
from retrieval.errors import NCBI_TIMEOUT, NcbiError
from retrieval.ncbi.calls.urls import NcbiSite
from retrieval.ncbi.session import NcbiSession
from retrieval.types import NcbiCall, RawReply, Route
from server.observability.instrumented import InstrumentedEngine
from server.observability.metrics import Metrics
from server.observability.tracing import Tracing
from server.settings.server import TracingSettings


class Traced:
    """Spans kept in memory, by name."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.tracing = Tracing(Metrics(), TracingSettings(endpoint="http://127.0.0.1:4318"), self._exporter)

    async def spans(self) -> dict[str, list[ReadableSpan]]:
        await self.tracing.close()
        found: dict[str, list[ReadableSpan]] = {}
        for span in self._exporter.get_finished_spans():
            found.setdefault(span.name, []).append(span)
        return found


@pytest.fixture
def traced() -> Traced:
    return Traced()


def _id(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)


def _parent(span: ReadableSpan) -> int | None:
    return None if span.parent is None else int(span.parent.span_id)


def _ending(span: ReadableSpan) -> tuple[bool, object, object]:
    """Is it an error, its kind, its outcome."""
    attributes = span.attributes or {}
    return not span.status.is_ok, attributes.get("error.type"), attributes.get("arrowhead.outcome")


async def test_parts_side_by_side_keep_their_own_children(traced: Traced) -> None:
    """Tasks that wait for each other in turn; what comes after a part is not its child."""
    met = asyncio.Barrier(2)

    async def one(number: int) -> None:
        with traced.tracing.part("round", round=number):
            await met.wait()
            tasks = [asyncio.create_task(asyncio.to_thread(search)) for _ in range(2)]
            await met.wait()
            await asyncio.gather(*tasks)
        traced.tracing.ncbi_request("esearch", "", 0.01)

    def search() -> None:
        with traced.tracing.part("search"):
            traced.tracing.encoded("pair", 3, 0.01)

    await asyncio.gather(one(1), one(2))
    spans = await traced.spans()
    rounds = [_id(span) for span in spans["round"]]

    assert sorted(map(str, (_parent(span) for span in spans["search"]))) == sorted(map(str, rounds * 2))
    assert {_parent(span) for span in spans["rerank"]} == {_id(span) for span in spans["search"]}
    assert [_parent(span) for span in spans["ncbi"]] == [None, None]


async def test_an_error_has_its_class_and_no_word_of_its_text(traced: Traced) -> None:
    """Neither as a description nor as an event."""
    with pytest.raises(ValueError), traced.tracing.part("search"):
        raise ValueError("zebrawort")
    (span,) = (await traced.spans())["search"]

    assert _ending(span) == (True, "ValueError", None)
    assert span.events == () and "zebrawort" not in span.to_json()


async def test_only_known_words_stand_in_a_span(traced: Traced) -> None:
    """Whatever a caller passes by mistake."""
    retriever: Any = "zebrawort"
    with traced.tracing.part("search", retriever=retriever, k=retriever) as part:
        part.annotate(tool="esearch", status="empty", from_cache=True, found=2)
    (span,) = (await traced.spans())["search"]

    assert span.attributes == {
        "gen_ai.operation.name": "retrieval",
        "arrowhead.retriever": "other",
        "arrowhead.k": "other",
        "gen_ai.tool.name": "esearch",
        "arrowhead.status": "empty",
        "arrowhead.from_cache": True,
        "arrowhead.found": 2,
    }


async def test_what_is_given_up_ends_and_is_no_error(traced: Traced) -> None:
    """A task that is cancelled, a generator that is closed by another task than opened it."""

    async def hang() -> None:
        with traced.tracing.part("lookup"):
            await asyncio.Event().wait()

    async def rounds() -> AsyncGenerator[int, None]:
        with traced.tracing.part("round", round=1):
            yield 1

    task = asyncio.create_task(hang())
    opened = rounds()
    assert await asyncio.create_task(anext(opened)) == 1
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await opened.aclose()
    spans = await traced.spans()

    assert [_ending(spans[name][0]) for name in ("lookup", "round")] == [(False, None, "cancelled")] * 2


EUTILS = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils/"
_FOUND = '{"esearchresult": {"count": "1", "idlist": ["1"]}}'


@pytest.mark.parametrize(
    ("url", "body", "expected"),
    [
        (EUTILS + "esearch.fcgi?db=gene&term=zebrawort", None, ("esearch", True, (True, "NcbiTimeout", None))),
        ("https://example.org/?term=zebrawort", _FOUND, ("other", False, (True, "CallRejected", None))),
        (EUTILS + "esearch.fcgi?db=gene&term=zebrawort", _FOUND, ("esearch", False, (False, None, None))),
    ],
)
async def test_a_call_that_failed_is_an_error(
    traced: Traced, url: str, body: str | None, expected: tuple[str, bool, tuple[bool, object, object]]
) -> None:
    """Its kind and whether it left stand in it, its address does not."""

    async def fetch(_: NcbiCall) -> RawReply:
        if body is not None:
            return RawReply(200, "application/json", body, len(body), route=Route(mode="off", went_to="gateway"))
        error = NcbiError("NCBI timed out", NCBI_TIMEOUT)
        error.route = Route(mode="ncbi", went_to="eutils.ncbi.nlm.nih.gov", left=True)
        raise error

    await NcbiSession(fetch, NcbiSite(), tracer=traced.tracing)(Call(url, 0))
    (span,) = (await traced.spans())["call"]

    assert "zebrawort" not in span.to_json() and span.attributes is not None
    tool, left, ending = expected
    assert _ending(span) == ending
    assert span.attributes["gen_ai.tool.name"] == tool
    assert span.attributes["arrowhead.remote"] == left


async def _generated(traced: Traced, behaviour: ScriptedBehaviour, *, deltas: int | None = None) -> ReadableSpan:
    """The span of a generation that is read to its end, or given up after so many deltas."""
    card = ModelCard(name="m", source="s", context_length=512)
    script = [Rule("zebrawort", " yes")]
    engine = InstrumentedEngine(ScriptedEngine(card, EngineOptions(), script, behaviour=behaviour), traced.tracing)
    await engine.start()
    prompt = engine.tokenizer.encode("zebrawort")
    try:
        async with aclosing(engine.generate(prompt, GenerateParams(max_tokens=9), "r")) as written:  # type: ignore[type-var]
            read = 0
            async for _ in written:
                read += 1
                if read == deltas:
                    break
    except EngineUnavailable:
        pass
    await engine.close()
    (span,) = (await traced.spans())["generate"]
    assert "zebrawort" not in span.to_json()
    return span


async def test_a_generation_has_the_names_that_all_tools_know(traced: Traced) -> None:
    """Every ``gen_ai`` attribute is one of OpenTelemetry's conventions."""
    gen_ai_attributes = pytest.importorskip("opentelemetry.semconv._incubating.attributes.gen_ai_attributes")
    span = await _generated(traced, ScriptedBehaviour())
    attributes = dict(span.attributes or {})
    known = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}

    assert {name for name in attributes if name.startswith("gen_ai.")} <= known
    assert attributes["gen_ai.request.model"] == "m" and attributes["gen_ai.request.max_tokens"] == 9
    assert attributes["gen_ai.usage.input_tokens"] == len("zebrawort")
    assert attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert attributes["gen_ai.response.time_to_first_chunk"] >= 0  # type: ignore[operator]
    assert _ending(span) == (False, None, None)


@pytest.mark.parametrize(
    ("behaviour", "deltas", "expected"),
    [
        (ScriptedBehaviour(fail_after_tokens=2), None, (True, "EngineUnavailable", None)),
        (ScriptedBehaviour(), 1, (False, None, "cancelled")),
    ],
)
async def test_a_generation_that_does_not_end_well_says_how(
    traced: Traced, behaviour: ScriptedBehaviour, deltas: int | None, expected: tuple[bool, object, object]
) -> None:
    """An engine that fails is an error, a reader that goes away is not."""
    assert _ending(await _generated(traced, behaviour, deltas=deltas)) == expected
