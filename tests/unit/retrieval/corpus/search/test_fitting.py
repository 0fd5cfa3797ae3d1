"""Weights of a hybrid search, fitted to questions with known documents, and held back where they do not gain."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from corpus_doubles import DIM, WordEncoder, backends, keyword_search
from corpus_files import reading

from models.encoders.base import Floats
from retrieval.corpus.ingest.add import add_items
from retrieval.corpus.namespaces.namespace import FUSION
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.corpus.search.fitting import KnownQuestion, fit_weights, forget_weights
from retrieval.corpus.search.searcher import Rankers, Searcher, SearchOptions
from retrieval.errors import NamespaceDamaged, NamespaceInvalid
from retrieval.lexical.fusion import EVEN, FusionWeights

NAMES = tuple(f"word{letter}{other}" for letter in "abcdefghij" for other in "klmnopqrst")


class _BlindEncoder(WordEncoder):
    """Vectors that say nothing: drawn by the text's hash alone."""

    def _vector(self, text: str) -> Floats:
        drawn = np.random.RandomState(sum(map(ord, text)) % 2**31).standard_normal(DIM)
        return (drawn / np.linalg.norm(drawn)).astype(np.float32)


def _made(folder: Path, encoder: WordEncoder) -> tuple[Namespaces, Searcher]:
    namespaces = Namespaces(folder, replace(backends(), encoders=lambda _: encoder))
    namespaces.create("ns", NamespaceSettings(encoder="words"))
    drawn = random.Random(1)
    texts = [f"{name} {' '.join(drawn.sample(NAMES, 3))}" for name in NAMES]
    add_items(namespaces, "ns", [reading(f"PMID:{at}", text) for at, text in enumerate(texts)])
    return namespaces, Searcher(namespaces, Rankers(keywords=keyword_search))


def _questions() -> list[KnownQuestion]:
    """The first word of a document, with another one that several have."""
    return [
        KnownQuestion(f"{name} and {NAMES[(at + 7) % len(NAMES)]}", frozenset({f"PMID:{at}"}))
        for at, name in enumerate(NAMES)
    ]


def test_weights_that_gain_are_stored_and_used(tmp_path: Path) -> None:
    """Vectors that say nothing lose their share, on questions that others have chosen it by."""
    namespaces, searcher = _made(tmp_path, _BlindEncoder())
    fit = fit_weights(namespaces, searcher, "ns", _questions())
    assert fit.stored
    assert fit.weights.words > EVEN.words
    assert fit.after > fit.before
    assert fit.low > 0
    assert namespaces.describe("ns").fusion == fit.weights
    with namespaces.using("ns") as namespace:
        assert namespace.fusion == fit.weights
    fitted = searcher.search("wordak and wordbl", ["ns"], SearchOptions(retriever="hybrid"))
    forget_weights(namespaces, "ns")
    even = searcher.search("wordak and wordbl", ["ns"], SearchOptions(retriever="hybrid"))
    assert [one.hit.score for one in fitted] != [one.hit.score for one in even]
    assert namespaces.describe("ns").fusion == EVEN


def test_weights_that_gain_nothing_for_sure_are_refused(tmp_path: Path) -> None:
    """Where every question is answered already, and once the best weights are stored."""
    namespaces, searcher = _made(tmp_path, _BlindEncoder())
    assert fit_weights(namespaces, searcher, "ns", _questions()).stored
    again = fit_weights(namespaces, searcher, "ns", _questions())
    assert not again.stored
    assert again.low <= 0
    assert namespaces.describe("ns").fusion == again.weights


def test_too_few_questions_are_refused(tmp_path: Path) -> None:
    """Questions of which the namespace has no document do not count."""
    namespaces, searcher = _made(tmp_path, WordEncoder())
    unknown = [KnownQuestion(f"question {at}", frozenset({"PMID:none"})) for at in range(100)]
    with pytest.raises(NamespaceInvalid, match="20 in each half"):
        fit_weights(namespaces, searcher, "ns", [*_questions()[:20], *unknown])


@pytest.mark.parametrize("text", ["{", "{}", '{"weights": {"words": 2}}', '{"weights": {"words": "x"}}'])
def test_stored_weights_that_are_none_are_damage(tmp_path: Path, text: str) -> None:
    """They are never taken for even ones."""
    namespaces, searcher = _made(tmp_path, WordEncoder())
    namespaces.note("ns", FUSION, text)
    with pytest.raises(NamespaceDamaged):
        searcher.search("wordak", ["ns"], SearchOptions(retriever="hybrid"))


def test_a_share_is_from_0_to_1() -> None:
    """Anything else is an error of the program."""
    with pytest.raises(ValueError, match="share"):
        FusionWeights(words=1.5)
