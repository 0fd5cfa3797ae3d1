"""Tell which relation of a graph or field of a record a question asks for, by a linear head over vector and n-grams.

The names in the question are replaced by their kinds first, so that the head reads how something is asked, not of what.
``scripts/train_relation_head.py`` trains it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from models.encoders.base import Floats
from models.encoders.message_head import CONFIG, WEIGHTS, hashed_grams, softmax
from models.errors import ModelNotFound

RELATION_HEAD_DIR: Final = Path(__file__).parents[1] / "embedded" / "relation-head"
# What is asked of a gene or a variant; it reads n-grams alone.
GENE_HEAD_DIR: Final = RELATION_HEAD_DIR.with_name("gene-relation-head")
# What a question asks for that is none of the relations.
OTHER: Final = "other"


@dataclass(frozen=True, slots=True)
class AskedRelation:
    """Hold the most likely relation, its probability, and the words in which the training questions ask for it."""

    name: str
    probability: float
    words: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class RelationHead:
    """Hold weights float32 [features + 1, relations], the bias last, and ``idf`` [buckets] of the n-grams."""

    words: Mapping[str, frozenset[str]]
    weights: Floats
    idf: Floats
    gram_weight: float

    def read(self, question: str, vector: Floats) -> AskedRelation:
        """Return what a question asks for; ``vector`` is the encoder's, float32 [dim], or has no number."""
        grams = self.gram_weight * hashed_grams(question, self.idf)
        shares = softmax(np.concatenate([vector, grams, [1.0]]) @ self.weights)
        name = [*self.words][int(shares.argmax())]
        return AskedRelation(name, float(shares.max()), self.words[name])


def load_relation_head(folder: Path = RELATION_HEAD_DIR) -> RelationHead:
    """Load the head of a folder, by default the one that ships.

    Raises:
        ModelNotFound: its files are missing or do not fit one another.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        config = json.loads((folder / CONFIG).read_text("utf-8"))
        tensors = {name: tensor.astype(np.float32) for name, tensor in load_file(folder / WEIGHTS).items()}
        words = {name: frozenset(of_one) for name, of_one in config["words"].items()}
        head = RelationHead(words, tensors["relations"], tensors["idf"], float(config["gram_weight"]))
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise ModelNotFound(f"no usable head in {folder}: {type(error).__name__}: {error}") from error
    if head.weights.shape[1] != len(words) or len(head.weights) <= len(head.idf):
        raise ModelNotFound(f"the weights in {folder} do not fit the names of its {CONFIG}")
    return head
