"""An answer's events: the shown text is safe, references stay at their markers, the transcript is untouched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from models.decoding.types import LoopUsage
from server.api.answers.sanitize import EventSanitizer, sanitize_text
from server.methods.base import Done, Event, Evidence, Reference, Step, TextDelta, TranscriptDelta

IMAGE = "![x](https://evil.example)"


def _through(events: Iterable[Event]) -> list[Event]:
    safe = EventSanitizer()
    return [shown for event in events for shown in safe.of(event)]


def _text(events: Sequence[Event], channel: str) -> str:
    return "".join(e.text for e in events if isinstance(e, TextDelta) and e.channel == channel)


def _done(answer: str) -> Done:
    usage = LoopUsage(prompt_tokens=1, sampled_tokens=1, cached_tokens=0, computed_tokens=1, segments=1)
    return Done(answer=answer, finish_reason="stop", stop_reason=None, usage=usage)


@given(st.lists(st.sampled_from(["!", "[", "](", ")", "<img ", "javascript:", "gene ", "\n"])))
def test_markers_are_where_references_say(words: list[str]) -> None:
    """However many spaces came before them."""
    written = "".join(words)
    listing = "\n\nReferences:\n[1] [PubMed 1](https://pubmed.ncbi.nlm.nih.gov/1)"
    start = len(written) + listing.index("[1]")
    reference = Reference(1, "PubMed 1", "https://pubmed.ncbi.nlm.nih.gov/1", start, start + 3)
    events = _through([*map(TextDelta, words), TextDelta(listing), Evidence((reference,)), _done(written)])
    moved = next(event for event in events if isinstance(event, Evidence)).references[0]

    assert _text(events, "answer")[moved.start : moved.end] == "[1]"
    assert _text(events, "answer") == sanitize_text(written + listing)


def test_thoughts_and_steps_are_shown_too() -> None:
    """Clients render them as they render the answer; what was held of thoughts comes before the answer begins."""
    events = _through([Step(IMAGE), TextDelta("so!", "reasoning"), TextDelta("yes"), Step("[a](b)"), _done(IMAGE)])

    assert events[0] == Step("! [x](https://evil.example)")
    assert _text(events[:3], "reasoning") == "so!"
    assert events[4] == Step(" [a](b)")
    assert isinstance(events[-1], Done) and events[-1].answer == "! [x](https://evil.example)"


def test_the_transcript_is_what_was_written() -> None:
    """It is a record, not something to be rendered."""
    event = TranscriptDelta(IMAGE)

    assert _through([event]) == [event]


def test_passages_are_shown_safely() -> None:
    """Open WebUI shows the text that a reference was read from."""
    evidence = _through([Evidence((Reference(1, f"a {IMAGE}", "https://x.example", 0, 0, IMAGE),))])[0]

    assert isinstance(evidence, Evidence)
    assert evidence.references[0].title == "a ! [x](https://evil.example)"
    assert evidence.references[0].text == "! [x](https://evil.example)"
