"""Quotes of articles by the verifier: which are chosen, in which order, and which articles disagree."""

from __future__ import annotations

from lexical_verifier import lexical_gate

from server.methods.clinfo.extraction import NO_SENTENCE, extract
from server.methods.clinfo.literature import Article, Section
from server.methods.clinfo.screening import Screened
from server.methods.clinfo.search import Candidate
from server.methods.shared.verdicts import Verdict

QUESTION = "Do steroids lower mortality in severe disease?"


def kept(*texts: tuple[str, str]) -> list[Screened]:
    """Articles with a text and a publication type each."""
    articles = [
        Article(key=f"PMID:{n}", title="", sections=(Section("RESULTS", text),), types=(kind,))
        for n, (text, kind) in enumerate(texts)
    ]
    return [Screened(Candidate(one.key, 1.0, {}), one, "relevant", 0.5) for one in articles]


async def test_what_answers_is_quoted_and_what_does_not_is_the_table_s_alone() -> None:
    """Each article has its best sentence as its result."""
    rows = kept(("Steroids do lower mortality in severe disease.", ""), ("Zebrafish swim in warm water at night.", ""))
    conclusion = await extract(QUESTION, rows, lexical_gate(), 3)
    assert [claim.text for claim in conclusion.claims] == ["Steroids do lower mortality in severe disease."]
    assert conclusion.claims[0].keys == ("PMID:0",) and conclusion.claims[0].section == "RESULTS"
    assert set(conclusion.results) == {"PMID:0", "PMID:1"} and conclusion.verdict == Verdict("Yes")


async def test_nothing_is_quoted_where_nothing_answers() -> None:
    conclusion = await extract(QUESTION, kept(("Zebrafish swim in warm water at night.", "")), lexical_gate(), 3)
    assert (conclusion.claims, conclusion.lack, conclusion.outcome) == ((), NO_SENTENCE, "not_found")
    empty = await extract(QUESTION, kept(("", "")), lexical_gate(), 3)
    assert empty.lack == NO_SENTENCE


async def test_of_nearly_equal_quotes_the_better_evidence_goes_first() -> None:
    rows = kept(
        ("A man of our ward told last winter that steroids do lower mortality in severe disease.", "case reports"),
        ("By nine trials with hundreds of people, steroids do lower mortality in severe disease.", "meta-analysis"),
    )
    conclusion = await extract(QUESTION, rows, lexical_gate(), 1)
    both = await extract(QUESTION, rows, lexical_gate(), 3)
    assert len(conclusion.claims) == 1 and both.claims[0].keys == ("PMID:1",)


async def test_articles_of_which_one_says_yes_and_one_no_disagree() -> None:
    """Both are quoted, also where only one was chosen."""
    rows = kept(
        ("Steroids do lower mortality in severe disease.", ""),
        ("Steroids do not lower mortality in severe disease.", ""),
    )
    conclusion = await extract(QUESTION, rows, lexical_gate(), 1)
    assert conclusion.disagreeing == (("PMID:0", "PMID:1"),)
    assert [claim.keys for claim in conclusion.claims] == [("PMID:0",), ("PMID:1",)]
