"""The scripted engine beyond the common contract: its rules, its failures, its records."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from models.card import ModelCard
from models.engines.base import EngineOptions
from models.engines.registry import create_engine, resolve_kind
from models.engines.scripted_engine import ByteTokenizer, Rule, Script, ScriptedBehaviour, ScriptedEngine
from models.errors import ENGINE_FULL, EngineUnavailable, ModelError, ModelNotFound, UnsupportedParam
from models.types import GenerateParams

CARD = ModelCard(name="scripted", source="scripted", context_length=4096)


async def started(script: Script, **more: Any) -> ScriptedEngine:
    options = more.pop("options", EngineOptions())
    engine = ScriptedEngine(CARD, options, script, **more)
    await engine.start()
    return engine


async def write(engine: ScriptedEngine, prompt: str, request_id: str = "r", **params: Any) -> str:
    ids = engine.tokenizer.encode(prompt)
    wanted = GenerateParams(**{"max_tokens": 200, **params})
    return "".join([delta.text async for delta in engine.generate(ids, wanted, request_id)])


async def test_first_rule_that_applies_is_written() -> None:
    """A string is compared with the prompt's end, a pattern searched anywhere, in the order given."""
    engine = await started([Rule("LMP10?", "one"), Rule(re.compile("gene"), "two"), Rule("", "three")])

    assert [await write(engine, p) for p in ("symbol of LMP10?", "a gene.", "else")] == ["one", "two", "three"]


async def test_prompt_no_rule_knows_is_an_error() -> None:
    """A gap in a script is shown with the prompt's end."""
    engine = await started([Rule("a", "b")])

    with pytest.raises(UnsupportedParam, match="ending in 'xyz'"):
        await write(engine, "xyz")


async def test_failure_comes_after_so_many_tokens() -> None:
    """The stream breaks in the middle with a typed error and frees its slot."""
    engine = await started(lambda prompt: "abcdef", behaviour=ScriptedBehaviour(fail_after_tokens=3))
    seen = ""
    with pytest.raises(EngineUnavailable):
        async for delta in engine.generate([65], GenerateParams(max_tokens=9), "r"):
            seen += delta.text

    assert seen == "abc"
    assert engine.stats().running == 0


async def test_extra_tokens_put_an_arrow_inside_a_larger_token() -> None:
    """The longest extra token is taken, and its id is what the stream reports."""
    tokenizer = ByteTokenizer(["]->", "->[", "]->["])
    engine = await started(lambda prompt: "x]->[y", tokenizer=tokenizer)
    deltas = [d async for d in engine.generate([65], GenerateParams(max_tokens=9, stop=("]->",)), "r")]

    assert [d.token_ids for d in deltas] == [(ord("x"),), (tokenizer.token_id("]->["),)]
    assert ("".join(d.text for d in deltas), deltas[-1].stop_reason) == ("x", "]->")


async def test_requests_are_recorded_with_what_they_asked_for() -> None:
    """Tests can see each segment's prompt, params and cache hits."""
    engine = await started(lambda prompt: "ok")
    await write(engine, "p" * 70, "one", temperature=0.5)
    await write(engine, "p" * 70, "two")

    assert [(r.request_id, r.params.temperature, r.num_cached_tokens) for r in engine.requests] == [
        ("one", 0.5, 0),
        ("two", 0.0, 64),
    ]


async def test_full_queue_refuses() -> None:
    """More than slots and queue together is refused."""
    engine = await started(lambda prompt: "abc", options=EngineOptions(max_num_seqs=1, max_queue=1))
    results = await asyncio.gather(*(write(engine, "p", f"r{i}") for i in range(3)), return_exceptions=True)

    assert results[:2] == ["abc", "abc"]
    assert isinstance(results[2], ModelError) and ENGINE_FULL.is_of(results[2])


async def test_abort_reaches_a_waiting_request() -> None:
    """A request without a slot ends with abort while the one before it runs on."""
    engine = await started(lambda prompt: "a" * 100, options=EngineOptions(max_num_seqs=1))
    first = engine.generate([65], GenerateParams(max_tokens=100), "first")
    await anext(first)
    waiting = asyncio.ensure_future(anext(engine.generate([65], GenerateParams(max_tokens=100), "second")))
    await asyncio.sleep(0)
    await engine.abort("second")

    assert (await waiting).finish_reason == "abort"
    assert len([delta async for delta in first]) == 99  # one was taken above


def test_chat_roles_are_tokens_of_their_own() -> None:
    """Text that spells a role marker stays text."""
    tokenizer = ByteTokenizer()
    ids = tokenizer.encode_chat([{"role": "user", "content": "<|eos|>"}])

    assert tokenizer.decode(ids) == "<|eos|>"
    assert not set(tokenizer.encode("<|eos|><|user|>")) & set(range(256, tokenizer.vocab_size))


async def test_registry_reads_a_script_from_a_file(tmp_path: Path) -> None:
    """A JSON list of rules makes a scripted engine; anything else is refused with the path."""
    path = tmp_path / "script.json"
    path.write_text(json.dumps([{"suffix": "?", "text": "PSMB10"}, {"regex": "^x", "text": "y"}]))
    engine = create_engine("scripted", ModelCard(name="s", source=str(path)), EngineOptions())
    assert isinstance(engine, ScriptedEngine)
    await engine.start()
    assert [await write(engine, p) for p in ("LMP10?", "x")] == ["PSMB10", "y"]
    path.write_text('[{"text": 1}]')

    with pytest.raises(ModelNotFound, match=r"script\.json"):
        create_engine("scripted", ModelCard(name="s", source=str(path)), EngineOptions())


def test_auto_is_a_real_engine() -> None:
    """auto never means the double, and other kinds mean themselves."""
    assert resolve_kind("auto") in ("vllm", "transformers")
    assert resolve_kind("scripted") == "scripted"
