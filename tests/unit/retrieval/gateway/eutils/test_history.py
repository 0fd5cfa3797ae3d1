"""Searches by WebEnv: what one history gave out it answers for, within bounds of time, number and memory."""

from __future__ import annotations

import json
from pathlib import Path

from shipped_data import give_store

from retrieval.gateway.app import answer
from retrieval.gateway.eutils.history import History, StoredSearch
from retrieval.gateway.store.open import open_store


def test_a_webenv_is_answered_by_the_history_that_gave_it(tmp_path: Path) -> None:
    """The second search of a WebEnv does not lose the first; another history does not know it."""
    store, history = open_store(give_store(tmp_path)), History()
    call = {"db": "gene", "term": "HB*[sym]", "usehistory": "y", "retmode": "json"}
    found = json.loads(answer(store, "esearch", call, history).body)["esearchresult"]
    page = {"db": "gene", "query_key": found["querykey"], "webenv": found["webenv"], "retmode": "json", "retmax": "1"}
    assert len(json.loads(answer(store, "esummary", page, history).body)["result"]["uids"]) == 1

    both = json.loads(answer(store, "esearch", call | {"webenv": found["webenv"]}, history).body)["esearchresult"]
    assert both["querykey"] == "2"
    assert [history.find(both["webenv"], key) is not None for key in ("1", "2", "3")] == [True, True, False]
    assert "Unable to obtain query #1" in answer(store, "esummary", page, History()).body
    store.close()


def test_what_is_no_query_key_or_webenv_is_unknown() -> None:
    history = History()
    environment, key = history.keep("", StoredSearch("gene", {"term": "HBB"}))
    assert history.find(environment, str(key)) == StoredSearch("gene", {"term": "HBB"})
    assert [history.find(environment, wrong) for wrong in ("0", "2", "x", "", "²")] == [None] * 5
    assert [history.find(wrong, "1") for wrong in (environment[:-4], "MCID_", "MCID_ä", "")] == [None] * 4


def test_a_webenv_ends_eight_hours_after_its_last_use() -> None:
    now = [1e9]
    history = History(lambda: now[0])
    environment, _ = history.keep("", StoredSearch("gene", {"term": "HBB"}))
    now[0] += 8 * 3600 - 1
    assert history.find(environment, "1") is not None
    now[0] += 8 * 3600 + 1
    assert history.find(environment, "1") is None
    assert history.keep(environment, StoredSearch("gene", {"term": "HBA1"}))[1] == 1


def test_the_least_recently_used_make_room() -> None:
    """By bytes; the one in use stays, with its searches in the order in which they came."""
    history = History(max_bytes=300_000)
    uids = tuple(str(one) for one in range(2000))
    first, second = (history.keep("", StoredSearch("pubmed", {}, uids))[0] for _ in range(2))
    assert history.find(first, "1") is not None
    third, _ = history.keep("", StoredSearch("pubmed", {}, uids))
    assert [history.find(one, "1") is not None for one in (first, second, third)] == [True, False, True]
