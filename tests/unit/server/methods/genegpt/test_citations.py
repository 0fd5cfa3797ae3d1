"""Marks of sources within an answer that is being written."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from server.methods.genegpt.report import InlineCitations, Page

FANCS, SAS1R = ("BRCA1", "https://x/672"), ("MC1R", "https://x/4157")


def _standing(text: str) -> list[Page]:
    return [page for page in (FANCS, SAS1R) if page[0] in text]


def _marked(pieces: list[str]) -> tuple[str, list[Page]]:
    citations = InlineCitations(_standing)
    return "".join([*map(citations.feed, pieces), citations.finish()]), citations.cited


def test_each_sentence_names_the_record_in_which_it_stands() -> None:
    """By numbers in the order of first citation, before the full stop; a sentence that stands nowhere has none."""
    text = 'MC1R is on chr16. It is 2.5 kb long. BRCA1 and MC1R differ!\nBRCA1 ("FANCS")'
    marked, cited = _marked([text])
    assert marked == ('MC1R is on chr16 [1]. It is 2.5 kb long. BRCA1 and MC1R differ [1, 2]!\nBRCA1 ("FANCS") [2]')
    assert cited == [SAS1R, FANCS]


def test_a_bare_answer_is_marked_at_its_end() -> None:
    """As the default model writes it."""
    assert _marked(["BRC", "A1"])[0] == "BRCA1 [1]"


def test_an_answer_that_does_not_rest_on_records_gets_no_mark_at_its_end() -> None:
    """Its last sentence is shown as it is."""
    citations = InlineCitations(_standing)
    assert citations.feed("BRCA1.") + citations.finish(cites=False) == "BRCA1."


@given(st.text(alphabet='BRCA1 .M\n("?-x', max_size=60), st.lists(st.integers(0, 60), max_size=6))
def test_marks_do_not_depend_on_how_the_text_comes(text: str, cuts: list[int]) -> None:
    """A stream and a whole reply have the same text."""
    places = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    pieces = [text[one:two] for one, two in pairwise(places)]
    assert _marked(pieces) == _marked([text])
