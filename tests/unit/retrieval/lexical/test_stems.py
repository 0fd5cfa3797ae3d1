"""Stems of words, and what has none."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from retrieval.lexical.stems import stem


def test_forms_of_a_word_meet_and_names_stay() -> None:
    """Short words, names with digits and words of another meaning are left alone."""
    assert stem("mutations") == stem("mutated") == "mutat"
    assert stem("organ") != stem("organism") != stem("organic")
    assert [stem(term) for term in ("tp53", "il6", "das", "β-blocker", "15.01")] == [
        "tp53", "il6", "das", "β-blocker", "15.01"
    ]  # fmt: skip


def test_threads_do_not_disturb_each_other() -> None:
    """Each has a stemmer of its own."""
    words = [f"{word}ing" for word in ("inhibit", "bind", "express", "regulat", "activat")] * 200
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(stem.__wrapped__, words)) == [stem(word) for word in words]
