"""The list of collections, and the time that this machine takes for them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from models.encoders.base import PassageText
from server.evidence.collections import Collection, Pace, collections, measured_pace


class CountingEncoder:
    """Count the passages that it is given; all that the measurement asks of an encoder."""

    def __init__(self) -> None:
        self.passages = 0

    def encode_passages(self, passages: Sequence[PassageText]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
        self.passages += len(passages)
        return np.zeros((len(passages), 2), np.float32)


def collection(articles: int = 0, tokens: int = 0) -> Collection:
    return Collection(
        name="n",
        what="w",
        size="s",
        licence="l",
        address="a",
        commands=("c",),
        resume="r",
        articles=articles,
        tokens=tokens,
    )


def test_each_collection_says_what_it_costs_and_how_it_is_added() -> None:
    listed = collections()

    assert {one.name for one in listed} >= {"pubmed", "pmc-open-access", "statpearls", "textbooks", "guidelines"}
    assert all(one.size and one.licence and one.address and one.resume for one in listed)
    assert all(any(command.startswith("arrowhead ") for command in one.commands) for one in listed)


def test_the_time_is_that_of_its_articles_or_its_tokens() -> None:
    """Unknown is no time, not a short one."""
    pace = Pace(articles=100.0, tokens=1_000.0)

    assert pace.seconds(collection(articles=500)) == pytest.approx(5.0)
    assert pace.seconds(collection(tokens=500)) == pytest.approx(0.5)
    assert pace.seconds(collection()) == 0


def test_the_pace_is_measured_on_a_real_import_and_the_encoder() -> None:
    encoder = CountingEncoder()
    pace = measured_pace(encoder)  # type: ignore[arg-type]  # one method of the protocol

    assert pace.articles > 1
    assert pace.tokens > 1
    assert encoder.passages > 10
