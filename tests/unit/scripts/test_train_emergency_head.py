"""The messages that the head is trained on are many, balanced and each once; its threshold keeps its bounds."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from models.encoders.hashing import HashingEncoder
from models.encoders.message_head import load_head
from scripts.train_emergency_head import (
    KINDS,
    LANGUAGES,
    PROFESSIONAL,
    Data,
    checked,
    chosen_threshold,
    cross_validated,
    emergencies_of,
    misspelt,
    prepared,
    read_messages,
    report,
    save,
)


def test_the_messages_are_many_and_of_every_kind_and_language() -> None:
    """At least 800, each once, with no kind of a language below 15."""
    messages = read_messages()
    assert len(messages) >= 800
    assert len({message.text.casefold() for message in messages}) == len(messages)
    counts = Counter((message.kind, message.language) for message in messages)
    assert set(counts) == {(kind, language) for kind in KINDS for language in LANGUAGES}
    assert min(counts.values()) >= 15


def test_the_threshold_is_the_lowest_that_keeps_both_bounds() -> None:
    """Professional messages and ordinary ones are counted apart."""
    kinds = np.array([0] * 10 + [PROFESSIONAL] * 100 + [KINDS.index("question")] * 100)
    probability = np.array([0.9] * 10 + [0.2] * 97 + [0.6] * 3 + [0.1] * 90 + [0.5] * 10, np.float32)
    assert chosen_threshold(probability, kinds) == pytest.approx(0.51)
    probability[:110] = 1.0
    with pytest.raises(ValueError, match="no threshold"):
        chosen_threshold(probability, kinds)


def test_a_misspelt_message_is_the_same_for_the_same_seed() -> None:
    """And has about its length."""
    text = "J'ai une douleur très forte dans la poitrine, que faire ?"
    forms = [misspelt(text, random.Random(seed)) for seed in range(50)]
    assert forms == [misspelt(text, random.Random(seed)) for seed in range(50)]
    assert len(set(forms)) > 20
    assert all(abs(len(form) - len(text)) < 8 for form in forms)


@pytest.mark.long
@pytest.mark.weights
def test_a_head_is_trained_reported_saved_and_checked(tmp_path: Path) -> None:
    """From end to end on a part of the messages, with an encoder without weights."""
    messages = [message for message in read_messages() if message.language in ("en", "de", "fr", "es")][::12]
    encoder = HashingEncoder(dim=16)
    data = prepared(messages, encoder)
    assert isinstance(data, Data)
    of_kind, language = cross_validated(data)
    assert of_kind.sum(axis=1) == pytest.approx(np.ones(len(messages)), abs=1e-3)
    text = report(data, of_kind, language, 0.5)
    assert all(f"| {kind} |" in text for kind in KINDS)
    assert emergencies_of(of_kind).max() <= 1.0 + 1e-3
    save(tmp_path, data, 0.5)
    file = tmp_path / "dev.jsonl"
    file.write_text(
        '{"message": "my dad is not breathing", "emergency": true}\n{"message": "hi", "emergency": false}\n'
    )
    told = checked(file, load_head(tmp_path), encoder)
    assert "emergencies noted: " in told
    assert "others noted wrongly: " in told
