"""Queries are built from the question's own words and linked names, are always well formed, and can be repaired."""

from __future__ import annotations

import pytest

from retrieval.gateway.query.syntax import parse_query, terms_of
from retrieval.graph.types import Linked, Mention, Node
from server.methods.clinfo.options import parse_options
from server.methods.clinfo.queries import (
    Clause,
    Query,
    broadened,
    build_queries,
    clauses_in,
    fault_of,
    given_queries,
    limits_of,
    narrowed,
    with_limits,
    without_rarest,
)

QUESTION = "Is prenatal anxiety associated with asthma in childhood?"


def _linked(question: str, name: str, *synonyms: str) -> Linked:
    start = question.index(name)
    node = Node(node_id=f"Disease::{name}", kind="Disease", name=name, identifier=name, synonyms=synonyms)
    return Linked(mentions=(Mention(node=node, start=start, end=start + len(name), method="exact"),))


def test_a_question_becomes_its_content_words() -> None:
    """Words that ask, and function words, are left out; runs of words stay together."""
    assert [one.words for one in clauses_in(QUESTION)] == ["prenatal anxiety", "asthma", "childhood"]
    first, ranked, *_ = build_queries(QUESTION, None, 3)
    assert first.term == "(prenatal anxiety) AND asthma AND childhood"
    assert ranked.term == "prenat* OR anxiety OR asthma OR childhood"
    assert build_queries("What is it?", None, 3) == ()


def test_a_capital_belongs_to_the_word_before_it() -> None:
    """Where any word suffices, it is none of its own."""
    strict, broad, *_ = build_queries("Does vitamin D prevent falls that I fear?", None, 4)
    assert strict.term.startswith("(vitamin D prevent)") and " D" not in broad.term
    assert all(" I" not in one.term for one in (strict, broad))


def test_names_are_phrases_with_synonyms() -> None:
    query = build_queries(QUESTION, _linked(QUESTION, "asthma", "bronchial asthma", 'odd "name"'), 1)[0]
    assert '("asthma"[mh] OR "asthma"[tiab] OR "bronchial asthma"[tiab] OR "odd name"[tiab])' in query.term


@pytest.mark.parametrize(
    "question",
    [
        QUESTION,
        "What is the effect of TNF-α on IL-6?",
        'Does "x" [ti] OR (y AND NOT z) matter?',
        "Is CD4+ count < 200/µL an indication?",
        "28 28 28 DAS28?",
        "NOT AND OR",
        "вакцина",
        "p53 " * 200,
    ],
)
def test_every_query_is_one_that_the_gateway_reads(question: str) -> None:
    """Nothing of the question can break the syntax."""
    for query in build_queries(question, None, 4):
        assert fault_of(query) == ""
        assert len(query.term) <= 2400
        parsed = parse_query(query.term)
        assert parsed.tree is not None and all(term.tag in ("", "tiab", "mh") for term in terms_of(parsed.tree))


def test_greek_letters_have_their_names() -> None:
    assert "TNF-alpha" in build_queries("What is the effect of TNF-α on IL-6?", None, 1)[0].term


@pytest.mark.parametrize(
    ("text", "why"),
    [("((asthma", "bracket or quote"), ('"asthma', "bracket or quote"), ("the of and", "no word"), ("[ti]", "no word")],
)
def test_a_query_that_cannot_be_sent_says_why(text: str, why: str) -> None:
    assert why in fault_of(given_queries([text])[0])


def test_repairs_broaden_drop_and_narrow() -> None:
    """Without fields, then without the rarest clause; with one more word where any few suffice."""
    strict = Query((Clause(("rare disease", "rd"), linked=True), Clause(("asthma",))), "rules")
    broad = broadened(strict)
    assert broad is not None and broad.term == "(rare disease) AND asthma"
    assert broadened(broad) is None
    rest = without_rarest(broad, [0, 9])
    assert rest is not None and rest.term == "asthma" and without_rarest(rest, [1]) is None
    ranked = Query((Clause(("red blood cell",)),), "rules", any_of=1)
    second = narrowed(ranked)
    assert second is not None and second.term == "(red AND blood) OR (red AND cell) OR (blood AND cell)"
    third = narrowed(second)
    assert third is not None and narrowed(third) is None and narrowed(strict) is None


def test_limits_are_clauses_of_every_query() -> None:
    options = parse_options({"date_from": "2019-05", "publication_types": "Review"})
    assert limits_of(options) == '("2019/05"[dp] : "3000"[dp]) AND ("Review"[pt])'
    limited = with_limits(build_queries("asthma", None, 1), options)[0]
    assert limited.term.startswith("(asthma) AND (") and fault_of(limited) == ""
