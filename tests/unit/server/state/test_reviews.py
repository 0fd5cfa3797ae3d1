"""Reviews are kept for their key alone, in two halves, and sealed where there is a seal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.fernet import Fernet, MultiFernet
from refusals import refused_for

from retrieval.storage.records import Record, Records, Selection, SqliteDatabase
from server.errors import REVIEW_UNKNOWN, REVIEWS_FULL
from server.evidence.reviews.document import Column, ReviewResult
from server.methods.shared.evidence_table import Finding
from server.state.reviews import MAX_REVIEWS, StoredReviews

MINE, OTHER = "mine", "other"
RESULT = ReviewResult(model="m").with_cells("Which dose?", {"1": Finding("5 mg", "It was 5 mg.")})


@pytest.fixture
def records(tmp_path: Path) -> Iterator[Records]:
    opened = Records(SqliteDatabase(tmp_path / "records.sqlite"))
    yield opened
    opened.close()


def seal() -> MultiFernet:
    return MultiFernet([Fernet(Fernet.generate_key())])


def bodies(records: Records) -> bytes:
    return b"".join(one.body for kind in ("review", "review_result") for one in records.page(Selection(kind=kind)))


def test_a_change_of_the_document_and_a_run_lose_nothing_of_each_other(records: Records) -> None:
    store = StoredReviews(records, None, now=lambda: 7.0)
    made = store.create(MINE, "Does it help?", "m", {"columns": (Column("dose", "Which dose?"),)})
    store.save_result(MINE, made.id, RESULT)
    store.change(MINE, made.id, {"question": "Does it harm?"})
    assert (store.get(MINE, made.id).question, store.get(MINE, made.id).columns) == ("Does it harm?", made.columns)
    assert store.result(MINE, made.id) == RESULT


def test_a_review_of_another_key_is_as_if_it_were_not_there(records: Records) -> None:
    store = StoredReviews(records, None)
    made = store.create(MINE, "Does it help?", "m", {})
    for work in (store.get, store.delete):
        with refused_for(REVIEW_UNKNOWN):
            work(OTHER, made.id)
    with refused_for(REVIEW_UNKNOWN):
        store.save_result(OTHER, made.id, RESULT)
    assert store.page(OTHER) == [] and store.page(MINE) == [made]


def test_a_deleted_review_leaves_nothing_and_takes_no_result(records: Records) -> None:
    store = StoredReviews(records, None)
    made = store.create(MINE, "Does it help?", "m", {})
    store.save_result(MINE, made.id, RESULT)
    store.delete(MINE, made.id)
    with refused_for(REVIEW_UNKNOWN):
        store.save_result(MINE, made.id, RESULT)
    assert bodies(records) == b""


def test_a_key_has_a_bounded_number_of_reviews(records: Records) -> None:
    store = StoredReviews(records, None)
    for _ in range(MAX_REVIEWS):
        store.create(MINE, "q", "m", {})
    with refused_for(REVIEWS_FULL):
        store.create(MINE, "q", "m", {})
    store.create(OTHER, "q", "m", {})


def test_a_seal_hides_what_is_stored_and_reads_what_was_plain(records: Records) -> None:
    plain = StoredReviews(records, None).create(MINE, "An old question?", "m", {})
    assert b"An old question?" in bodies(records)
    sealed = StoredReviews(records, seal())
    new = sealed.create(MINE, "A new question?", "m", {})
    sealed.save_result(MINE, new.id, RESULT)
    assert b"A new question?" not in bodies(records) and b"5 mg" not in bodies(records)
    assert (sealed.get(MINE, plain.id), sealed.result(MINE, new.id)) == (plain, RESULT)


def test_without_its_seal_or_damaged_a_review_is_not_there(records: Records, caplog: pytest.LogCaptureFixture) -> None:
    made = StoredReviews(records, seal()).create(MINE, "q", "m", {})
    for other in (None, seal()):
        with refused_for(REVIEW_UNKNOWN):
            StoredReviews(records, other).get(MINE, made.id)
    records.put(Record(kind="review", id=made.id, owner=MINE, body=b'["rev'))
    whole = StoredReviews(records, None).create(MINE, "q", "m", {})
    assert StoredReviews(records, None).page(MINE, limit=1) == [whole]
    assert f"a stored review is damaged: id={made.id}" in caplog.text
