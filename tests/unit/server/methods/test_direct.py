"""The plain model: its thinking is shown apart, and whether it chats is its tokenizer's matter."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from passage_bench import done, shown
from site_mcp_server import NOTE, shelf

from models.card import ModelCard
from models.engines.base import EngineOptions
from models.engines.scripted_engine import ByteTokenizer, Rule, ScriptedEngine
from server.audit.log import AuditLog, AuditRecorder
from server.egress.policy import EgressPolicy
from server.egress.router import Destinations, Egress
from server.engine.lifecycle import EngineLifecycle
from server.evidence.site_tools.client import McpToolServer
from server.evidence.site_tools.look_ups import SiteServer, SiteTools
from server.methods.base import AnswerRequest, CallReplied, Event, Message, OptionInvalid, Sampling, TextDelta
from server.methods.direct import Direct
from server.methods.shared.generation import PromptFormatter
from server.settings.egress import EgressSettings

CARD = ModelCard(name="OpenBioLLM-8B", source="owner/OpenBioLLM-8B")


async def asked(text: str, tokenizer: ByteTokenizer, sampling: Sampling | None = None) -> tuple[str, list[Event]]:
    """The prompt and the events of one answer in which the model writes ``text``."""
    engine = ScriptedEngine(CARD, EngineOptions(max_model_len=500), lambda _: text, tokenizer=tokenizer)
    lifecycle = EngineLifecycle(CARD, lambda: engine)
    await lifecycle.load()
    ask = AnswerRequest(request_id="r", messages=(Message("user", "LMP10?"),), sampling=sampling or Sampling())
    events = [event async for event in Direct(lifecycle).answer(ask)]
    await engine.close()
    return engine.requests[0].prompt, events


async def test_thinking_comes_as_reasoning_and_not_as_the_answer() -> None:
    """Both channels, and log-probabilities of the answer's tokens alone."""
    text = "<think>\nmaybe\n</think>\n\nPSMB10"
    _, events = await asked(text, ByteTokenizer(thinks=True), Sampling(logprobs=1))
    logprobs = [one for event in events if isinstance(event, TextDelta) for one in event.logprobs or ()]

    assert (shown(events, "reasoning"), shown(events, "answer")) == ("maybe\n", "PSMB10")
    assert done(events).answer == "PSMB10"
    assert bytes(one.token_id for one in logprobs[:-1]) == b"PSMB10"


async def test_thinking_that_is_cut_is_no_answer() -> None:
    """At the length that the request allows."""
    _, events = await asked("<think>maybe it is", ByteTokenizer(thinks=True), Sampling(max_tokens=6))

    assert (shown(events, "reasoning"), done(events).answer, done(events).finish_reason) == ("maybe", "", "length")


async def test_a_model_with_a_template_chats_whatever_its_name() -> None:
    """Its prompt has turns; that of a model without one is plain text."""
    chat, _ = await asked("PSMB10", ByteTokenizer())
    base, _ = await asked(" PSMB10", ByteTokenizer(chat=False))

    assert chat == "LMP10?"
    assert base == "Question: LMP10?\nAnswer:"


def test_an_answer_that_is_begun_follows_closed_thinking() -> None:
    """Where the template opened a thought, it ends before the answer's first words."""

    class Opening(ByteTokenizer):
        def encode_chat(self, messages: object, *, add_generation_prompt: bool = True, tools: object = ()) -> list[int]:
            return [*b"Q", *self.encode("<think>")]

    tokenizer = Opening(thinks=True)
    engine = ScriptedEngine(CARD, EngineOptions(), lambda _: "", tokenizer=tokenizer)
    formatter = PromptFormatter(engine, CARD)

    assert tokenizer.decode(formatter.ids("s", "u", "Answer:")) == "Q<think></think>\n\nAnswer:"
    assert tokenizer.decode(formatter.ids("s", "u")) == "Q<think>"
    assert PromptFormatter(engine, replace(CARD, prompt_form="base")).is_chat is False


@pytest.mark.parametrize("trained_for", [("genegpt",), ()])
async def test_a_model_that_was_not_trained_to_chat_is_not_asked_to(trained_for: tuple[str, ...]) -> None:
    """It would write nonsense for minutes; the error says what to ask instead. Texts it may continue."""
    card = replace(CARD, trained_for=trained_for)
    direct = Direct(EngineLifecycle(card, lambda: ScriptedEngine(card, EngineOptions(), lambda _: "::::")))

    with pytest.raises(OptionInvalid, match="was not trained to chat") as refused:
        direct.check(AnswerRequest(request_id="r", messages=(Message("user", "Hello"),)))
    direct.check(AnswerRequest(request_id="r", prompt="Hello"))

    assert refused.value.param == "model"
    assert "OpenBioLLM-8B:genegpt" in refused.value.message or not trained_for


async def test_a_model_whose_card_says_that_it_chats_does() -> None:
    """Beside the methods that it was trained for."""
    card = replace(CARD, trained_for=("genegpt", "chat"))

    Direct(EngineLifecycle(card, lambda: ScriptedEngine(card, EngineOptions(), lambda _: "Hello"))).check(
        AnswerRequest(request_id="r", messages=(Message("user", "Hello"),))
    )


async def test_a_slow_chat_template_holds_up_nobody() -> None:
    """Other answers go on while it renders."""
    go, others_ran = threading.Event(), asyncio.Event()

    class Slow(ByteTokenizer):
        def encode_chat(self, messages: object, *, add_generation_prompt: bool = True, tools: object = ()) -> list[int]:
            assert go.wait(60)
            return [*b"Q"]

    lifecycle = EngineLifecycle(CARD, lambda: ScriptedEngine(CARD, EngineOptions(), lambda _: "A", tokenizer=Slow()))
    await lifecycle.load()
    ask = AnswerRequest(request_id="r", messages=(Message("user", "Hello"),))
    answering = asyncio.create_task(anext(Direct(lifecycle).answer(ask)))
    others_ran.set()
    await asyncio.sleep(0)
    go.set()

    assert others_ran.is_set()
    await answering


async def test_a_model_with_tools_calls_those_of_the_sites_mcp_server(tmp_path: Path) -> None:
    """A real server of the SDK: the call is made here, its reply read, and the answer is the model's."""
    recorder = AuditRecorder(AuditLog(tmp_path / "audit.jsonl", level="metadata", max_bytes=10**6), "refuse")
    nowhere: Any = None
    egress = Egress(EgressPolicy.of(EgressSettings()), Destinations(nowhere, nowhere, nowhere), recorder)
    client = McpToolServer("", 10.0, server=shelf())
    site = SiteTools([SiteServer("shelf", client)], egress)
    call = '<tool_call>\n{"name": "shelf__find", "arguments": {"question": "quorn fever"}}\n</tool_call>'
    rules = [Rule(NOTE, "Zorbamide."), Rule("quorn fever?", call)]
    card = replace(CARD, trained_for=("chat",))
    engine = ScriptedEngine(card, EngineOptions(max_model_len=500), rules, tokenizer=ByteTokenizer(tools=True))
    lifecycle = EngineLifecycle(card, lambda: engine)
    await lifecycle.load()
    ask = AnswerRequest(request_id="r", messages=(Message("user", "What treats quorn fever?"),), site_tools=("shelf",))
    method = Direct(lifecycle, site)
    method.check(ask)
    events = [event async for event in method.answer(ask)]
    await client.close()
    await engine.close()
    assert shown(events, "answer").strip() == "Zorbamide." and done(events).finish_reason == "stop"
    assert [event.record["text"] for event in events if isinstance(event, CallReplied)] == [NOTE]
