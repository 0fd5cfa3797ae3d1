"""WebEnvs that carry their searches: every copy with the key answers, and no other text counts as one."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from retrieval.gateway.app import answer
from retrieval.gateway.eutils.history import KEY_FILE, SignedHistory, StoredSearch, history_key
from retrieval.gateway.store.open import open_store

KEY = b"one key"


def test_a_copy_answers_for_the_webenv_of_another(tmp_path: Path) -> None:
    """Over one folder, whose key both read; the second search of a WebEnv does not lose the first."""
    store = open_store(tmp_path)
    first, second = (SignedHistory(history_key(tmp_path)) for _ in range(2))
    call = {"db": "gene", "term": "HB*[sym]", "usehistory": "y", "retmode": "json"}
    found = json.loads(answer(store, "esearch", call, first).body)["esearchresult"]
    page = {"db": "gene", "query_key": found["querykey"], "webenv": found["webenv"], "retmode": "json", "retmax": "1"}
    assert len(json.loads(answer(store, "esummary", page, second).body)["result"]["uids"]) == 1

    both = json.loads(answer(store, "esearch", call | {"webenv": found["webenv"]}, second).body)["esearchresult"]
    assert both["querykey"] == "2"
    assert [first.find(both["webenv"], key) is not None for key in ("1", "2", "3")] == [True, True, False]
    wrong = answer(store, "esummary", page, SignedHistory(b"another key")).body
    assert "Unable to obtain query #1" in wrong
    store.close()


def test_the_key_of_a_folder_is_made_once(tmp_path: Path) -> None:
    """For its owner alone."""
    assert history_key(tmp_path) == history_key(tmp_path)
    assert (tmp_path / KEY_FILE).stat().st_mode & 0o777 == 0o600


def test_a_folder_that_cannot_be_written_has_a_key_of_this_copy(tmp_path: Path) -> None:
    assert history_key(tmp_path / "absent") != history_key(tmp_path / "absent")


def test_a_changed_or_foreign_webenv_is_unknown() -> None:
    history = SignedHistory(KEY)
    environment, key = history.keep("", StoredSearch("gene", {"term": "HBB", "webenv": "x" * 50}))
    assert history.find(environment, str(key)) == StoredSearch("gene", {"term": "HBB"})
    text = environment.removeprefix("MCID_")
    sent = bytearray(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    sent[-1] ^= 1
    changed = "MCID_" + base64.urlsafe_b64encode(bytes(sent)).rstrip(b"=").decode()
    for wrong in (changed, environment[:-4], environment[5:], "MCID_", "MCID_ä", "", "MCID_" + "A" * 100_000):
        assert history.find(wrong, "1") is None
    assert SignedHistory(b"another").find(environment, "1") is None
    assert [history.find(environment, wrong) for wrong in ("0", "2", "x", "", "²")] == [None] * 5


def test_a_webenv_ends_after_eight_hours() -> None:
    now = [1e9]
    history = SignedHistory(KEY, lambda: now[0])
    environment, _ = history.keep("", StoredSearch("gene", {"term": "HBB"}))
    now[0] += 8 * 3600 - 1
    assert history.find(environment, "1") is not None
    now[0] += 2
    assert history.find(environment, "1") is None
    assert history.keep(environment, StoredSearch("gene", {"term": "HBA1"}))[1] == 1


@pytest.mark.parametrize(("number", "is_signed"), [(500, True), (10_000, False)])
def test_ids_too_many_for_a_url_stay_in_memory(number: int, is_signed: bool) -> None:
    """With the searches before them, under the same keys; in the order in which they came."""
    history, other = SignedHistory(KEY), SignedHistory(KEY)
    uids = tuple(str(one * 7919 % 40_000_000) for one in range(number))
    first, _ = history.keep("", StoredSearch("gene", {"term": "HBB"}))
    environment, key = history.keep(first, StoredSearch("pubmed", {}, uids))
    assert key == 2 and len(environment) <= 24 * 1024
    assert history.find(environment, "2") == StoredSearch("pubmed", {}, uids)
    assert history.find(environment, "1") == StoredSearch("gene", {"term": "HBB"})
    assert (other.find(environment, "2") is not None) is is_signed
    assert history.keep(environment, StoredSearch("gene", {"term": "HBD"}))[1] == 3
