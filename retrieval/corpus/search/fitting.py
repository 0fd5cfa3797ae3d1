"""Fit the weights of a namespace's hybrid search to questions of which the right documents are known.

One half of the questions, by a hash of their text, chooses among a grid of weights by the mean average precision at 10;
the other half decides whether they are worth storing: the lower end of the difference's 95 % bootstrap interval must be
above zero, or the namespace keeps the weights that it has.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from retrieval.corpus.namespaces.namespace import FUSION
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.search.searcher import HybridParts, Searcher
from retrieval.errors import NamespaceInvalid
from retrieval.lexical.fusion import EVEN, FusionWeights

GRID: Final = tuple(
    FusionWeights(words, late)
    for words, late in product((0.0, 0.2, 0.35, 0.5, 0.65, 0.8, 1.0), (0.0, 0.25, 0.5, 0.65, 0.8))
)
# Of fewer, an interval says nothing.
LEAST: Final = 20
_TOP: Final = 10
_AT_ONCE: Final = 64
_SAMPLES: Final = 2_000


@dataclass(frozen=True, slots=True)
class KnownQuestion:
    """Hold a question with the ids of the documents that answer it."""

    text: str
    documents: frozenset[str]

    @property
    def decides(self) -> bool:
        """Return whether it is held out, to decide about weights that others have chosen."""
        return bool(hashlib.sha256(self.text.encode()).digest()[0] % 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Report a fit: means of average precision at 10 on the held-out questions, and the interval of their difference.

    ``weights`` are the chosen ones, ``stored`` whether the namespace has them now. ``chosen_on``, ``decided_on``:
    numbers of questions.
    """

    weights: FusionWeights
    before: float
    after: float
    low: float
    high: float
    chosen_on: int
    decided_on: int
    stored: bool


def fit_weights(namespaces: Namespaces, searcher: Searcher, name: str, questions: Sequence[KnownQuestion]) -> Fit:
    """Fit weights, and store them where they gain on questions that did not choose them.

    Raises:
        NamespaceInvalid: too few questions have a document of the namespace, or it has no words or vectors.
    """
    with namespaces.using(name) as namespace:
        now = namespace.fusion
        known = namespace.store.known([one for question in questions for one in question.documents])
        asked = [KnownQuestion(one.text, found) for one in questions if (found := one.documents & known)]
        halves = [[one for one in asked if one.decides is decides] for decides in (False, True)]
        if min(map(len, halves)) < LEAST:
            raise NamespaceInvalid(
                f"{len(asked)} questions have a document of {name}; {2 * LEAST} are about the fewest to fit weights, "
                f"with {LEAST} in each half",
                param="questions",
            )
    choosing, deciding = (_scores(namespaces, searcher, name, half, (now, *GRID)) for half in halves)
    best = 1 + int(np.argmax(choosing[1:].mean(axis=1)))
    differences = deciding[best] - deciding[0]
    low, high = _interval(differences)
    fit = Fit(
        weights=GRID[best - 1],
        before=float(deciding[0].mean()),
        after=float(deciding[best].mean()),
        low=low,
        high=high,
        chosen_on=len(halves[0]),
        decided_on=len(halves[1]),
        stored=low > 0.0,
    )
    if fit.stored:
        namespaces.note(name, FUSION, json.dumps({**asdict(fit), "weights": asdict(fit.weights)}, sort_keys=True))
    return fit


def forget_weights(namespaces: Namespaces, name: str) -> None:
    """Give a namespace even weights again."""
    namespaces.note(name, FUSION, json.dumps({"weights": asdict(EVEN)}))


def _scores(
    namespaces: Namespaces,
    searcher: Searcher,
    name: str,
    questions: Sequence[KnownQuestion],
    weights: Sequence[FusionWeights],
) -> NDArray[np.float64]:
    """Return the average precision of each question under each of the weights, [weights, questions]."""
    rows: list[list[float]] = []
    for start in range(0, len(questions), _AT_ONCE):
        some = questions[start : start + _AT_ONCE]
        parts = searcher.parts([one.text for one in some], name)
        documents = _documents(namespaces, name, parts)
        for question, part in zip(some, parts, strict=True):
            ranked = [[hit.passage_id for hit in part.fused(one)] for one in weights]
            rows.append([_precision(order, documents, question.documents) for order in ranked])
    return np.array(rows, np.float64).T


def _documents(namespaces: Namespaces, name: str, parts: Sequence[HybridParts]) -> dict[int, str]:
    """Return the documents of the passages that any weights can put among the first."""
    best = {hit.passage_id for part in parts for hit in part.fused(EVEN)[: 10 * _TOP]}
    with namespaces.using(name) as namespace:
        return {passage.passage_id: document.document_id for passage, document in namespace.store.get(sorted(best))}


def _precision(ranked: Sequence[int], documents: dict[int, str], right: frozenset[str]) -> float:
    """Return the average precision of the first ten documents, over the most that can be right among them."""
    found = list(dict.fromkeys(documents[number] for number in ranked[: 10 * _TOP] if number in documents))[:_TOP]
    hits, total = 0, 0.0
    for place, document in enumerate(found, 1):
        if document in right:
            hits += 1
            total += hits / place
    return total / min(_TOP, len(right))


def _interval(differences: NDArray[np.float64]) -> tuple[float, float]:
    drawn = np.random.default_rng(0).integers(len(differences), size=(_SAMPLES, len(differences)))
    low, high = np.quantile(differences[drawn].mean(axis=1), (0.025, 0.975))
    return float(low), float(high)
