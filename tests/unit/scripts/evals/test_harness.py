"""Records that outlive a kill, an endpoint that fails, and runs that go on."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from scripts.evals.harness.client import Asker, Target, http_client, retry_after
from scripts.evals.harness.command import Plan, execute
from scripts.evals.harness.errors import EndpointRefuses, RunFileInvalid
from scripts.evals.harness.records import Question, Record, Reply, digest_of, record_of
from scripts.evals.harness.run_file import Run, RunFile, last_records, read_records, run_of

RUN = Run(evaluation="mirage", model="m:medrag", dataset="d1", options={"k": 16})


def question(name: str = "q/1", text: str = "Why?") -> Question:
    return Question(
        id=name,
        group="q",
        text=text,
        key="B",
        options={"A": "x", "B": "y"},
        messages=({"role": "user", "content": text},),
    )


def record(name: str = "q/1", **reply: Any) -> Record:
    return Record(question(name), Reply(**{"text": "B", **reply}))


def failure(name: str = "q/1") -> Record:
    return record(name, text="", error={"kind": "timeout", "message": "late", "status": None, "code": None})


def quiet() -> Console:
    return Console(quiet=True)


def plan(endpoint: Any, path: Path, questions: list[Question], **changes: Any) -> Plan:
    target = Target(base_url=endpoint.url, model="m:medrag", options={"k": 16}, retries=0)
    made = Plan(
        run=RUN,
        target=target,
        questions=questions,
        path=path,
        score=lambda found: float(found.reply.text == "B"),
        concurrency=3,
    )
    return replace(made, **changes)


def test_a_record_comes_back_from_its_line() -> None:
    """All fields, line breaks and half of a surrogate pair among them."""
    one = record(
        text="B\n\ud800",
        reasoning="step\n",
        arrowhead={"answer": "B", "trace_id": "t"},
        annotations=({"type": "url_citation"},),
        usage={"total_tokens": 3},
        trace={"choices": [1]},
        seconds=1.5,
        attempts=2,
    )
    assert "\n" not in one.line()
    assert record_of(json.loads(one.line())) == one


def test_a_torn_last_line_is_cut_off_and_the_rest_is_kept(tmp_path: Path) -> None:
    """Whether the tear leaves no JSON or a whole object without its line break."""
    for torn in (record("q/3").line()[:40], record("q/3").line()):
        path = tmp_path / f"{len(torn)}.jsonl"
        with RunFile(path, RUN) as file:
            file.append(record("q/1"))
            file.append(record("q/2"))
        with path.open("a") as end:
            end.write(torn)
        assert [found.question.id for found in read_records(path)] == ["q/1", "q/2"]
        with RunFile(path, RUN) as file:
            file.append(record("q/4"))
        assert [found.question.id for found in read_records(path)] == ["q/1", "q/2", "q/4"]


def test_a_torn_first_line_begins_the_file_anew(tmp_path: Path) -> None:
    """A process killed before its first line was whole."""
    path = tmp_path / "run.jsonl"
    path.write_text('{"format": "arrowhead')
    with RunFile(path, RUN) as file:
        file.append(record())
    assert len(list(read_records(path))) == 1


@pytest.mark.parametrize(
    "other",
    [
        replace(RUN, model="m:direct"),
        replace(RUN, options={"k": 8}),
        replace(RUN, dataset="d2"),
        replace(RUN, form="cot"),
        replace(RUN, sampling={"temperature": 1.0}),
        replace(RUN, evaluation="kg-rag"),
    ],
)
def test_a_file_of_another_run_is_refused_and_left_as_it_is(tmp_path: Path, other: Run) -> None:
    """Model, options, sampling, form, dataset and evaluation make the run."""
    path = tmp_path / "run.jsonl"
    with RunFile(path, RUN) as file:
        file.append(record())
    before = path.read_bytes()
    with pytest.raises(RunFileInvalid):
        RunFile(path, other)
    assert path.read_bytes() == before
    assert run_of(path) == RUN


def test_two_processes_do_not_write_one_file(tmp_path: Path) -> None:
    """The second is told so."""
    with RunFile(tmp_path / "run.jsonl", RUN), pytest.raises(RunFileInvalid, match="another process"):
        RunFile(tmp_path / "run.jsonl", RUN)


def test_damage_inside_a_file_is_named_by_its_line(tmp_path: Path) -> None:
    """It is not skipped; neither is a file of another kind taken."""
    path = tmp_path / "run.jsonl"
    with RunFile(path, RUN) as file:
        file.append(record())
    path.write_bytes(path.read_bytes() + b'{"id": "q/2"}\n' + record("q/3").line().encode() + b"\n")
    with pytest.raises(RunFileInvalid, match="line 3"):
        list(read_records(path))
    other = tmp_path / "other.jsonl"
    other.write_text('{"question": "old"}\n')
    with pytest.raises(RunFileInvalid):
        RunFile(other, RUN)


def test_a_reply_is_not_undone_by_a_failure_that_came_after_it(tmp_path: Path) -> None:
    """Of several replies the last counts."""
    path = tmp_path / "run.jsonl"
    with RunFile(path, RUN) as file:
        for one in (failure("q/1"), record("q/1", text="A"), record("q/1", text="C"), failure("q/1"), failure("q/2")):
            file.append(one)
    assert [(found.question.id, found.reply.text) for found in last_records(path)] == [("q/1", "C"), ("q/2", "")]


def test_the_digest_is_of_what_is_asked_not_of_how() -> None:
    """Order and messages do not change it; a key does."""
    one, two = question("q/1"), question("q/2", "What?")
    assert digest_of([one, two]) == digest_of([two, replace(one, messages=())])
    assert digest_of([one]) != digest_of([replace(one, key="A")])


@pytest.mark.parametrize(
    ("header", "seconds"),
    [(None, None), ("2", 2.0), ("0", 0.0), ("-3", 0.0), ("9999", 120.0), ("nan", None), ("soon", None)],
)
def test_retry_after_is_a_number_of_seconds(header: str | None, seconds: float | None) -> None:
    """At most two minutes."""
    assert retry_after(header) == seconds


async def ask(endpoint: Any, **changes: Any) -> Reply:
    target = Target(**{"base_url": endpoint.url, "model": "m", **changes})
    async with http_client(target, 2) as http:
        return await Asker(target, http, first_wait_s=0.01).ask(question())


async def test_what_our_server_adds_is_kept(endpoint: Any, completion_of: Callable[..., Any]) -> None:
    """The marked answer, steps, references and the trace that its number names."""
    marked = {"answer": "B", "trace_id": "chatcmpl-1"}
    endpoint.answer = lambda body: completion_of(
        "B [1]", arrowhead=marked, reasoning_content="step\n", annotations=[{"type": "url_citation"}]
    )
    endpoint.traces["chatcmpl-1"] = {"choices": [{"spans": []}]}
    reply = await ask(endpoint, options={"k": 3}, sampling={"temperature": 0.0}, api_key="secret")
    assert (reply.text, reply.reasoning, reply.marked_answer) == ("B [1]", "step\n", "B")
    assert reply.trace == {"choices": [{"spans": []}]}
    assert reply.usage == {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
    assert reply.error is None
    assert endpoint.asked[0]["arrowhead"] == {"k": 3}
    assert endpoint.asked[0]["temperature"] == 0.0
    assert endpoint.headers[0]["Authorization"] == "Bearer secret"


async def test_a_busy_endpoint_is_asked_again_when_it_says(endpoint: Any) -> None:
    """429 and 503, and a connection that was lost."""
    answers: Iterator[Any] = iter([(429, {"Retry-After": "0"}, {}), (503, {"Retry-After": "0.01"}, {}), None, "B"])
    endpoint.answer = lambda body: next(answers)
    reply = await ask(endpoint)
    assert (reply.text, reply.attempts, reply.error) == ("B", 4, None)


@pytest.mark.parametrize(
    ("answer", "kind", "asked"),
    [
        ((429, {"Retry-After": "0"}, {"error": {"message": "full", "code": "queue_full"}}), "busy", 3),
        ((422, {}, {"error": {"message": "k: too large", "code": "invalid_option"}}), "refused", 1),
        ((500, {}, b"<html>"), "refused", 1),
        ((200, {}, b"<html>"), "malformed", 1),
        ((200, {}, {"choices": []}), "malformed", 1),
        (None, "connection", 3),
    ],
)
async def test_a_failure_is_a_reply_that_says_so(endpoint: Any, answer: Any, kind: str, asked: int) -> None:
    """Only what may pass is asked again, and not for ever."""
    endpoint.answer = lambda body: answer
    reply = await ask(endpoint, retries=2)
    assert reply.error is not None
    assert reply.error["kind"] == kind
    assert reply.error["message"]
    assert len(endpoint.asked) == asked


async def test_a_reply_that_does_not_come_is_a_failure(endpoint: Any) -> None:
    """The time limit is on the whole request."""
    over = threading.Event()
    endpoint.answer = lambda body: over.wait(5) and "B"
    reply = await ask(endpoint, timeout_s=0.1)
    over.set()
    assert reply.error is not None
    assert reply.error["kind"] == "timeout"


async def test_a_wrong_key_or_model_ends_the_run(endpoint: Any) -> None:
    """Every other question would meet the same."""
    endpoint.answer = lambda body: (404, {}, {"error": {"message": "no model m", "code": "model_not_found"}})
    with pytest.raises(EndpointRefuses, match="no model m"):
        await ask(endpoint)


def test_a_run_asks_each_question_once_and_goes_on_with_the_rest(endpoint: Any, tmp_path: Path) -> None:
    """Also with more questions than before."""
    questions = [question(f"q/{n}", f"Q{n}") for n in range(8)]
    path = tmp_path / "run.jsonl"
    assert execute(plan(endpoint, path, questions[:5]), quiet()) == 0
    assert execute(plan(endpoint, path, questions), quiet()) == 0
    assert execute(plan(endpoint, path, questions), quiet()) == 0
    assert sorted(endpoint.questions) == [f"Q{n}" for n in range(8)]
    assert sorted(found.question.id for found in read_records(path)) == [f"q/{n}" for n in range(8)]


def test_failures_are_records_and_are_asked_again_only_where_that_is_wanted(endpoint: Any, tmp_path: Path) -> None:
    """The second run without the flag asks nothing."""
    broken = {"Q1", "Q3"}
    endpoint.answer = lambda body: (500, {}, {}) if body["messages"][-1]["content"] in broken else "B"
    questions = [question(f"q/{n}", f"Q{n}") for n in range(4)]
    path = tmp_path / "run.jsonl"
    assert execute(plan(endpoint, path, questions), quiet()) == 0
    assert sorted(found.question.text for found in last_records(path) if found.failed) == ["Q1", "Q3"]
    broken.clear()
    assert execute(plan(endpoint, path, questions), quiet()) == 0
    assert len(endpoint.asked) == 4
    assert execute(plan(endpoint, path, questions, retry_failed=True), quiet()) == 0
    assert sorted(endpoint.questions) == ["Q0", "Q1", "Q1", "Q2", "Q3", "Q3"]
    assert not any(found.failed for found in last_records(path))


def test_an_endpoint_that_is_gone_ends_the_run_early(endpoint: Any, tmp_path: Path) -> None:
    """What failed is on record, the other questions are left to a later run."""
    endpoint.answer = lambda body: (500, {}, {"error": {"message": "dead"}})
    questions = [question(f"q/{n}", f"Q{n}") for n in range(50)]
    path, console = (
        tmp_path / "run.jsonl",
        Console(record=True, width=200, quiet=False, file=(tmp_path / "out").open("w")),
    )
    assert execute(plan(endpoint, path, questions, max_failures=4), console) == 1
    said = console.export_text()
    assert "4 requests failed one after the other" in said
    assert "dead" in said
    assert "requests FAILED" in said
    assert "questions not asked yet" in said
    assert 4 <= len(list(read_records(path))) <= 7


def test_an_address_where_nothing_listens_costs_no_question(endpoint: Any, tmp_path: Path) -> None:
    """Code 1: it may be there later."""
    path = tmp_path / "run.jsonl"
    made = plan(endpoint, path, [question()])
    gone = replace(made, target=replace(made.target, base_url="http://127.0.0.1:9/v1"))
    assert execute(gone, quiet()) == 1
    assert list(read_records(path)) == []
    assert execute(made, quiet()) == 0


def test_a_run_that_is_refused_says_why_and_writes_no_record(endpoint: Any, tmp_path: Path) -> None:
    """Code 2."""
    endpoint.answer = lambda body: (401, {}, {"error": {"message": "no such key"}})
    path = tmp_path / "run.jsonl"
    assert execute(plan(endpoint, path, [question()]), quiet()) == 2
    assert list(read_records(path)) == []
