"""The head that ships reads kinds and languages, and its features are the same whatever wrote them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.encoders.base import EncoderOptions, Floats
from models.encoders.message_head import (
    CONFIG,
    EMERGENCIES,
    GREETING,
    HEAD_DIR,
    MAX_CHARS,
    WEIGHTS,
    MessageHead,
    hashed_grams,
    load_head,
    shortened,
)
from models.encoders.registry import create_encoder
from models.errors import ModelNotFound

HEAD = load_head()
ALIKE = np.ones(64, np.float32)


@pytest.fixture(scope="module")
def vector_of() -> Callable[[str], Floats]:
    encoder = create_encoder(options=EncoderOptions(device="cpu", dtype="float32", threads=1))
    return lambda text: encoder.encode_queries([text])[0]


def test_the_head_that_ships_is_small_and_whole() -> None:
    """Its kinds and languages have a weight for each feature, and its threshold is a probability."""
    assert {*EMERGENCIES, GREETING, "professional"} <= set(HEAD.kinds)
    assert HEAD.languages == ("en", "de", "fr", "es")
    assert HEAD.kind_weights.shape == (384 + len(HEAD.idf) + 1, len(HEAD.kinds))
    assert HEAD.language_weights.shape == (len(HEAD.idf) + 1, 4)
    assert HEAD.idf.min() >= 1.0
    assert 0.1 <= HEAD.threshold <= 0.95
    assert (HEAD_DIR / WEIGHTS).stat().st_size < 2_000_000


@pytest.mark.parametrize(
    ("message", "is_emergency", "language"),
    [
        ("help my dad collapsed and he is not breathing", True, "en"),
        ("I took a whole box of sleeping pills", True, "en"),
        ("Which antidote is given for an overdose of paracetamol?", False, "en"),
        ("my patient took an overdose of paracetamol, when do I start NAC?", False, "en"),
        ("mein Vater atmet nicht mehr, Hilfe!", True, "de"),
        ("Wie wird eine Anaphylaxie behandelt?", False, "de"),
        ("au secours, mon mari ne respire plus", True, "fr"),
        ("Quel gène cause la mucoviscidose ?", False, "fr"),
        ("ayuda, mi madre no respira", True, "es"),
        ("my brother says he feels suicidal", True, "en"),
        ("mi vecino convulsiona y no reacciona", True, "es"),
        ("notre vache ne se relève plus", False, "fr"),
        ("¿Cómo se trata la anafilaxia?", False, "es"),
    ],
)
@pytest.mark.weights
def test_it_tells_emergencies_and_languages(
    vector_of: Callable[[str], Floats], message: str, is_emergency: bool, language: str
) -> None:
    """Plain examples; how well it does on messages unseen stands in its card."""
    read = HEAD.read(message, vector_of(message))
    assert (read.is_emergency, read.language) == (is_emergency, language)
    assert read.is_emergency == (read.emergency >= HEAD.threshold)


def test_the_threshold_alone_decides_what_is_noted() -> None:
    """The probability is the sum of both kinds of emergencies."""
    kinds = np.zeros((2 + 4 + 1, 3), np.float32)
    kinds[0] = (2.0, 2.0, 0.0)
    grams = np.zeros((4 + 1, 2), np.float32)
    expected = float(2 * np.exp(2.0) / (2 * np.exp(2.0) + 1))
    for threshold, is_noted in ((expected - 0.01, True), (expected + 0.01, False)):
        head = MessageHead(("own", "other", "greeting"), ("en", "de"), kinds, grams, ALIKE[:4], threshold, 1.0)
        read = head.read("hm", np.array([1.0, 0.0], np.float32))
        assert read.emergency == pytest.approx(expected, abs=1e-4)
        assert read.is_emergency is is_noted


def test_a_folder_without_a_usable_head_is_refused(tmp_path: Path) -> None:
    """No file, and names that do not fit the weights."""
    with pytest.raises(ModelNotFound, match="no usable weights"):
        load_head(tmp_path)
    (tmp_path / WEIGHTS).write_bytes((HEAD_DIR / WEIGHTS).read_bytes())
    config = json.loads((HEAD_DIR / CONFIG).read_text("utf-8"))
    (tmp_path / CONFIG).write_text(json.dumps({**config, "kinds": config["kinds"][1:]}), "utf-8")
    with pytest.raises(ModelNotFound, match="do not fit"):
        load_head(tmp_path)


@given(st.text(max_size=200))
def test_grams_have_length_one_or_nothing(text: str) -> None:
    """Whatever the text; case and spaces make no difference."""
    grams = hashed_grams(text, ALIKE)
    norm = float(np.linalg.norm(grams))
    assert norm == pytest.approx(1.0, abs=1e-5) or norm == 0.0
    assert np.array_equal(grams, hashed_grams(f"  {text}  ", ALIKE))


def test_a_bucket_counts_as_its_weight_says() -> None:
    """One of weight 0 carries nothing, and the others share the length in the ratio of their weights."""
    plain = hashed_grams("no breath", ALIKE)
    first, second = np.flatnonzero(plain)[:2]
    weights = ALIKE.copy()
    weights[first], weights[second] = 0.0, 3.0
    weighted = hashed_grams("no breath", weights)
    assert weighted[first] == 0.0
    others = np.setdiff1d(np.flatnonzero(plain), [first, second])
    assert weighted[second] / plain[second] == pytest.approx(3 * weighted[others[0]] / plain[others[0]])


def test_words_and_pairs_of_words_count_beside_their_characters() -> None:
    """Of "ab cd", as " ab cd ": 6 + 5 + 4 + 3 n-grams of 2 to 5 characters, two words and one pair."""
    assert np.count_nonzero(hashed_grams("ab cd", np.ones(1 << 20, np.float32))) == 18 + 3


def test_of_a_long_message_beginning_and_end_are_read() -> None:
    """So that its cost has a bound; reading the part again changes nothing."""
    text = f"I feel odd. {'It was a long day. ' * 500}Now I can't breathe"
    part = shortened(text)
    assert len(part) == MAX_CHARS
    assert part.startswith("I feel odd.")
    assert part.endswith("Now I can't breathe")
    assert shortened(part) == part
    assert np.array_equal(hashed_grams(text, ALIKE), hashed_grams(part, ALIKE))
