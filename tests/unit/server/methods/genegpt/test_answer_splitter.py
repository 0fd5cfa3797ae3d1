"""The splitter tells thoughts, calls and answer apart while the text is being written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from server.methods.base import TextDelta
from server.methods.genegpt.answer_splitter import AnswerSplitter, extract_answer

URL = "[https://eutils.ncbi.nlm.nih.gov/entrez/eutils/esearch.fcgi?db=gene&term=LMP10]->"


def _run(pieces: list[str | None], *, multi_hop: bool = False) -> tuple[str, str, str]:
    """(answer as shown, reasoning, answer); None among the pieces is the start of a call."""
    splitter = AnswerSplitter(multi_hop=multi_hop)
    deltas: list[TextDelta] = []
    for piece in pieces:
        deltas += splitter.discard_call() if piece is None else splitter.feed(piece)
    deltas += splitter.finish()
    shown = "".join(d.text for d in deltas if d.channel == "answer")
    return shown, "".join(d.text for d in deltas if d.channel == "reasoning"), splitter.answer


def test_the_answer_is_the_text_after_the_mark() -> None:
    """A call's own text is in neither channel, and the answer loses mark and white space."""
    assert _run([URL, None, "Answer: PSMB10"]) == ("PSMB10", "", "PSMB10")


def test_an_answer_streams_before_it_is_complete() -> None:
    """Single-hop answers reach the reader word by word."""
    splitter = AnswerSplitter(multi_hop=False)
    splitter.feed("Answer: chromosome")

    assert [d.text for d in splitter.feed(" eight and")] == [" eight and"]


def test_sub_answers_are_thoughts() -> None:
    """In a multi-hop answer only the last mark's text is the answer."""
    text = ["Sub-question 1: Which gene?\n", URL, None, "Answer: LRRC23\nSub-question 2: What?\n", URL, None]
    shown, reasoning, answer = _run([*text, "Answer: cytosol"], multi_hop=True)

    assert (shown, answer) == ("cytosol", "cytosol")
    assert "Answer: LRRC23" in reasoning


def test_without_a_mark_what_follows_the_last_reply_is_the_answer() -> None:
    """A model that forgets "Answer:" still gets its answer shown."""
    shown, _, answer = _run([URL, None, "\nIt is PSMB10."])

    assert shown == answer == "It is PSMB10."


def test_a_call_after_an_answer_leaves_the_last_answer() -> None:
    """What was sent cannot be taken back, but the bare answer is the last one."""
    shown, _, answer = _run(["Answer: maybe A\n", URL, None, "Answer: B"])

    assert shown == "maybe A\nB"
    assert answer == "B"


def test_an_address_that_is_no_call_stays_in_the_answer() -> None:
    """Text that looked like the start of a call is given back when the answer ends."""
    assert _run(["Answer: see [https://example.org] for more"])[0] == "see [https://example.org] for more"


@given(st.data(), st.booleans())
def test_chunking_changes_nothing(data: st.DataObject, multi_hop: bool) -> None:
    """The same text in any pieces gives the same answer and the same thoughts."""
    before, after = f"First I look it up. {URL}", "So.\nAnswer: A [https://x.org] b\nAnswer: chr8 "

    def chunks(text: str) -> list[str | None]:
        cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
        return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]

    pieces = [*chunks(before), None, *chunks(after)]
    assert _run(pieces, multi_hop=multi_hop) == _run([before, None, after], multi_hop=multi_hop)


def test_extraction_takes_what_follows_the_last_mark_else_all() -> None:
    assert extract_answer("Answer: a\nAnswer: b ") == "b"
    assert extract_answer("one\n\ntwo ") == "one\n\ntwo"
