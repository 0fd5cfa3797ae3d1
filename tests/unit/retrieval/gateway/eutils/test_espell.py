"""Words of queries are spelled as the index spells them, in NCBI's layout."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
from Bio import Entrez

from retrieval.gateway.app import answer
from retrieval.gateway.store.open import open_store
from retrieval.gateway.store.reader import GatewayStore


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayStore]:
    opened = open_store(tmp_path_factory.mktemp("gateway"))
    yield opened
    opened.close()


def spelled(store: GatewayStore, term: str, db: str = "pubmed") -> Any:
    reply = answer(store, "espell", {"db": db, "term": term})
    return Entrez.read(io.BytesIO(reply.body.encode()), validate=True)


@pytest.mark.parametrize(
    ("term", "corrected"),
    [
        ("lasmiditn", "lasmiditan"),
        ("lasmiditna", "lasmiditan"),
        ("migrainne OR asthmaa", "migraine OR asthma"),
        ("lasmeditn OR migraine", "lasmiditan OR migraine"),
    ],
)
def test_a_word_that_stands_nowhere_becomes_a_near_one(store: GatewayStore, term: str, corrected: str) -> None:
    """One letter missing, added, replaced or swapped; in long words two."""
    reply = spelled(store, term)
    assert (reply["Query"], reply["CorrectedQuery"]) == (term, corrected)


@pytest.mark.parametrize("term", ["migraine", "qqqqqqqqq", "BRCA1x", "IL99", "tnfb", "AND OR", "<&>", "ß" * 6])
def test_other_words_stay(store: GatewayStore, term: str) -> None:
    """Those of the index, those like none of its words, short ones, and names with digits."""
    assert spelled(store, term)["CorrectedQuery"] == ""


def test_a_bad_call_gets_an_error_body(store: GatewayStore) -> None:
    with pytest.raises(RuntimeError, match="Empty term"):
        spelled(store, " ")
    with pytest.raises(RuntimeError, match="Invalid db name"):
        spelled(store, "x", db="nope")


def test_a_long_query_is_bounded(store: GatewayStore) -> None:
    """Of so many wrong words the first forty are corrected, and the rest is told as it was written."""
    reply = spelled(store, " ".join(["migrainne"] * 60))
    assert reply["CorrectedQuery"].split().count("migraine") == 40
