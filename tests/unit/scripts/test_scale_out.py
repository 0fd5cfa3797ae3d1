"""The scenarios' verdicts: what counts as cached, lost or late."""

from __future__ import annotations

import json

from scripts.benchmarks.serving.scale_out import Resumes, Stream, Verdict, kill_verdict


def test_a_verdict_is_one_line_of_json() -> None:
    line = Verdict("cached", False, {"resumes": 7}).line()
    assert "\n" not in line
    assert {"scenario": "cached", "pass": False, "resumes": 7}.items() <= json.loads(line).items()


def test_a_resume_is_cached_where_it_computes_no_more_than_allowed() -> None:
    found = Resumes([0.1, 0.1], [60, 61], [60, 60])
    assert (found.num_cached, found.figures()["resumes"]) == (1, 2)


def test_a_kill_fails_by_a_lost_stream_or_a_long_silence() -> None:
    """Other ids are counted, and no failure: greedy text is the same, but for ties."""
    calm = [Stream([1, 2], 0.1), Stream([3, 4], 0.1)]
    assert kill_verdict(calm, calm).is_met
    other = kill_verdict(calm, [Stream([1, 9], 0.2), Stream([3, 4], 4.9)])
    assert other.is_met and other.figures["other_ids"] == 1
    assert not kill_verdict(calm, [Stream([1, 2], 5.1), calm[1]]).is_met
    lost = kill_verdict(calm, [calm[0], ConnectionError()])
    assert not lost.is_met and lost.figures["lost"] == 1
