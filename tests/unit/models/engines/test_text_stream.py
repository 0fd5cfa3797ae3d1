"""Tokens as a stream of text: characters come out whole, and stop strings end a stream of any pieces."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.engines.scripted_engine import ByteTokenizer
from models.engines.text_stream import IncrementalDecoder, StopScanner, TextStream
from models.types import GenerateParams


def scan(pieces: Sequence[str], stops: Sequence[str]) -> tuple[str, str | None]:
    scanner = StopScanner(stops)
    shown = "".join(scanner.feed(piece) for piece in pieces)
    return shown + ("" if scanner.matched else scanner.flush()), scanner.matched


def expected(text: str, stops: Sequence[str]) -> tuple[str, str | None]:
    """By definition: the first character position at which some stop string ends, the longest such stop string."""
    for end in range(1, len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            stop = max(ending, key=len)
            return text[: end - len(stop)], stop
    return text, None


@pytest.mark.parametrize(
    ("text", "stops", "shown", "matched"),
    [
        ("Answer: PSMB10\n\nQuestion: next", ("\n\nQuestion",), "Answer: PSMB10", "\n\nQuestion"),
        ("c.35G->A and [x]->", ("]->",), "c.35G->A and [x", "]->"),
        ("aaab", ("aab",), "a", "aab"),
        ("xabc", ("ab", "xabc"), "x", "ab"),
        ("xab", ("b", "ab"), "x", "ab"),
        ("nothing here", ("]->",), "nothing here", None),
        ("almost ]-", ("]->",), "almost ]-", None),
    ],
)
def test_known_cases_whole_and_character_by_character(
    text: str, stops: tuple[str, ...], shown: str, matched: str | None
) -> None:
    """The earliest completed stop string wins, in one piece or in many."""
    assert scan([text], stops) == (shown, matched)
    assert scan(list(text), stops) == (shown, matched)


@given(
    pieces=st.lists(st.text(alphabet="ab>-]", max_size=4), max_size=12),
    stops=st.lists(st.text(alphabet="ab>-]", min_size=1, max_size=4), max_size=4),
)
def test_any_cutting_gives_the_same_result(pieces: list[str], stops: list[str]) -> None:
    """The result is that of the whole text, however it was cut."""
    assert scan(pieces, stops) == expected("".join(pieces), stops)


@given(
    pieces=st.lists(st.text(alphabet="ab>", max_size=3), max_size=10),
    stops=st.lists(st.text(alphabet="ab>", min_size=1, max_size=4), min_size=1, max_size=3),
)
def test_no_more_is_withheld_than_could_become_a_stop_string(pieces: list[str], stops: list[str]) -> None:
    """What is held back at any moment is a proper prefix of some stop string."""
    scanner, shown, fed = StopScanner(stops), "", ""
    for piece in pieces:
        shown += scanner.feed(piece)
        fed += piece
        if scanner.matched is not None:
            return
        held = fed[len(shown) :]
        assert held == "" or any(stop.startswith(held) and stop != held for stop in stops)


def decode_stepwise(token_ids: Sequence[int]) -> list[str]:
    decoder = IncrementalDecoder(ByteTokenizer())
    return [*(decoder.feed((token_id,)) for token_id in token_ids), decoder.flush()]


def test_character_comes_out_when_its_last_byte_is_there() -> None:
    """Nothing is shown of a three-byte character before its third byte."""
    assert decode_stepwise("→".encode()) == ["", "", "→", ""]


@given(st.lists(st.sampled_from([0x41, 0xE2, 0x86, 0x92, 0xF0, 0x9F, 0xFF, 0xC3]), max_size=60))
def test_any_bytes_come_out_as_they_decode_together(token_ids: list[int]) -> None:
    """Valid or not, the pieces joined are the decoding of the whole."""
    assert "".join(decode_stepwise(token_ids)) == ByteTokenizer().decode(token_ids)


@given(st.lists(st.sampled_from([0x80, 0xE2, 0xFF]), min_size=20, max_size=80))
def test_invalid_bytes_are_not_withheld_for_ever(token_ids: list[int]) -> None:
    """At most a few tokens of hopeless bytes wait."""
    pieces = decode_stepwise(token_ids)

    assert len("".join(pieces[:-1])) >= len(ByteTokenizer().decode(token_ids)) - 12


def test_eos_has_no_text_and_releases_what_was_withheld() -> None:
    """At EOS the tail that looked like a stop string is text after all."""
    stream = TextStream(ByteTokenizer(), GenerateParams(max_tokens=9, stop=("]->",)), ())
    for token_id in b"gene]-":
        stream.advance(token_id, is_eos=False, is_last=False)

    assert stream.advance(257, is_eos=True, is_last=False) == ("]-", "stop")
    assert stream.stop_reason is None


def test_stop_string_wins_over_length() -> None:
    """A stop string completed by the last allowed token is a stop."""
    stream = TextStream(ByteTokenizer(), GenerateParams(max_tokens=9, stop=("ab",)), ())
    stream.advance(ord("a"), is_eos=False, is_last=False)

    assert stream.advance(ord("b"), is_eos=False, is_last=True) == ("", "stop")
    assert stream.stop_reason == "ab"


def test_a_text_that_repeats_itself_ends_with_length() -> None:
    """With what a stop string withheld; only where the request wants it, and no stop string is taken for it."""
    guarded = TextStream(ByteTokenizer(), GenerateParams(max_tokens=999, stop=("na!",), stop_on_repetition=True), ())
    free = TextStream(ByteTokenizer(), GenerateParams(max_tokens=999, stop=("na!",)), ())
    text, finish = "", None
    for token_id in b"na" * 200:
        assert free.advance(token_id, is_eos=False, is_last=False)[1] is None
        if finish is None:
            piece, finish = guarded.advance(token_id, is_eos=False, is_last=False)
            text += piece

    assert (finish, guarded.stop_reason, text) == ("length", "repetition", "na" * 64)
    assert free.stop_reason is None
