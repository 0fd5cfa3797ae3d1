"""The head that ships reads what questions ask of a graph, in words that no list has, and is small."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from models.encoders.base import EncoderOptions, Floats
from models.encoders.message_head import WEIGHTS
from models.encoders.registry import create_encoder
from models.encoders.relation_head import (
    ALL,
    GENE_HEAD_DIR,
    NOTHING,
    OTHER,
    RELATION_HEAD_DIR,
    SECOND,
    RelationHead,
    load_relation_head,
)
from models.errors import ModelNotFound

HEAD = load_relation_head()


@pytest.fixture(scope="module")
def vector_of() -> Callable[[str], Floats]:
    encoder = create_encoder(options=EncoderOptions(device="cpu", dtype="float32", threads=1))
    return lambda text: encoder.encode_queries([text])[0]


def test_the_head_that_ships_is_small_and_whole() -> None:
    """It has words for every relation, and none for what is no relation."""
    assert HEAD.weights.shape == (384 + len(HEAD.idf) + 1, len(HEAD.words))
    assert HEAD.denials == (ALL, NOTHING, SECOND)
    assert [name for name, words in HEAD.words.items() if not words] == [OTHER]
    assert (RELATION_HEAD_DIR / WEIGHTS).stat().st_size < 500_000


@pytest.mark.weights
@pytest.mark.parametrize(
    ("question", "relation"),
    [
        ("What can be prescribed for Disease?", "treats"),
        ("Which illnesses is drug good for?", "treats"),
        ("What is Gene implicated in?", "genes"),
        ("How does Disease show itself?", "symptoms"),
        ("What category of disease does Disease belong to?", "parents"),
        ("Which kinds of Disease exist?", "children"),
        ("Which proteins make up the family?", "parts"),
        ("Which diseases resemble Disease?", "resembles"),
        ("What are the side effects of drug?", OTHER),
        ("Welche Medikamente gibt es gegen Disease?", "treats"),
        ("¿Qué genes están asociados con Disease?", "genes"),
        ("Quels sont les symptômes de Disease ?", "symptoms"),
    ],
)
def test_it_reads_what_is_asked(vector_of: Callable[[str], Floats], question: str, relation: str) -> None:
    read = HEAD.read(question, vector_of(question))
    assert (read.name, read.is_sure, read.denial) == (relation, True, NOTHING)


@pytest.mark.weights
@pytest.mark.parametrize(
    ("question", "denial"),
    [
        ("Which medicines will not cure Disease?", ALL),
        ("drug has never helped in Disease.", ALL),
        ("Welche Arzneien taugen bei Disease nicht?", ALL),
        ("Quels produits ne marchent pas contre Disease ?", ALL),
        ("¿Qué pastillas no alivian Disease?", ALL),
        ("Which of the genes of Disease has Disease not?", SECOND),
    ],
)
def test_it_reads_what_is_denied(vector_of: Callable[[str], Floats], question: str, denial: str) -> None:
    assert HEAD.read(question, vector_of(question)).denial == denial


def test_the_head_of_genes_reads_ngrams_alone() -> None:
    head = load_relation_head(GENE_HEAD_DIR)
    assert head.weights.shape == (len(head.idf) + 1, len(head.words))
    assert (GENE_HEAD_DIR / WEIGHTS).stat().st_size < 150_000
    assert head.read("What did people call TP53 before?", np.zeros(0, np.float32)).name == "aliases"


def test_the_most_likely_relation_is_read_with_its_words() -> None:
    weights = np.zeros((2 + 4 + 1, 2), np.float32)
    weights[-1] = (0.0, 2.0)
    words = {"one": frozenset[str](), "two": frozenset({"word"})}
    head = RelationHead(words, (NOTHING, ALL), weights, weights, np.ones(4, np.float32), 1.0, sure=0.88)
    read = head.read("any", np.zeros(2, np.float32))
    assert (read.name, read.words, read.denial, read.is_sure) == ("two", frozenset({"word"}), ALL, True)
    assert not replace(head, sure=0.89).read("any", np.zeros(2, np.float32)).is_sure


def test_a_folder_without_a_head_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="no usable weights in"):
        load_relation_head(tmp_path)
