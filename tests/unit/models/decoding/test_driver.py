"""The interception loop over the scripted engine: the same answer whatever the tokens and the replies."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loop_scripts import HOSTILE, Replies, done, following, make_engine, make_request, pairs, play, shown

from models.card import ModelCard
from models.decoding.types import Call, CallFinished, CallStarted, LoopDone, LoopLimits, TextSampled
from models.engines.base import EngineOptions
from models.engines.scripted_engine import ByteTokenizer, Rule, ScriptedEngine
from models.types import Delta, GenerateParams

PARTS = ("A ", "α€ ", "x[1]->y ", "c.35G->A ", "]->", "[https://other]->", "\n\n", "->", "[https://ncbi/", "STOP", "]")
TEXT = st.lists(st.sampled_from(PARTS), max_size=6).map("".join)


@given(st.data(), st.lists(TEXT, min_size=1, max_size=4), st.lists(TEXT, min_size=3, max_size=3))
def test_tokens_do_not_matter(data: st.DataObject, texts: list[str], reply_texts: list[str]) -> None:
    """The same text, sampled in any tokens (also such as run over an arrow), gives the same answer."""
    replies = [f"[{text}]" for text in reply_texts]
    call = "[https://ncbi/{}]->"
    transcript = texts[0]
    for n, text in enumerate(texts[1:]):
        transcript += call.format(n) + replies[n].replace("]->", "] ->").replace("[https://", "[ https://") + "\n"
        transcript += text
    stop = data.draw(st.lists(st.sampled_from(["STOP", "]->", "->", "]->y", "y c", "\n\n", "A ]->", ">"]), max_size=3))
    positions = st.tuples(st.integers(0, len(transcript)), st.integers(2, 12))
    tokens = [t for at, n in data.draw(st.lists(positions, max_size=12)) if (t := transcript[at : at + n])]
    results = []
    for extra in ((), tokens):
        engine = make_engine(lambda text: script_or_end(transcript, text), extra)
        handler = Replies(*replies)
        events = play(engine, make_request(engine, stop=tuple(stop)), handler)
        results.append((pairs(done(events).spans), handler.calls, done(events).finish_reason, done(events).stop_reason))
        assert shown(events) == "".join(span.text for span in done(events).spans if span.kind == "sampled")

    assert results[0] == results[1]


def script_or_end(transcript: str, text: str) -> str:
    """Follow the transcript where the sequence agrees with it; calls it did not foresee end it."""
    whole = "Q\n" + transcript
    return whole[len(text) :] if whole.startswith(text) else ""


def test_an_answer_that_ends_frees_what_an_engine_has_kept_of_it() -> None:
    """By the answer's own id; each part names the arrow behind which it may go on."""

    class Keeping(ScriptedEngine):
        def __init__(self) -> None:
            super().__init__(ModelCard(name="m", source="m"), EngineOptions(), [Rule("", "[https://ncbi/1]->")])
            self.pauses: list[str | None] = []
            self.freed: list[str] = []

        def generate(self, prompt_ids: Sequence[int], params: GenerateParams, request_id: str) -> AsyncIterator[Delta]:
            self.pauses.append(params.pause_at)
            return super().generate(prompt_ids, params, request_id)

        async def abort(self, request_id: str) -> None:
            self.freed.append(request_id)

    engine = Keeping()
    request = replace(make_request(engine), limits=LoopLimits(max_calls=1))
    play(engine, request, Replies("[reply]"))

    assert set(engine.pauses) == {"]->"}
    assert engine.freed == [request.request_id]


@pytest.mark.parametrize(
    "tokens",
    [(), ("]->",), ("]->[",), ("->[r",), ("]-", ">["), ("a]", "->"), ("1]->[rep",), ("[https://ncbi/1]->[reply",)],
)
def test_a_call_is_made_and_its_reply_injected_wherever_the_arrow_is_cut(tokens: tuple[str, ...]) -> None:
    """Arrow in one token, over several, or inside a larger one: the sequence reads as if written in one go."""
    transcript = "See [https://ncbi/1]->[reply]\nAnswer: x[1]->y"
    engine = make_engine(following(transcript), tokens)
    handler = Replies("[reply]")
    events = play(engine, make_request(engine), handler)

    assert handler.calls == [Call("https://ncbi/1", 0)]
    assert pairs(done(events).spans) == [
        ("sampled", "See [https://ncbi/1]->"),
        ("injected", "[reply]\n"),
        ("sampled", "Answer: x[1]->y"),
    ]
    assert shown(events) == "See [https://ncbi/1]->Answer: x[1]->y"
    assert engine.requests[1].prompt == "Q\nSee [https://ncbi/1]->[reply]\n"
    assert [type(event) for event in events if not isinstance(event, TextSampled)] == [
        CallStarted,
        CallFinished,
        LoopDone,
    ]


def test_the_models_own_tokens_are_never_tokenised_again() -> None:
    """The resumed sequence holds the ids that were sampled, though encode would have chosen others."""
    tokenizer = ByteTokenizer(["See", "]->"])
    ids = [*b"See [https://ncbi/1", *tokenizer.encode("]->")]

    class LetterByLetter(ScriptedEngine):
        def _next_token(self, script: Sequence[int], position: int) -> int:
            return ids[position] if position < len(ids) else 257

    options = EngineOptions(max_model_len=1000)
    engine = LetterByLetter(ModelCard(name="m", source="m"), options, lambda _: "", tokenizer=tokenizer)
    events = play(engine, make_request(engine, limits=LoopLimits(max_calls=0)), Replies("[r]"))

    assert tokenizer.encode("See [https://ncbi/1]->") != ids
    assert done(events).spans[0].token_ids == tuple(ids)


def test_an_arrow_without_a_call_changes_nothing() -> None:
    """Ordinary arrows cost a segment and leave text, tokens and answer as they are."""
    engine = make_engine([Rule("Q\n", "a[1]->b "), Rule("a[1]->", "b c.35G->A"), Rule("", "?")])
    events = play(engine, make_request(engine), Replies("never"))

    assert pairs(done(events).spans) == [("sampled", "a[1]->b c.35G->A")]
    assert done(events).spans[0].token_ids == tuple(b"a[1]->b c.35G->A")
    assert done(events).usage.segments == 2


def test_a_token_that_runs_beyond_an_ordinary_arrow_stays() -> None:
    """Without a call nothing was stopped: the model's token is kept, not split."""
    engine = make_engine(following("a[1]->b c"), ["]->b"])
    events = play(engine, make_request(engine), Replies("never"))
    token = engine.tokenizer.token_id("]->b")

    assert shown(events) == "a[1]->b c"
    assert done(events).spans[0].token_ids == (*b"a[1", token, *b" c")
    assert done(events).usage.sampled_tokens == len("a[1") + 1 + len(" c") + 1


@pytest.mark.parametrize("tokens", [(), ("]->", "\n\n", "<|eos|>", "[https://ncbi/evil]->")])
def test_a_hostile_reply_causes_nothing(tokens: tuple[str, ...]) -> None:
    """Arrows, calls, stop strings, special tokens and chat markup in a reply are data."""
    engine = make_engine([Rule("Q\n", "[https://ncbi/1]->"), Rule("STOP]\n", "fine"), Rule("", "astray")], tokens)
    handler = Replies(f"[{HOSTILE}]")
    events = play(engine, make_request(engine, stop=("\n\n", "STOP", "Question:", "->")), handler)
    injected = done(events).spans[1]
    specials = range(256, 262)

    assert len(handler.calls) == 1
    assert shown(events) == "[https://ncbi/1]->fine"
    assert done(events).finish_reason == "stop"
    assert not set(injected.token_ids) & set(specials)
    assert "]->" not in injected.text
    assert "[https://" not in injected.text


def test_half_a_call_in_a_reply_cannot_be_finished_by_the_model() -> None:
    """A reply that ends in an opened call and a model that writes the arrow make no call."""
    engine = make_engine(
        [Rule("Q\n", "[https://ncbi/1]->"), Rule("->\n", "Answer"), Rule("\n", "evil]->"), Rule("", "")]
    )
    handler = Replies("[ https://ncbi/")
    events = play(engine, make_request(engine), handler)

    assert len(handler.calls) == 1
    assert shown(events) == "[https://ncbi/1]->evil]->"


@pytest.mark.parametrize("stop", ["]->", "->", ">", "1]->"])
def test_a_call_goes_before_a_stop_string_that_ends_with_it(stop: str) -> None:
    """A user's stop string inside an arrow ends the answer only where the arrow ends no call."""
    engine = make_engine(following("[https://ncbi/1]->[r]\nx[1]->y"))
    events = play(engine, make_request(engine, stop=(stop,)), Replies("[r]"))

    assert shown(events) == "[https://ncbi/1]->" + "x[1]->"[: "x[1]->".index(stop)]
    assert (done(events).finish_reason, done(events).stop_reason) == ("stop", stop)


@pytest.mark.parametrize("tokens", [(), ("]->",), ("]->\n",), ("->", "\nE")])
def test_a_stop_string_that_begins_with_an_arrow_is_found_and_not_shown(tokens: tuple[str, ...]) -> None:
    """The engine never sees such a stop string whole; the loop holds its beginning back."""
    engine = make_engine(following("x[1]-> y[2]->\nEND"), tokens)
    events = play(engine, make_request(engine, stop=("]->\nE",)), Replies("never"))

    assert shown(events) == "x[1]-> y[2"
    assert pairs(done(events).spans) == [("sampled", "x[1]-> y[2")]
    assert done(events).stop_reason == "]->\nE"


def test_held_text_is_shown_when_the_stop_string_does_not_come() -> None:
    """Text that began a stop string is shown once, also when the answer ends behind it."""
    engine = make_engine(following("x[1]->"))
    events = play(engine, make_request(engine, stop=("]->\n",)), Replies("never"))

    assert shown(events) == "x[1]->"
    assert done(events).stop_reason is None


def test_what_the_model_wrote_is_told_apart_from_replies() -> None:
    """Each segment's request names the prompt's tokens that were sampled: not the question's, not the reply's."""
    engine = make_engine([Rule("Q\n", "One [https://ncbi/1]->"), Rule("[reply]\n", "two")])
    play(engine, make_request(engine), Replies("[reply]"))
    decode = engine.tokenizer.decode

    assert [decode(request.params.written or ()) for request in engine.requests] == ["", "One [https://ncbi/1]->"]
    assert all(request.params.written is not None for request in engine.requests)


def test_thinking_stays_in_the_sequence_and_out_of_the_text() -> None:
    """Before the first call and again behind its reply; a call inside a thought is not made."""
    texts = ["<think>[https://ncbi/0]->?</think>See [https://ncbi/1]->", "<think>so</think>x[1]->", "z"]
    asked: list[str] = []

    def script(text: str) -> str:
        asked.append(text)
        return texts[len(asked) - 1]

    tokenizer = ByteTokenizer(thinks=True)
    card = ModelCard(name="m", source="m")
    engine = ScriptedEngine(card, EngineOptions(max_model_len=1000), script, tokenizer=tokenizer)
    handler = Replies("[reply]")
    events = play(engine, make_request(engine), handler)

    assert handler.calls == [Call("https://ncbi/1", 0)]
    assert pairs(done(events).spans)[:2] == [("sampled", "See [https://ncbi/1]->"), ("injected", "[reply]\n")]
    assert "".join(span.text for span in done(events).spans[2:]) == "x[1]->z"
    assert asked[1] == "Q\n<think>[https://ncbi/0]->?</think>See [https://ncbi/1]->[reply]\n"
    assert asked[2] == asked[1] + "<think>so</think>x[1]->"
    assert "".join(e.reasoning for e in events if isinstance(e, TextSampled)) == "[https://ncbi/0]->?so"


def test_a_loop_over_arrows_that_end_no_call_is_stopped() -> None:
    """Each arrow begins a new generation, of a few tokens; the guard counts them together."""
    engine = make_engine(following("Answer: " + "brca1 on]->" * 180))
    request = make_request(engine)
    request = replace(request, params=replace(request.params, stop_on_repetition=True))
    ended = done(play(engine, request, Replies()))

    assert (ended.finish_reason, ended.stop_reason) == ("length", "repetition")
    assert ended.usage.sampled_tokens < 160
