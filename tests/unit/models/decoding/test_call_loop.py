"""The pure loop, told what engines may tell it: decisions without any I/O."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from models.decoding.call_loop import CallLoop, Fetch, Finish, Generate, LoopRequest, Segment
from models.decoding.types import Call, CallReply, CallStatus, CallSyntax, LoopLimits
from models.engines.scripted_engine import ByteTokenizer
from models.types import GenerateParams

SYNTAX = CallSyntax("[https://", "]->", lambda text: text.startswith("https://ncbi/"))
TOKENIZER = ByteTokenizer(["]->"])


class HalfCharacters(ByteTokenizer):
    """One token, 300, spells an arrow and the first byte of a two-byte character."""

    def decode(self, token_ids: Sequence[int]) -> str:
        raw = b"".join(b"]->\xce" if i == 300 else bytes([i]) for i in token_ids)
        return raw.decode("utf-8", errors="replace")


def start(*stop: str, tokenizer: ByteTokenizer = TOKENIZER, limits: LoopLimits | None = None) -> CallLoop:
    request = LoopRequest(
        prompt_ids=tuple(b"Q\n"),
        params=GenerateParams(max_tokens=100, stop=stop),
        syntax=SYNTAX,
        request_id="r",
        limits=limits or LoopLimits(),
    )
    loop = CallLoop(request, tokenizer, 1000)
    loop.begin()
    return loop


def stopped(text: str, stop: str, token_ids: Sequence[int] | None = None) -> Segment:
    ids = TOKENIZER.encode(text + stop) if token_ids is None else token_ids
    return Segment(text=text, token_ids=tuple(ids), finish_reason="stop", stop_reason=stop)


def written(action: object) -> bytes:
    """What the model wrote so far, as the next generation's prompt has it."""
    assert isinstance(action, Generate)
    return TOKENIZER.decode(action.prompt_ids).encode()[2:]


@pytest.mark.parametrize("stop", ["]->", "->", "]->\n", "1]->"])
def test_any_stop_that_completes_a_call_makes_it(stop: str) -> None:
    """Engines differ in which of several stop strings they name; the call is found and ends at its arrow."""
    whole = "[https://ncbi/1]->\n"
    text = whole[: whole.index(stop)]
    action = start(stop).on_segment(stopped(text, stop), 0.0)

    assert isinstance(action, Fetch)
    assert (action.call, action.emit) == (Call("https://ncbi/1", 0), "[https://ncbi/1]->")


@pytest.mark.parametrize("token_ids", [b"[https://ncbi/1", b"[https://ncbi/1]", b""])
def test_an_engine_that_trims_the_stops_tokens_loses_nothing(token_ids: bytes) -> None:
    """Text that no id spells is tokenised with the reply."""
    loop = start()
    loop.on_segment(stopped("[https://ncbi/1", "]->", list(token_ids)), 0.0)
    resumed = loop.on_reply(CallReply("[r]", "ok"), 0.0)

    assert written(resumed.then) == b"[https://ncbi/1]->[r]\n"


@pytest.mark.parametrize(
    ("token", "stop", "shown", "prompt"),
    [
        ("]->y", "STOP", "x]->y", b"x]->y"),
        ("]->STOP", "STOP", "x]->", b"x]->"),
        ("]->ST", "STOP", "x]->", b"x]->ST"),
        ("]->]->", "STOP", "x]->", b"x]->"),
    ],
)
def test_what_runs_beyond_an_ordinary_arrow_is_kept_unless_it_needs_a_look(
    token: str, stop: str, shown: str, prompt: bytes
) -> None:
    """A stop string or a further arrow inside the overshoot is left to be sampled, and found, again."""
    tokenizer = ByteTokenizer(["]->", token])
    loop = start(stop, tokenizer=tokenizer)
    action = loop.on_segment(stopped("x", "]->", tokenizer.encode("x" + token)), 0.0)

    assert isinstance(action, Generate)
    assert (action.emit, tokenizer.decode(action.prompt_ids).encode()[2:]) == (shown, prompt)


def test_a_call_may_begin_in_what_runs_beyond_an_ordinary_arrow() -> None:
    """The opener stands in the same token as the arrow before it."""
    tokenizer = ByteTokenizer(["]->[https://"])
    loop = start(tokenizer=tokenizer)
    loop.on_segment(stopped("x", "]->", tokenizer.encode("x]->[https://")), 0.0)
    action = loop.on_segment(stopped("ncbi/1", "]->"), 0.0)

    assert isinstance(action, Fetch)
    assert action.call.text == "https://ncbi/1"


def test_half_a_character_beyond_an_arrow_is_sampled_again() -> None:
    """Text is shown only where it is whole."""
    action = start(tokenizer=HalfCharacters()).on_segment(stopped("x", "]->", [ord("x"), 300]), 0.0)

    assert isinstance(action, Generate)
    assert action.emit == "x]->"
    assert action.prompt_ids == tuple(b"Q\nx]->")


@pytest.mark.parametrize("reason", [7, None])
def test_an_end_token_ends_the_answer(reason: int | None) -> None:
    """A stop without a stop string is the model's own end, whatever stands before it."""
    segment = Segment(text="x]", token_ids=tuple(b"x]"), finish_reason="stop", stop_reason=reason)
    action = start("x").on_segment(segment, 0.0)

    assert isinstance(action, Finish)
    assert (action.done.finish_reason, action.done.stop_reason, action.emit) == ("stop", reason, "x]")


def test_an_aborted_generation_keeps_its_text() -> None:
    """Abort from outside ends the answer as such."""
    action = start().on_segment(Segment(text="ab", token_ids=tuple(b"ab"), finish_reason="abort", num_streamed=1), 0.0)

    assert isinstance(action, Finish)
    assert (action.done.finish_reason, action.emit, action.done.spans[0].text) == ("abort", "b", "ab")


def test_no_call_is_made_and_nothing_resumed_when_the_time_is_up() -> None:
    """Total time is checked before a call and before a resume; a reply that came stays in the record."""
    limits = LoopLimits(total_timeout_s=10)
    call = stopped("[https://ncbi/1", "]->")
    before_call = start(limits=limits).on_segment(call, 10.0)
    loop = start(limits=limits)
    loop.on_segment(call, 9.0)
    after_reply = loop.on_reply(CallReply("[r]", "ok"), 10.0).then

    assert isinstance(before_call, Finish)
    assert (before_call.done.finish_reason, before_call.emit) == ("timeout", "[https://ncbi/1]->")
    assert isinstance(after_reply, Finish)
    assert after_reply.done.finish_reason == "timeout"
    assert [span.text for span in after_reply.done.spans] == ["[https://ncbi/1]->", "[r]\n"]


def test_held_text_is_shown_when_the_answer_ends_instead() -> None:
    """Whatever ends the answer behind a half stop string, its text is not lost."""
    loop = start("]->\n", limits=LoopLimits(total_timeout_s=10))
    withheld = loop.on_segment(stopped("x", "]->"), 0.0)
    assert isinstance(withheld, Generate)
    assert (withheld.emit, withheld.withheld) == ("x", "]->")

    ended = loop.on_segment(Segment(text="", token_ids=(257,), finish_reason="stop"), 0.0)
    late = start("]->\n", limits=LoopLimits(total_timeout_s=10)).on_segment(stopped("x", "]->"), 10.0)

    assert isinstance(ended, Finish)
    assert isinstance(late, Finish)
    assert (ended.emit, late.emit) == ("]->", "x]->")
    assert ended.done.spans[0].text == late.done.spans[0].text == "x]->"


def test_the_ending_of_a_stop_string_counts_only_where_it_continues_one() -> None:
    """The engine is given the ending as a stop; elsewhere than behind the arrow it is ordinary text."""
    loop = start("]->\n")
    first = loop.on_segment(stopped("x", "]->"), 0.0)
    second = loop.on_segment(stopped("y", "\n"), 0.0)

    assert isinstance(first, Generate)
    assert "\n" in first.params.stop
    assert isinstance(second, Generate)
    assert written(second) == b"x]->y\n"
    assert "\n" not in second.params.stop


@pytest.mark.parametrize("stops", [("]->\n", "x]->\n"), ("x]->\n", "]->\n")])
def test_of_two_stop_strings_with_one_ending_the_longer_one_wins(stops: tuple[str, ...]) -> None:
    """In whichever order they are given, as within a segment."""
    loop = start(*stops)
    first = loop.on_segment(stopped("yx", "]->"), 0.0)
    second = loop.on_segment(stopped("", "\n"), 0.0)

    assert isinstance(first, Generate) and isinstance(second, Finish)
    assert (first.emit + second.emit, second.done.stop_reason) == ("y", "x]->\n")


def test_text_behind_an_arrow_cannot_make_a_call_across_the_reply() -> None:
    """An engine may name a stop string that runs beyond the arrow; nothing of that is left after the reply."""
    stop = "]->[https://ncbi/"
    loop = start(stop)
    loop.on_segment(stopped("[https://ncbi/1", stop), 0.0)
    loop.on_reply(CallReply("[r]", "ok"), 0.0)

    assert isinstance(loop.on_segment(stopped("2", "]->"), 0.0), Generate)


def test_a_third_equal_call_in_a_row_ends_the_answer() -> None:
    """The second brought nothing new; another call between them, or a retry of a failed one, is no repetition."""
    loop = start()
    statuses: tuple[tuple[str, CallStatus], ...] = (
        ("1", "error"),
        ("1", "ok"),
        ("1", "duplicate"),
        ("2", "ok"),
        ("2", "duplicate"),
    )
    for number, status in statuses[:2] + statuses[3:]:
        assert isinstance(loop.on_segment(stopped(f"[https://ncbi/{number}", "]->"), 0.0), Fetch)
        loop.on_reply(CallReply("[r]", status), 0.0)
    ended = loop.on_segment(stopped("[https://ncbi/2", "]->"), 0.0)

    assert isinstance(ended, Finish)
    assert (ended.done.finish_reason, ended.done.stop_reason) == ("call_limit", "repetition")


def test_what_the_model_writes_between_two_replies_is_bounded() -> None:
    """A reply begins the count anew; the whole answer stays bounded by max_tokens."""
    loop = start(limits=LoopLimits(max_own_tokens=30))
    again = loop.on_segment(stopped("0123456789", "]->"), 0.0)
    loop.on_segment(stopped("[https://ncbi/1", "]->"), 0.0)
    resumed = loop.on_reply(CallReply("[r]", "ok"), 0.0).then

    assert isinstance(again, Generate) and again.params.max_tokens == 30 - 11
    assert isinstance(resumed, Generate) and resumed.params.max_tokens == 30
    ended = loop.on_segment(stopped("x" * 29, "]->"), 0.0)
    assert isinstance(ended, Finish) and ended.done.finish_reason == "length"


def test_each_generation_knows_what_the_answer_has_written() -> None:
    """So a text that repeats itself over arrows that end no call is seen as one."""
    loop = start()
    loop.on_segment(stopped("brca1 on", "]->"), 0.0)
    action = loop.on_segment(stopped("brca1 on", "]->"), 0.0)

    assert isinstance(action, Generate) and action.params.written is not None
    assert action.prompt_ids[-len(action.params.written) :] == action.params.written
