"""Tell what relation of a graph, or field of a record, a question asks for or denies, by linear heads.

Their features are the encoder's vector and hashed n-grams, or these alone.

The names in the question are replaced by their kinds first, so that the heads read how something is asked, not of what.
``scripts/train_relation_head.py`` trains them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from models.encoders.base import Floats
from models.encoders.message_head import hashed_grams, read_trained, softmax, unfitting

RELATION_HEAD_DIR: Final = Path(__file__).parents[1] / "embedded" / "relation-head"
# What is asked of a gene or a variant; it reads n-grams alone.
GENE_HEAD_DIR: Final = RELATION_HEAD_DIR.with_name("gene-relation-head")
# What a question asks for that is none of the relations.
OTHER: Final = "other"
# What a question denies: "which drugs do not treat it" everything, "this disease but not that one" its second name.
NOTHING: Final = "nothing"
_LIKELY: Final = 0.5
ALL: Final = "all"
SECOND: Final = "second"


@dataclass(frozen=True, slots=True)
class AskedRelation:
    """Hold the relation that is more likely than not, and the words in which the training questions ask for it.

    ``is_sure``: it is likely enough to be taken as asked for. ``denial`` is what the question denies.
    """

    name: str
    is_sure: bool
    words: frozenset[str] = frozenset()
    denial: str = NOTHING


@dataclass(frozen=True, slots=True)
class RelationHead:
    """Hold the weights of relations and of denials, float32 [features + 1, classes], the bias last.

    ``idf`` [buckets] weighs the n-grams, ``sure`` is the probability from which on a relation is taken as asked for.
    """

    words: Mapping[str, frozenset[str]]
    denials: tuple[str, ...]
    weights: Floats
    denial_weights: Floats
    idf: Floats
    gram_weight: float
    sure: float

    def read(self, question: str, vector: Floats) -> AskedRelation:
        """Return what a question asks for; ``vector`` is the encoder's, float32 [dim], or has no number."""
        grams = self.gram_weight * hashed_grams(question, self.idf)
        features = np.concatenate([vector, grams, [1.0]])
        shares = softmax(features @ self.weights)
        name = [*self.words][int(shares.argmax())] if shares.max() >= _LIKELY else OTHER
        denial = self.denials[int((features @ self.denial_weights).argmax())]
        return AskedRelation(name, bool(shares.max() >= self.sure), self.words[name], denial)


def load_relation_head(folder: Path = RELATION_HEAD_DIR) -> RelationHead:
    """Load the head of a folder, by default the one that ships.

    Raises:
        ModelNotFound: its files are missing or do not fit one another.
    """
    head = read_trained(
        folder,
        lambda config, weights: RelationHead(
            words={name: frozenset(words) for name, words in config["words"].items()},
            denials=tuple(config["denials"]),
            weights=weights["relation"],
            denial_weights=weights.get("denial", np.zeros((len(weights["relation"]), 1), np.float32)),
            idf=weights["idf"],
            gram_weight=float(config["gram_weight"]),
            sure=float(config["sure"]),
        ),
    )
    classes = (head.weights.shape[1], head.denial_weights.shape[1])
    if classes != (len(head.words), len(head.denials)) or len(head.weights) <= len(head.idf):
        raise unfitting(folder)
    return head
