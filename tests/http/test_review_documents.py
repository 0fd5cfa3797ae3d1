"""Reviews over HTTP: a document whose runs, columns, exclusions and exports are one account of the same articles."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
from http_calls import Site, fetch

QUESTION = "Is lasmiditan effective for the acute treatment of migraine?"
FIRST, SECOND = "first-key-of-a-reader", "second-key-of-a-reader"
REVIEWS = "/v1/reviews"


@pytest.fixture(scope="module")
def keyed(host_with: Any) -> Iterator[Any]:
    with host_with({"ARROWHEAD_SERVER__API_KEYS": f"{FIRST},{SECOND}"}) as server:
        yield server


def begun(site: Site, **fields: Any) -> str:
    status, made = site.call("POST", REVIEWS, {"question": QUESTION, **fields})
    assert status == 200, made
    return f"{REVIEWS}/{made['id']}"


def worked(site: Site, path: str) -> dict[str, Any]:
    """Wait for a job of a review, and return its result."""
    return dict(site.done(site.call("POST", f"{path}?wait=60", {}))["result"])


@pytest.mark.weights
def test_a_review_is_run_filled_excluded_from_exported_and_run_again(embedded_model: Any) -> None:
    """Counts, table, changes and exports agree; what is excluded by hand stays out of the next run."""
    site = Site(embedded_model.url)
    place = begun(site, options={"max_articles": 40})
    first = worked(site, f"{place}/runs")
    review = site.call("GET", place)[1]
    rows = review["record"]["details"]["evidence_table"]
    assert first["counts"] == review["flow"] and len(rows) == review["flow"]["included"] >= 2
    assert review["record"]["egress"] == "no data left this machine" and not review["stale"]

    columns = [{"name": "dose", "question": "Which dose was given?"}, {"name": "funding"}]
    assert site.call("PATCH", place, {"columns": columns})[1]["missing_cells"] == 2 * len(rows)
    assert worked(site, f"{place}/columns")["failed_cells"] == 0
    review = site.call("GET", place)[1]
    assert review["missing_cells"] == 0 and review["columns"][1]["question"] == "What is the funding?"
    for row in review["record"]["details"]["evidence_table"]:
        assert all(cell["value"] == cell["quote"] for cell in row["columns"].values())

    out = rows[0]["uid"]
    excluded = site.call("PATCH", place, {"excluded": [{"uid": out, "reason": "animals"}]})[1]
    assert excluded["flow"]["included"] == review["flow"]["included"] - 1
    assert excluded["flow"]["excluded_by_hand"] == 1
    sheet = fetch(f"{site.url}{place}/export?format=csv").body.decode("utf-8-sig")
    told = {one["pmid"]: one for one in csv.DictReader(io.StringIO(sheet))}
    assert all(one["dose"] for pmid, one in told.items() if pmid != out)
    report = fetch(f"{site.url}{place}/export?format=markdown").body.decode()
    assert f"- {out} " in report and "by hand, animals" in report and "not stated" in report

    again = worked(site, f"{place}/runs")
    assert [one["reason"] for one in again["changes"]["gone"]] == ["animals"]
    after = site.call("GET", place)[1]
    assert out not in [row["uid"] for row in after["record"]["details"]["evidence_table"]]
    assert after["flow"]["excluded_by_hand"] == 1 and not after["stale"] and after["missing_cells"] == 0
    assert after["runs"][0]["id"] == again["run"] and len(after["runs"]) == 2


@pytest.mark.weights
def test_the_job_of_a_run_keeps_no_text_of_it(embedded_model: Any) -> None:
    """While it runs it tells steps and text; a job that has ended is kept with numbers alone."""
    site = Site(embedded_model.url)
    worked(site, f"{begun(site)}/runs")
    job = next(one for one in site.call("GET", "/v1/jobs")[1]["data"] if one["kind"] == "review")
    assert (job["progress"]["steps"], job["progress"]["text"]) == ([], "")
    assert job["progress"]["flow"]["included"] >= 1
    assert "lasmiditan" not in json.dumps(job).casefold()


def test_reviews_belong_to_their_key(keyed: Any) -> None:
    mine, other = Site(keyed.url, FIRST), Site(keyed.url, SECOND)
    place = begun(mine)
    for method, path, body in (
        ("GET", place, None),
        ("PATCH", place, {"question": "Another?"}),
        ("POST", f"{place}/runs", {}),
        ("GET", f"{place}/export?format=ris", None),
        ("DELETE", place, None),
    ):
        status, reply = other.call(method, path, body)
        assert (status, reply["error"]["code"]) == (404, "review_not_found")
    assert other.call("GET", REVIEWS)[1]["data"] == []
    assert [one["question"] for one in mine.call("GET", REVIEWS)[1]["data"]] == [QUESTION]
    assert mine.call("DELETE", place)[1]["deleted"]
    assert mine.call("GET", place)[0] == 404


@pytest.mark.parametrize(
    ("body", "param"),
    [
        pytest.param({"question": " "}, "question", id="question_without_words"),
        pytest.param({"question": "q", "options": {"nope": 1}}, "arrowhead.nope", id="unknown_option"),
        pytest.param({"question": "q", "model": "scripted:genegpt"}, "model", id="model_that_reviews_nothing"),
        pytest.param({"question": "q", "columns": [{"name": "A"}, {"name": "a"}]}, "columns", id="two_of_a_name"),
        pytest.param({"question": "q", "columns": [{"name": " "}]}, "columns[0].name", id="column_without_name"),
    ],
)
def test_what_is_wrong_is_named(running: Any, body: dict[str, Any], param: str) -> None:
    status, reply = Site(running.url).call("POST", REVIEWS, body)
    assert (status, reply["error"]["param"]) == (422, param)


def test_only_articles_of_the_table_are_excluded_and_nothing_is_exported_before_a_run(running: Any) -> None:
    site = Site(running.url)
    place = begun(site)
    status, reply = site.call("PATCH", place, {"excluded": [{"uid": "1", "reason": "x"}]})
    assert (status, reply["error"]["param"]) == (422, "excluded[0].uid")
    assert fetch(f"{site.url}{place}/export?format=csv").status == 404
    assert worked(site, f"{place}/columns") == {"cells": 0, "failed_cells": 0}
    assert site.call("GET", place)[1]["record"] is None
