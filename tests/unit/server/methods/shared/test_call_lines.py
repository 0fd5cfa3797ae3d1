"""One line for each call."""

from __future__ import annotations

from typing import Any

import pytest

from models.decoding.types import CallReply
from server.methods.shared.call_lines import summary


@pytest.mark.parametrize(
    ("record", "phrase"),
    [
        ({"endpoint": "esearch", "num_records": 3}, "3 ids"),
        ({"endpoint": "esearch", "num_records": 1, "ignored_words": ["XYZQQQ"]}, "1 id, not of XYZQQQ"),
        ({"endpoint": "esearch", "num_records": 2, "ignored_words": ["a-1", "b"]}, "2 ids, not of a-1, b"),
        ({"endpoint": "esummary", "num_records": 2}, "2 records"),
        ({"endpoint": "einfo", "num_records": 0}, "0 databases"),
    ],
)
def test_a_reply_is_summed_up_in_a_phrase(record: dict[str, Any], phrase: str) -> None:
    """With the words that a search was without: its records are not of them."""
    assert summary(CallReply("[...]", "ok", record)) == phrase
