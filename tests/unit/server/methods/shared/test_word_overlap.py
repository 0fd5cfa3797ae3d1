"""Words without endings, weighed by rarity: the cheap feature of rankings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.methods.shared.word_overlap import (
    nearest_sentence,
    question_stems,
    rarity,
    share_of,
    stem_of,
    stemmed,
    stems_of,
)


def test_forms_of_one_word_have_one_stem() -> None:
    """A noun, a verb and the one who does it are one word to a ranking."""
    assert len({stem_of(word) for word in ("inhibits", "inhibited", "inhibition", "inhibitor", "inhibiting")}) == 1


@pytest.mark.parametrize("term", ["il-5", "cd4", "b12", "10", "as"])
def test_names_with_digits_and_short_words_are_left_whole(term: str) -> None:
    """An ending is taken off a word of letters only, and four letters stay."""
    assert stem_of(term) == term


def test_repeated_words_count_in_the_list_and_not_in_the_set() -> None:
    """A length of a text counts each word; which words it has does not."""
    text = "Asthma attacks: an attack of asthma."

    assert stemmed(text).count(stem_of("asthma")) == 2
    assert stems_of(text) == frozenset(stemmed(text))


def test_function_words_of_a_question_are_left_out() -> None:
    """What a question asks about stays, in its order, each word once."""
    assert question_stems("What is the dose of aspirin, and is aspirin safe?") == (
        stem_of("dose"),
        stem_of("aspirin"),
        stem_of("safe"),
    )


def test_a_rare_word_weighs_more_than_one_that_every_text_has() -> None:
    """A word that no text has is the rarest."""
    texts = [frozenset({"asthma", "dose"}), frozenset({"asthma"}), frozenset({"asthma"})]

    weights = rarity(["asthma", "dose", "absent"], texts)

    assert weights["asthma"] < weights["dose"] < weights["absent"]


def test_the_share_is_of_the_weight() -> None:
    """Nothing asked is nothing shared, not a division by zero."""
    weights = {"asthma": 1.0, "dose": 3.0}

    assert share_of(["asthma", "dose"], {"dose"}, weights) == 0.75
    assert share_of([], {"dose"}, {}) == 0.0


@given(st.text(max_size=30))
def test_no_term_loses_its_beginning(term: str) -> None:
    """A stem is a beginning of its word, whatever the word."""
    stem = stem_of(term)

    assert term.startswith(stem)
    assert len(stem) >= min(4, len(term))


def test_the_nearest_sentence_has_half_of_the_words() -> None:
    text = "Aspirin inhibits platelets for ten days. It was found in willows."
    assert (
        nearest_sentence("Platelets are inhibited by aspirin [1].", text) == "Aspirin inhibits platelets for ten days."
    )
    assert nearest_sentence("Warfarin is an anticoagulant.", text) == nearest_sentence("[1]", text) == ""
