"""What every engine promises (models/engines/base.py), held against each of them."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import random
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from small_engines import CONTEXT, SHORT_PROMPT, SLOTS, build_engine, remote_engine
from waiting import until

from models.decoding.grammar import forced_call_grammar
from models.engines.base import Engine
from models.engines.scripted_engine import ScriptedEngine
from models.errors import CONTEXT_TOO_LONG, GRAMMAR_INVALID, ModelError, UnsupportedParam
from models.types import Delta, GenerateParams, Grammar

pytestmark = pytest.mark.asyncio(loop_scope="session")

PROMPT = "Question: What is the official gene symbol of LMP10?\n"
THREE_LETTERS = Grammar("regex", "[a-z]{3}")


@pytest.fixture(
    scope="module",
    params=[
        "scripted",
        "transformers",
        "remote",
        pytest.param("vllm", marks=[pytest.mark.vllm, pytest.mark.timeout(900), pytest.mark.xdist_group("vllm")]),
        pytest.param("remote-vllm", marks=[pytest.mark.vllm, pytest.mark.long, pytest.mark.timeout(900)]),
    ],
)
def kind(request: pytest.FixtureRequest) -> str | Engine:
    """The kind of engine to start, or vLLM's, which others use too."""
    if request.param == "remote-vllm" and importlib.util.find_spec("vllm") is None:
        pytest.skip("the vLLM package is not installed")
    found: str | Engine = request.getfixturevalue("adapted") if request.param == "vllm" else request.param
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def engine(kind: str | Engine, tiny_llama: Path) -> AsyncIterator[Engine]:
    if not isinstance(kind, str):
        yield kind
        return
    async with AsyncExitStack() as stack:
        if kind.startswith("remote"):
            engine = await stack.enter_async_context(remote_engine(kind, tiny_llama))
        else:
            engine = build_engine(kind, tiny_llama)
        await engine.start()
        stack.push_async_callback(engine.close)
        yield engine


@dataclass(frozen=True, slots=True)
class Answer:
    """One finished stream."""

    deltas: list[Delta]

    @property
    def text(self) -> str:
        return "".join(delta.text for delta in self.deltas)

    @property
    def ids(self) -> list[int]:
        return [token for delta in self.deltas for token in delta.token_ids]

    @property
    def last(self) -> Delta:
        return self.deltas[-1]


_counter = iter(range(10**9))


async def answer(engine: Engine, prompt: str | list[int], of: str = "", **params: Any) -> Answer:
    """Generate once; ``of`` names the answer that several generations belong to."""
    ids = prompt if isinstance(prompt, list) else engine.tokenizer.encode(prompt)
    wanted = GenerateParams(**{"max_tokens": 40, "ignore_eos": True, **params})
    request_id = f"{of}-s{next(_counter)}" if of else f"contract-{next(_counter)}"
    return Answer([delta async for delta in engine.generate(ids, wanted, request_id)])


def long_prompt(engine: Engine, tag: str, num_tokens: int) -> list[int]:
    """Prompt ids nobody else in this file uses."""
    words = random.Random(tag)
    text = f"{tag} " + " ".join(words.choice(("gene", "SNP", "band", "term")) for _ in range(num_tokens))
    return engine.tokenizer.encode(text)[:num_tokens]


async def wait_until_idle(engine: Engine) -> None:
    await until(lambda: engine.stats().running == engine.stats().waiting == 0)


def stop_inside(text: str) -> str:
    """A stop string of plain characters that first occurs well inside ``text``."""
    for match in re.finditer(r"(?=([!-~][!-~]))", text):
        if match.start() > len(text) // 3:
            return match.group(1)
    raise AssertionError(f"no two plain characters in a row in {text!r}")


async def test_stop_string_ends_the_stream_and_is_named(engine: Engine) -> None:
    """The text ends right before the first stop string, and the last delta names it."""
    free = await answer(engine, PROMPT)
    stop = stop_inside(free.text)
    stopped = await answer(engine, PROMPT, stop=("\x00never\x00", stop))

    assert stopped.text == free.text[: free.text.index(stop)]
    assert (stopped.last.finish_reason, stopped.last.stop_reason) == ("stop", stop)
    assert stopped.ids == free.ids[: len(stopped.ids)]


async def test_text_that_only_looks_like_a_stop_string_is_released(engine: Engine) -> None:
    """Withheld text comes out when the stop string does not complete, also at the very end."""
    free = await answer(engine, PROMPT)
    pieces = [free.text[i : i + 4] for i in range(0, len(free.text) - 4, 3)] + [free.text[-2:]]
    looks_like = tuple(piece + "\x00" for piece in pieces)
    released = await answer(engine, PROMPT, stop=looks_like)

    assert released.text == free.text
    assert released.last.finish_reason == "length"


async def test_ids_and_text_agree(engine: Engine) -> None:
    """All token ids together decode to all text together."""
    got = await answer(engine, PROMPT, max_tokens=100)

    assert engine.tokenizer.decode(got.ids) == got.text


async def test_max_tokens_ends_with_length(engine: Engine) -> None:
    """Exactly max_tokens ids come, and the reason is length."""
    got = await answer(engine, PROMPT, max_tokens=7)

    assert len(got.ids) == 7
    assert (got.last.finish_reason, got.last.stop_reason) == ("length", None)
    assert [delta.finish_reason for delta in got.deltas[:-1]] == [None] * (len(got.deltas) - 1)


async def test_eos_ends_with_stop_and_no_stop_reason(engine: Engine) -> None:
    """EOS is among the ids, has no text, and ends the stream."""
    got = await answer(engine, SHORT_PROMPT, grammar=THREE_LETTERS, ignore_eos=False)

    assert re.fullmatch("[a-z]{3}", got.text)
    assert got.ids[-1] in engine.tokenizer.eos_token_ids
    assert (got.last.finish_reason, got.last.stop_reason) == ("stop", None)


async def test_greedy_is_deterministic(engine: Engine) -> None:
    """The same prompt gives the same tokens, whether its prefix was cached or not."""
    first = await answer(engine, PROMPT, cache_salt="determinism")
    second = await answer(engine, PROMPT, cache_salt="determinism")

    assert first.ids == second.ids


async def test_a_seed_fixes_the_tokens(engine: Engine) -> None:
    """The same seed gives the same tokens, alone and beside other requests."""
    alone = await answer(engine, PROMPT, temperature=1.0, seed=7)
    together = await asyncio.gather(
        *(answer(engine, f"{PROMPT}{i}", temperature=1.0, seed=i) for i in range(3)),
        answer(engine, PROMPT, temperature=1.0, seed=7),
    )

    assert together[-1].ids == alone.ids


async def test_different_seeds_differ(engine: Engine) -> None:
    """Two seeds give two texts."""
    if isinstance(engine, ScriptedEngine):
        pytest.skip("the scripted engine samples nothing, so a seed cannot matter")
    one = await answer(engine, PROMPT, temperature=1.0, seed=1)
    two = await answer(engine, PROMPT, temperature=1.0, seed=2)

    assert one.ids != two.ids


async def test_many_requests_at_once_are_as_good_as_alone(engine: Engine) -> None:
    """Three times as many requests as slots, of different lengths, give what each gives alone."""
    prompts = [PROMPT + "why " * (5 * i) for i in range(3 * SLOTS)]
    alone = [await answer(engine, prompt, max_tokens=10 + i) for i, prompt in enumerate(prompts)]
    together = await asyncio.gather(
        *(answer(engine, prompt, max_tokens=10 + i, cache_salt="together") for i, prompt in enumerate(prompts))
    )

    assert [got.ids for got in together] == [got.ids for got in alone]


async def test_cached_prefix_is_counted_and_not_computed_again(engine: Engine) -> None:
    """The second request with the same prompt computes less than one block and a token of it."""
    prompt = long_prompt(engine, "cached", 4 * engine.block_size + 5)
    first = await answer(engine, prompt, of="cached")
    before = engine.stats().prompt_tokens_computed
    second = await answer(engine, prompt, of="cached")
    computed = engine.stats().prompt_tokens_computed - before

    assert first.last.num_prompt_tokens == second.last.num_prompt_tokens == len(prompt)
    assert first.last.num_cached_tokens < engine.block_size
    assert second.last.num_cached_tokens == 4 * engine.block_size
    assert computed == len(prompt) - second.last.num_cached_tokens
    assert second.ids == first.ids


async def test_resume_computes_the_injected_tokens_and_at_most_one_block(engine: Engine) -> None:
    """Prompt, answer and injected text resubmitted: only what is new is computed."""
    prompt = long_prompt(engine, "resume", 3 * engine.block_size + 9)
    first = await answer(engine, prompt, of="resume", max_tokens=engine.block_size + 3)
    injected = engine.tokenizer.encode("[5699,8138,19171]\n")
    resumed = await answer(engine, [*prompt, *first.ids, *injected], of="resume")

    recomputed = resumed.last.num_prompt_tokens - resumed.last.num_cached_tokens
    assert recomputed <= len(injected) + engine.block_size


async def test_cache_salt_separates_prefixes(engine: Engine) -> None:
    """A prefix cached under one salt is not found under another, nor without one."""
    prompt = long_prompt(engine, "salted", 2 * engine.block_size + 5)
    await answer(engine, prompt, of="salted", cache_salt="one")
    other = await answer(engine, prompt, of="salted", cache_salt="two")
    none = await answer(engine, prompt, of="salted")
    same = await answer(engine, prompt, of="salted", cache_salt="one")

    assert (other.last.num_cached_tokens, none.last.num_cached_tokens) == (0, 0)
    assert same.last.num_cached_tokens == 2 * engine.block_size


async def test_closing_the_iterator_frees_the_slot(engine: Engine) -> None:
    """With every slot taken and then closed, a new request is served and nothing runs on."""
    streams = [
        engine.generate(
            engine.tokenizer.encode(f"{PROMPT}{i}"), GenerateParams(max_tokens=400, ignore_eos=True), f"closed-{i}"
        )
        for i in range(SLOTS)
    ]
    for stream in streams:
        await anext(stream)
    for stream in streams:
        await stream.aclose()  # type: ignore[attr-defined]  # engines return async generators

    await wait_until_idle(engine)
    assert (await answer(engine, PROMPT, max_tokens=3)).last.finish_reason == "length"


async def test_cancelling_the_task_frees_the_slot(engine: Engine) -> None:
    """A cancelled consumer leaves no request behind."""
    tasks = [asyncio.create_task(answer(engine, f"{PROMPT}{i}", max_tokens=400)) for i in range(2 * SLOTS)]
    await asyncio.sleep(0.01)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    await wait_until_idle(engine)


async def test_abort_ends_the_stream(engine: Engine) -> None:
    """abort gives a last delta that says so, and frees the slot."""
    stream = engine.generate(
        engine.tokenizer.encode(PROMPT), GenerateParams(max_tokens=400, ignore_eos=True), "to-abort"
    )
    deltas = [await anext(stream)]
    await engine.abort("to-abort")
    deltas += [delta async for delta in stream]

    assert deltas[-1].finish_reason == "abort"
    assert sum(len(delta.token_ids) for delta in deltas) < 400
    await wait_until_idle(engine)


async def test_abort_of_an_unknown_request_does_nothing(engine: Engine) -> None:
    """Aborting twice or by a wrong id is no error."""
    await engine.abort("nobody")

    assert engine.is_ready()


async def test_prompt_without_room_is_refused(engine: Engine) -> None:
    """A prompt as long as the context raises ModelError."""
    prompt = long_prompt(engine, "full", CONTEXT)
    assert len(prompt) == engine.max_model_len

    with pytest.raises(ModelError, check=CONTEXT_TOO_LONG.is_of):
        await answer(engine, prompt)


async def test_the_contexts_end_gives_length(engine: Engine) -> None:
    """Five tokens of room give five tokens, whatever max_tokens says."""
    got = await answer(engine, long_prompt(engine, "almost", CONTEXT - 5), max_tokens=100)

    assert len(got.ids) == 5
    assert got.last.finish_reason == "length"


@pytest.mark.parametrize("wanted", [0, 3])
async def test_logprobs_come_with_every_token(engine: Engine, wanted: int) -> None:
    """One entry per token, none above zero, alternatives best first, the greedy choice among the best."""
    got = await answer(engine, PROMPT, logprobs=wanted)

    for delta in got.deltas:
        entries = delta.logprobs or ()
        assert [entry.token_id for entry in entries] == list(delta.token_ids)
        for entry in entries:
            values = [value for _, value in entry.top]
            assert entry.logprob <= 0
            assert len(values) <= wanted
            assert values == sorted(values, reverse=True)
            assert wanted == 0 or values[0] == pytest.approx(entry.logprob, abs=1e-4)


async def test_no_logprobs_unless_asked(engine: Engine) -> None:
    """Logprobs are None by default."""
    assert all(delta.logprobs is None for delta in (await answer(engine, PROMPT, max_tokens=3)).deltas)


async def test_regex_grammar_is_obeyed(engine: Engine) -> None:
    """Twenty sampled texts of a random model all match the regex."""
    if isinstance(engine, ScriptedEngine):
        pytest.skip("the scripted engine writes its script; it has no logits to mask")
    pattern = r"(rs[0-9]{1,5}|chr([1-9]|1[0-9]|X):[0-9]{2,6})"
    got = await asyncio.gather(
        *(
            answer(engine, PROMPT, grammar=Grammar("regex", pattern), temperature=1.0, seed=i, ignore_eos=False)
            for i in range(20)
        )
    )

    assert [text for text in (g.text for g in got) if not re.fullmatch(pattern, text)] == []


async def test_structural_tag_can_end_in_one_whole_token(engine: Engine) -> None:
    """With the arrow's token id as the tag's end, a call ends in exactly that token."""
    if isinstance(engine, ScriptedEngine):
        pytest.skip("the scripted engine writes its script; it has no logits to mask")
    arrow = engine.tokenizer.token_id("]->")
    tag = {
        "type": "tag",
        "begin": "[https://",
        "content": {"type": "regex", "pattern": "[a-z]{3,8}"},
        "end": {"type": "token", "token": arrow},
    }
    grammar = Grammar("structural_tag", json.dumps({"type": "structural_tag", "format": tag}))
    for seed in range(5):
        got = await answer(engine, PROMPT, grammar=grammar, temperature=1.0, seed=seed, stop=("]->",))
        assert re.fullmatch(r"\[https://[a-z]{3,8}", got.text)
        assert got.ids[-1] == arrow
        assert got.last.stop_reason == "]->"


FORCED_CALL = r"https://eutils\.ncbi\.nlm\.nih\.gov/entrez/eutils/esearch\.fcgi\?db=(gene|snp)&retmax=5&term=[A-Z]{3}"


async def test_text_without_a_choice_keeps_limits_stop_strings_and_ids(engine: Engine) -> None:
    """An engine may append what a grammar forces without decoding it; limits and stop strings hold inside of it."""
    if isinstance(engine, ScriptedEngine):
        pytest.skip("the scripted engine writes its script; it has no logits to mask")
    grammar = forced_call_grammar(FORCED_CALL, engine.tokenizer)
    whole = await answer(engine, PROMPT, grammar=grammar, stop=("]->",), max_tokens=200)
    assert re.fullmatch(rf"\[{FORCED_CALL}", whole.text)
    assert engine.tokenizer.decode(whole.ids).startswith(whole.text)
    for most in (2, 9, 17):
        cut = await answer(engine, PROMPT, grammar=grammar, max_tokens=most)
        assert (cut.ids, cut.last.finish_reason) == (whole.ids[:most], "length")
    stopped = await answer(engine, PROMPT, grammar=grammar, stop=(".nih.", "]->"), max_tokens=200)
    assert (stopped.text, stopped.last.stop_reason) == ("[https://eutils.ncbi.nlm", ".nih.")
    reported = await answer(engine, PROMPT, grammar=grammar, stop=("]->",), max_tokens=200, logprobs=0)
    assert [one.token_id for delta in reported.deltas for one in delta.logprobs or ()] == reported.ids


async def test_broken_grammar_is_refused(engine: Engine) -> None:
    """A regex that does not compile raises ModelError; the engine lives on."""
    if isinstance(engine, ScriptedEngine):
        pytest.skip("the scripted engine compiles no grammars")
    for broken in (Grammar("regex", "(unclosed"), Grammar("lark", 'start: "unclosed')):
        with pytest.raises(ModelError, check=GRAMMAR_INVALID.is_of):
            await answer(engine, PROMPT, grammar=broken)

    assert (await answer(engine, PROMPT, max_tokens=2)).ids


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_tokens", 0), ("temperature", -1.0), ("top_p", 0.0), ("top_k", -2), ("logprobs", 1000), ("stop", ("",))],
)
async def test_impossible_parameter_is_named(engine: Engine, name: str, value: object) -> None:
    """A parameter out of range raises UnsupportedParam with its name."""
    with pytest.raises(UnsupportedParam) as caught:
        await answer(engine, PROMPT, **{name: value})  # type: ignore[arg-type]  # one of several names

    assert caught.value.param == name


async def test_empty_prompt_is_refused(engine: Engine) -> None:
    """There is nothing to continue without one token."""
    with pytest.raises(UnsupportedParam):
        await answer(engine, [])


async def test_one_request_id_runs_once_at_a_time(engine: Engine) -> None:
    """A second request with a running id is refused; afterwards the id is free again."""
    ids, params = engine.tokenizer.encode(PROMPT), GenerateParams(max_tokens=100, ignore_eos=True)
    stream = engine.generate(ids, params, "twice")
    await anext(stream)
    with pytest.raises(UnsupportedParam):
        await anext(engine.generate(ids, params, "twice"))
    await stream.aclose()  # type: ignore[attr-defined]  # engines return async generators

    assert [delta async for delta in engine.generate(ids, params, "twice")][-1].finish_reason == "length"
