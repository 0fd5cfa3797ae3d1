"""The scanner finds the same calls whatever the chunks, and nothing that is no call."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.decoding.call_loop import CallScanner, CloserMatch
from models.decoding.types import CallSyntax

SYNTAX = CallSyntax("[https://", "]->", lambda text: text.startswith("https://ncbi/"))
PIECES = ("[", "https://", "ncbi/", "[https://ncbi/", "]", "->", "]->", "-", ">", "BRCA1[sym]", "c.35G->A ", "α", "\n")


def scan(chunks: list[str], max_call_chars: int = 100) -> list[CloserMatch]:
    scanner = CallScanner(SYNTAX, max_call_chars)
    return [arrow for chunk in chunks for arrow in scanner.feed(chunk)]


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("[https://ncbi/a]->", "https://ncbi/a"),
        ("see [1], then [https://ncbi/a]->", "https://ncbi/a"),
        ("[https://ncbi/?term=BRCA1[sym]]->", "https://ncbi/?term=BRCA1[sym]"),
        ("[https://ncbi/?term=BRCA1[sym]]", None),
        ("[https://ncbi/a [https://ncbi/b]->", "https://ncbi/b"),
        ("[https://ncbi/?u=[https://elsewhere]->", "https://ncbi/?u=[https://elsewhere"),
        ("[https://elsewhere/a]->", None),
        ("c.35G->A and x[1]->", None),
        ("[https://ncbi/a] ->", None),
    ],
)
def test_the_last_text_that_makes_a_call_ends_at_the_arrow(text: str, call: str | None) -> None:
    """The call is what stands between the last fitting opener and the closer, brackets inside it included."""
    arrows = scan([text])

    assert [arrow.call for arrow in arrows if arrow.call] == ([call] if call else [])
    assert all(arrow.end == len(text) for arrow in arrows)


@given(st.lists(st.sampled_from(PIECES), max_size=24).map("".join), st.data())
def test_chunks_do_not_matter(text: str, data: st.DataObject) -> None:
    """Any way of cutting a text gives the arrows of the whole text."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=10)))
    chunks = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]

    assert scan(chunks) == scan([text])


@given(st.integers(0, 30), st.integers(1, 9))
def test_the_length_bound_does_not_depend_on_chunks(extra: int, step: int) -> None:
    """A call of exactly the bound is found, a longer one is text, after any amount of text before it."""
    call = "https://ncbi/" + "x" * (7 + extra)
    text = "y" * 200 + f"[{call}]->"
    chunks = [text[i : i + step] for i in range(0, len(text), step)]

    assert [a.call for a in scan(chunks, 20)] == ([call] if len(call) <= 20 else [None])


def test_a_closer_settles_everything_before_it() -> None:
    """An opener before an ordinary arrow cannot make a call with a later one."""
    assert [a.call for a in scan(["[https://elsewhere/[https:", "/ x[1]-", "> /ncbi/ ]->"])] == [None, None]


def test_text_before_a_reset_is_forgotten() -> None:
    """An opener before a reply cannot make a call with a closer behind it."""
    scanner = CallScanner(SYNTAX)
    scanner.feed("[https://ncbi/a")
    scanner.reset()

    assert scanner.feed("b]->") == [CloserMatch(4, None)]


def test_hostile_text_costs_a_bounded_number_of_judgements() -> None:
    """A thousand openers before one closer are not all judged."""
    judged = []

    def judge(text: str) -> bool:
        judged.append(text)
        return False

    syntax = CallSyntax("[https://", "]->", judge)
    CallScanner(syntax, 10_000).feed("[https://" * 1000 + "]->")

    assert 0 < len(judged) <= 16
