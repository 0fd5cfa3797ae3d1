"""Chats, stops, log-probabilities and forced calls of six families of models, on both real engines."""

from __future__ import annotations

import importlib.util
import json
import re
import runpy
from collections.abc import AsyncIterator, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from models.catalog import ModelRequest, card_from_request
from models.decoding.call_loop import LoopRequest
from models.decoding.driver import run
from models.decoding.grammar import forced_call_grammar
from models.decoding.types import Call, CallFinished, CallReply, CallSyntax, LoopDone, LoopLimits
from models.engines.base import Engine, EngineOptions, LayerCall, ServesOpenAi
from models.engines.registry import create_engine
from models.types import Delta, GenerateParams, Grammar
from server.methods.base import uses_chat_template

FAMILIES = runpy.run_path(str(Path(__file__).parents[1] / "family_models.py"))
NAMES = tuple(FAMILIES["FAMILIES"])
CALLS = r"https://eutils\.ncbi\.nlm\.nih\.gov/entrez/eutils/esearch\.fcgi\?db=(gene|snp)&term=[A-Za-z0-9+]{1,12}"
SYNTAX = CallSyntax("[https://", "]->", lambda text: re.fullmatch(CALLS, text) is not None)
CHAT = [
    {"role": "user", "content": "What is the gene?"},
    {"role": "assistant", "content": "PSMB10"},
    {"role": "user", "content": "Thanks,\n\nand which one is it?"},
]
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]


@dataclass(frozen=True)
class Served:
    """One family, as an engine serves it."""

    family: Any
    engine: Engine
    fast: Any
    thinks: bool


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    # Names of the hub, which do not say whether a model chats.
    return {name: tmp_path_factory.mktemp("families") / f"Open{name}-8B" for name in NAMES}


@pytest_asyncio.fixture(
    scope="module",
    loop_scope="module",
    params=[
        *(("transformers", name) for name in NAMES),
        # Each is a start of half a minute, and what differs is the tokenizer, which the transformers engine shows too.
        *(pytest.param(("vllm", name), marks=[pytest.mark.vllm, pytest.mark.long]) for name in NAMES),
    ],
    ids=lambda pair: "-".join(pair),
)
async def served(request: pytest.FixtureRequest, folders: dict[str, Path]) -> AsyncIterator[Served]:
    """One engine after another: each has its family's tests before the next one starts."""
    kind, name = request.param
    if kind == "vllm" and importlib.util.find_spec("vllm") is None:
        pytest.skip("the vLLM package is not installed")
    family, folder = FAMILIES["FAMILIES"][name], folders[name]
    if not folder.exists():
        FAMILIES["build_model"](family, folder)
    options = EngineOptions(dtype="float32", device="cpu", max_num_seqs=4, kv_cache_bytes=64 * 2**20)
    card = card_from_request(ModelRequest(source=str(folder)))
    engine = create_engine(kind, card, options)
    await engine.start()
    fast = getattr(engine.tokenizer, "fast")  # noqa: B009 -- of both real engines, not of the contract
    yield Served(family, engine, fast, uses_chat_template(engine, card))
    await engine.close()


async def written(engine: Engine, ids: list[int], **params: Any) -> list[Delta]:
    given = GenerateParams(**{"max_tokens": 12, **params})
    return [delta async for delta in engine.generate(ids, given, "family")]


def tokens(deltas: list[Delta]) -> list[int]:
    return [token for delta in deltas for token in delta.token_ids]


async def test_it_chats_with_its_own_tokens(served: Served) -> None:
    """By its tokenizer and not by its name; the prompt is what transformers makes of the chat."""
    tokenizer = served.engine.tokenizer
    assert served.thinks
    ids = tokenizer.encode_chat(CHAT)
    assert ids == served.fast.apply_chat_template(CHAT, add_generation_prompt=True, return_dict=False)
    system = tokenizer.encode_chat([{"role": "system", "content": "Be short."}, *CHAT])
    assert "Be short." in tokenizer.decode(system)
    deltas = await written(served.engine, ids, ignore_eos=True)

    assert len(tokens(deltas)) == 12
    assert deltas[-1].finish_reason == "length"
    assert (deltas[-1].num_prompt_tokens, "".join(d.reasoning for d in deltas)) == (len(ids), "")
    whole = tokenizer.decode(tokens(deltas))
    # Bytes that are no text may be cut up in another way.
    assert "".join(delta.text for delta in deltas) == whole or "\ufffd" in whole


async def test_every_end_token_ends_it(served: Served) -> None:
    """Those of config.json, of generation_config.json and of the template, sampled evenly, each end it without text."""
    tokenizer, family = served.engine.tokenizer, served.family
    ends = {served.fast.convert_tokens_to_ids(token) for token in family.ends}
    assert tokenizer.eos_token_ids == ends
    prompt, seen, seed = tokenizer.encode_chat(CHAT), set[int](), 0
    while seen != ends and seed < 40:
        # Behind the letter a grammar allows end tokens alone.
        deltas = await written(
            served.engine, prompt, grammar=Grammar("regex", "x"), temperature=2.0, seed=seed, max_tokens=4
        )
        seed += 1
        seen.add(tokens(deltas)[-1])

        assert "".join(delta.text for delta in deltas) == "x"
        assert deltas[-1].finish_reason == "stop"
    assert seen == ends


async def test_an_end_token_ends_free_text(served: Served) -> None:
    """Sampled evenly from the vocabulary, a text goes on up to the first end token and no further."""
    prompt, ends = served.engine.tokenizer.encode_chat(CHAT), served.engine.tokenizer.eos_token_ids
    for seed in range(3):
        deltas = await written(served.engine, prompt, temperature=2.0, seed=seed, max_tokens=60)
        *before, last = tokens(deltas)

        assert ends.isdisjoint(before)
        assert deltas[-1].finish_reason == ("stop" if last in ends else "length")


async def test_stop_strings_and_grammars_end_it(served: Served) -> None:
    """Three letters under a grammar, cut at the second by a stop string."""
    prompt = served.engine.tokenizer.encode_chat(CHAT)
    whole = await written(served.engine, prompt, grammar=Grammar("regex", "xyz"))
    cut = await written(served.engine, prompt, grammar=Grammar("regex", "xyz"), stop=("y",))

    assert "".join(delta.text for delta in whole) == "xyz"
    assert tokens(whole)[-1] in served.engine.tokenizer.eos_token_ids
    assert "".join(delta.text for delta in cut) == "x"
    assert (cut[-1].finish_reason, cut[-1].stop_reason) == ("stop", "y")


async def test_it_reports_logprobs(served: Served) -> None:
    """One entry for each token, the greedy one as likely as the likeliest of up to three, none above certainty."""
    prompt = served.engine.tokenizer.encode_chat(CHAT)
    deltas = await written(served.engine, prompt, logprobs=3, ignore_eos=True)
    found = [entry for delta in deltas for entry in delta.logprobs or ()]

    assert [entry.token_id for entry in found] == tokens(deltas)
    for entry in found:
        # vLLM ranks padding ids of a random model too, which are then left out.
        assert 1 <= len(entry.top) <= 3
        # Of two equally likely ones either may come first.
        assert 0 >= entry.logprob >= entry.top[0][1] - 1e-6


async def test_a_forced_call_is_made_and_its_reply_is_text(served: Served) -> None:
    """The call, the reply with every control token spelt in it, and another call, which is one too many."""
    engine, hostile = served.engine, " ".join((*served.family.special, *served.family.added)).replace("\n", " ")
    calls: list[str] = []

    async def reply_to(call: Call) -> CallReply:
        calls.append(call.text)
        return CallReply(f"[5699 {hostile}]", "ok")

    request = LoopRequest(
        prompt_ids=tuple(engine.tokenizer.encode_chat(CHAT)),
        params=GenerateParams(max_tokens=250, grammar=forced_call_grammar(CALLS, engine.tokenizer)),
        syntax=SYNTAX,
        request_id="forced",
        limits=LoopLimits(max_calls=1),
    )
    events = [event async for event in run(engine, request, reply_to)]
    done = events[-1]
    assert isinstance(done, LoopDone)
    injected = [token for span in done.spans if span.kind == "injected" for token in span.token_ids]
    words = [token for token in (*served.family.special, *served.family.added) if token.strip("▁\n")]
    markup = {served.fast.convert_tokens_to_ids(word) for word in words if "sup" not in word}

    assert len(calls) == 1
    assert re.fullmatch(CALLS, calls[0])
    assert sum(isinstance(event, CallFinished) for event in events) == 2
    assert injected
    assert markup.isdisjoint(injected)


async def test_thinking_is_not_the_answer(served: Served) -> None:
    """A thought that the prompt opens and the length cuts is reasoning alone; only Qwen 3 has such tokens here."""
    thinking = served.engine.tokenizer.thinking
    assert (thinking is not None) == (served.family.name == "qwen3")
    if thinking is None:
        return
    prompt = [*served.engine.tokenizer.encode_chat(CHAT), thinking.start]
    deltas = await written(served.engine, prompt, ignore_eos=True)
    sampled = tokens(deltas)
    thought = sampled[: sampled.index(thinking.end)] if thinking.end in sampled else sampled

    assert "".join(delta.reasoning for delta in deltas) == served.engine.tokenizer.decode(thought).lstrip("\n")
    assert thinking.end in sampled or "".join(delta.text for delta in deltas) == ""


async def test_vllms_own_layer_keeps_markup_apart_too(served: Served) -> None:
    """The plain model on vLLM: the prompt of a chat is ours, what it spells is text, and thoughts are no answer."""
    if not isinstance(served.engine, ServesOpenAi):
        return
    tokenizer = served.engine.tokenizer
    hostile = [*CHAT[:-1], {"role": "user", "content": " ".join(served.family.special)}]
    body = {"model": served.engine.name, "messages": hostile, "max_tokens": 4, "temperature": 0, "ignore_eos": True}
    reply = await posted(served.engine, body | {"return_token_ids": True})
    assert "choices" in reply, reply
    message = reply["choices"][0]["message"]

    assert reply["prompt_token_ids"] == tokenizer.encode_chat(hostile)
    if served.family.name == "qwen3":
        assert not message["content"]
        assert message["reasoning"]
    else:
        assert message["content"] is not None


async def posted(engine: ServesOpenAi, body: dict[str, Any]) -> Any:
    layer, sent = await engine.openai_layer(), bytearray()

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.extend(message.get("body", b""))

    headers = ((b"content-type", b"application/json"),)
    await layer(LayerCall("/v1/chat/completions", body, headers), send)
    return json.loads(sent)
