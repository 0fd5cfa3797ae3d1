"""Entrez query text to trees and back, whatever the text is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.gateway.query.syntax import (
    Combination,
    QueryTooComplexError,
    Run,
    Term,
    parse_query,
    postfix,
    terms_of,
    translation,
)


def written(text: str) -> str:
    tree = parse_query(text).tree
    assert tree is not None
    return translation(tree, lambda term: term.written)


def test_operators_apply_from_left_to_right_without_precedence() -> None:
    """a OR b AND c is (a OR b) AND c, as Entrez reads it."""
    tree = parse_query("a1 OR b1 AND c1").tree
    assert tree == Combination("AND", Combination("OR", Term("a1"), Term("b1")), Term("c1"))


def test_parentheses_change_the_order_and_survive_translation() -> None:
    """a OR (b AND c) keeps its grouping in the tree and in the translation."""
    assert parse_query("a1 OR (b1 AND c1)").tree == Combination(
        "OR", Term("a1"), Combination("AND", Term("b1"), Term("c1"))
    )
    assert written("a1 OR (b1 AND c1)") == "a1 OR (b1 AND c1)"
    assert written("(a1 OR b1) AND c1") == "(a1 OR b1) AND c1"


def test_a_tag_takes_the_whole_run_of_words_before_it() -> None:
    """Homo sapiens[orgn] is one term; a word after it is another."""
    assert parse_query("Homo sapiens[orgn] TP53").tree == Run((Term("Homo sapiens", "orgn"), Term("TP53")))


def test_small_words_are_left_out_and_reported() -> None:
    """'in' and 'the' do not search; quoted they do."""
    query = parse_query("defect in the lens")
    assert query.tree == Run((Term("defect"), Term("lens")))
    assert query.ignored == ("in", "the")
    assert parse_query('"the lens"').tree == Term("the lens", quoted=True)


def test_lower_case_operators_are_words() -> None:
    """Only capitals are operators, so 'not' and 'or' in a disease name do not cut it."""
    assert parse_query("NOT1 or not2").tree == Run((Term("NOT1"), Term("not2")))


def test_the_stack_is_the_tree_in_postfix_order() -> None:
    """Words of a run are AND-ed and closed by GROUP; an explicit operator comes last, as in recorded replies."""
    tree = parse_query("bleeding AND brain vessel malformation").tree
    assert tree is not None
    shown = [item if isinstance(item, str) else item.text for item in postfix(tree)]
    assert shown == ["bleeding", "brain", "vessel", "AND", "malformation", "AND", "GROUP", "AND"]


@pytest.mark.parametrize("text", ["", "()", ")(", "AND", '""', "[orgn]", "of the", "..."])
def test_nothing_to_search_for_is_no_tree(text: str) -> None:
    """Empty, only brackets, only operators, only small words: no tree and no exception."""
    assert parse_query(text).tree is None


@pytest.mark.parametrize("text", ["x" * 10_001, "(" * 60 + "x", "a1 " * 301])
def test_limits_are_enforced(text: str) -> None:
    """Length, depth and number of words are bounded."""
    with pytest.raises(QueryTooComplexError):
        parse_query(text)


@given(
    st.lists(
        st.sampled_from(["TP53", "human", "(", ")", "AND", "OR", "NOT", '"', "[sym]", "[", "]", "of", " "]), max_size=30
    )
)
def test_any_mixture_of_syntax_parses_and_its_translation_means_the_same(parts: list[str]) -> None:
    """No mixture of brackets, quotes and operators fails, and reading the translation again gives the same terms."""
    tree = parse_query(" ".join(parts)).tree
    if tree is not None:
        again = parse_query(translation(tree, lambda term: term.written)).tree
        assert again is not None
        assert [t.text for t in terms_of(again)] == [t.text for t in terms_of(tree)]
