"""Saved questions: what is new since the last run, and files that survive."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from server.cli.review import SavedReview, SavedReviews, news_of, with_run
from server.errors import RequestError
from server.methods.shared.evidence_table import EvidenceRow, Exclusion, Review

MOMENT = "2026-11-23 13:05 UTC"


def row(uid: str, *notices: str) -> EvidenceRow:
    return EvidenceRow(number=1, uid=uid, title=f"Article {uid}", url="", notices=notices)


def saved(**fields: Any) -> SavedReview:
    return SavedReview(name="mig", question="Is it effective?", **fields)


def test_all_is_new_at_the_first_run_and_nothing_at_the_second() -> None:
    review = Review(rows=(row("1"), row("2")))
    first = news_of(saved(), review)
    assert [one.uid for one in first.new] == ["1", "2"]
    after = with_run(saved(), first, MOMENT)
    assert (after.runs, after.last_run) == (1, MOMENT)
    assert news_of(after, review).new == ()


def test_only_what_earlier_runs_did_not_have_is_new() -> None:
    known = with_run(saved(), news_of(saved(), Review(rows=(row("1"),))), MOMENT)
    later = Review(rows=(row("1"), row("3")))
    assert [one.uid for one in news_of(known, later).new] == ["3"]


def test_an_article_that_one_run_missed_is_not_new_again() -> None:
    known = with_run(saved(), news_of(saved(), Review(rows=(row("1"), row("2")))), MOMENT)
    without = with_run(known, news_of(known, Review(rows=(row("1"),))), MOMENT)
    assert news_of(without, Review(rows=(row("1"), row("2")))).new == ()


def test_a_known_article_that_is_retracted_is_told_once() -> None:
    known = with_run(saved(), news_of(saved(), Review(rows=(row("1"),))), MOMENT)
    review = Review(
        excluded=(Exclusion("1", "Article 1", "retracted", "retracted"), Exclusion("9", "O", "retracted", ""))
    )
    news = news_of(known, review)
    assert news.retracted == (("1", "Article 1"),)
    assert news_of(with_run(known, news, MOMENT), review).retracted == ()


def test_a_saved_review_comes_back_as_it_was(tmp_path: Path) -> None:
    store = SavedReviews(tmp_path / "reviews")
    one = with_run(saved(options={"queries": 2}, model="m:clinfo"), news_of(saved(), Review(rows=(row("1"),))), MOMENT)
    store.add(one)
    assert store.read("mig") == one
    assert store.names() == ["mig"]
    store.remove("mig")
    assert store.names() == []


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    store = SavedReviews(tmp_path / "reviews")
    store.add(saved())
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "reviews").iterdir()}
    assert modes == {"mig.json": 0o600, ".mig.lock": 0o600}
    assert stat.S_IMODE((tmp_path / "reviews").stat().st_mode) == 0o700


def test_a_name_is_taken_once(tmp_path: Path) -> None:
    store = SavedReviews(tmp_path)
    store.add(saved())
    with pytest.raises(RequestError, match="already"):
        store.add(saved())


@pytest.mark.parametrize("name", ["", "../x", "a/b", "A", ".x", "x.", "a" * 65, "a\nb"])
def test_a_name_is_no_path(tmp_path: Path, name: str) -> None:
    with pytest.raises(RequestError, match="no name for a review"):
        SavedReviews(tmp_path).add(SavedReview(name=name, question="q"))


def test_an_unknown_name_is_refused_with_those_there_are(tmp_path: Path) -> None:
    store = SavedReviews(tmp_path)
    store.add(saved())
    for refused in (store.read, store.remove):
        with pytest.raises(RequestError, match="there are: mig"):
            refused("other")


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", json.dumps({"format": "arrowhead-review/9"}), '{"format": "arrowhead-review/1", "x": 1}'],
)
def test_a_damaged_file_is_named(tmp_path: Path, text: str) -> None:
    store = SavedReviews(tmp_path)
    (tmp_path / "mig.json").write_text(text)
    with pytest.raises(RequestError, match=r"mig\.json"):
        store.read("mig")


def test_two_runs_at_once_are_refused(tmp_path: Path) -> None:
    store = SavedReviews(tmp_path)
    store.add(saved())
    with store.held("mig"), pytest.raises(RequestError, match="another process"), SavedReviews(tmp_path).held("mig"):
        pass
    with store.held("mig"):
        pass


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RequestError, match="cannot be written"):
        SavedReviews(tmp_path / "file").add(saved())


def test_only_the_newest_runs_are_stored() -> None:
    """A review that runs each night does not grow without end."""
    one, review = saved(), Review(rows=(row("1"),))
    for _ in range(12):
        one = with_run(one, news_of(one, review), MOMENT, review)
    assert [run["run"] for run in one.stored] == list(range(3, 13))
