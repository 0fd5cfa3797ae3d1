"""The scenarios' verdicts: what counts as lost, late, out of order or beyond a rate."""

from __future__ import annotations

import json
import os
import subprocess

from scripts.benchmarks.serving.scenarios.replicas import Resumes, Stream, kill_verdict
from scripts.benchmarks.serving.scenarios.servers import counted, is_alive
from scripts.benchmarks.serving.scenarios.site import LONG
from scripts.benchmarks.serving.scenarios.verdict import Verdict, added_ms, allowed_requests, first_out_of_order
from scripts.benchmarks.serving.streams import Outcome

WHOLE = Outcome(status=200, pieces=[LONG.lstrip()], done=True, silence_s=0.4)


def test_a_verdict_is_one_line_of_json() -> None:
    line = Verdict("rates", False, {"answered": 7}).line()
    assert "\n" not in line
    assert {"scenario": "rates", "pass": False, "answered": 7}.items() <= json.loads(line).items()


def test_a_bucket_admits_what_it_holds_and_what_it_gains() -> None:
    """60 at once, and one more after each second."""
    assert list(allowed_requests(60, 0.9)) == [60]
    assert list(allowed_requests(60, 2.5)) == [60, 61, 62]


def test_jobs_end_in_the_order_in_which_they_were_sent() -> None:
    assert first_out_of_order([3, 5, 9]) is None
    assert first_out_of_order([3, 9, 5, 10]) == 5
    assert first_out_of_order([]) is None


def test_what_http_adds_is_the_difference_of_medians() -> None:
    added, ratio = added_ms([0.02, 0.03, 9.0], [0.01, 0.02, 0.02])
    assert (round(added), round(ratio, 1)) == (10, 1.5)


def test_a_resume_is_cached_where_it_computes_no_more_than_allowed() -> None:
    found = Resumes([0.1, 0.1], [60, 61], [60, 60])
    assert (found.num_cached, found.figures()["resumes"]) == (1, 2)


def test_streams_that_do_not_end_whole_are_counted() -> None:
    """Cut, ended with an error object, and shorter than they should be."""
    cut = Outcome(status=200, pieces=[" 00"], is_broken=True)
    failed = Outcome(status=200, pieces=[" 00"], error="engine_unavailable", done=True)
    short = Outcome(status=200, pieces=[" 00"], done=True)
    figures = counted([WHOLE, cut, failed, short], [WHOLE, Outcome(status=502)])
    assert (figures["streams"], figures["whole"], figures["ended_with_an_error"]) == (4, 1, 2)
    assert (figures["requests_meanwhile"], figures["requests_refused"]) == (2, 1)
    assert figures["longest_silence_s"] == 0.4


def test_a_kill_fails_by_a_lost_stream_or_a_long_silence() -> None:
    """Other ids are counted, and no failure: greedy text is the same, but for ties."""
    calm = [Stream([1, 2], 0.1), Stream([3, 4], 0.1)]
    assert kill_verdict(calm, calm, 2).is_met
    other = kill_verdict(calm, [Stream([1, 9], 0.2), Stream([3, 4], 4.9)], 2)
    assert other.is_met and other.figures["other_ids"] == 1
    assert not kill_verdict(calm, [Stream([1, 2], 5.1), calm[1]], 2).is_met
    lost = kill_verdict(calm, [calm[0], ConnectionError()], 2)
    assert not lost.is_met and lost.figures["lost"] == 1


def test_an_ended_process_is_not_alive() -> None:
    """Also before its parent has waited for it."""
    assert is_alive(os.getpid())
    process = subprocess.Popen(["true"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read()
    for _ in range(1000):
        if not is_alive(process.pid):
            break
    assert process.wait() == 0 and not is_alive(process.pid)
