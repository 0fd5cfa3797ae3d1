"""The simulation's steps, its cache and its places, counted by hand."""

from __future__ import annotations

import pytest

from scripts.benchmarks.serving.simulate_replicas import (
    Result,
    Routing,
    Setup,
    StepTimes,
    Workload,
    check,
    quantile,
    simulate,
)

STEP = StepTimes(base_s=0.010, per_sequence_s=0.001, per_prompt_token_s=0.0001)
ONE = Workload(
    users=1,
    pause_s=0.0,
    prompt_tokens=100,
    generations=2,
    sampled_tokens=10,
    reply_tokens=20,
    call_s=0.5,
    block_size=32,
)


def setup(replicas: int = 1, routing: Routing = "sticky", **changes: float) -> Setup:
    return Setup(replicas=replicas, routing=routing, **({"warm_up_s": 0.0, "seconds": 100.0} | changes))  # type: ignore[arg-type]


def test_one_answer_takes_its_steps_and_its_call() -> None:
    """100 tokens and the first one in a step, nine steps; a call; 34 tokens that are not cached, and nine steps."""
    found = simulate(ONE, setup(), STEP)
    # Of the resume's 130 tokens 109 are known, 96 of them in whole blocks.
    first, resume = 0.011 + 100 * 0.0001 + 9 * 0.011, 0.011 + 34 * 0.0001 + 9 * 0.011
    assert found.answer_s[0] == pytest.approx(first + 0.5 + resume)
    assert found.figures()["computed_per_answer"] == pytest.approx(134, rel=0.02)


def test_a_prompt_longer_than_the_budget_takes_several_steps() -> None:
    found = simulate(ONE, setup(budget=60), STEP)
    assert found.answer_s[0] == pytest.approx(simulate(ONE, setup(), STEP).answer_s[0] + 0.010, abs=0.0021)


def test_answers_share_steps() -> None:
    """Four at once on one replica take little longer than one, and as long as one on four."""
    four = Workload(users=4, pause_s=0.0, prompt_tokens=10, generations=1, sampled_tokens=100)
    alone = simulate(Workload(users=1, pause_s=0.0, prompt_tokens=10, generations=1, sampled_tokens=100), setup(), STEP)
    together = simulate(four, setup(), STEP)
    ratio = together.figures()["answers_per_s"] / alone.figures()["answers_per_s"]
    assert ratio == pytest.approx(4 * 11 / 14, rel=0.05)


def test_random_routing_computes_prefixes_again() -> None:
    """On one replica nothing changes; on eight, most resumes find nothing."""
    work = Workload(users=32, pause_s=1.0)
    computed = {
        (number, routing): simulate(work, setup(number, routing, seconds=200.0), STEP).figures()["computed_per_answer"]
        for number in (1, 8)
        for routing in ("sticky", "random")
    }
    assert computed[1, "random"] == pytest.approx(computed[1, "sticky"], rel=0.05)
    # 1,300 and four resumes of a reply, a last token and the rest of a block.
    assert computed[8, "sticky"] * 1.02 >= 1300 + 4 * 31 and computed[8, "sticky"] <= 1.05 * (1300 + 4 * 63)
    assert computed[8, "random"] > 3 * computed[8, "sticky"]


def test_more_answers_than_places_wait() -> None:
    """The wait counts for the user and not for the answer's time with a place; nothing is lost."""
    work = Workload(users=64, pause_s=0.0)
    found = simulate(work, setup(max_num_seqs=8), STEP).figures()
    assert found["p50_s"] > 6 * found["admitted_p50_s"]


def test_replicas_add_throughput_where_users_wait() -> None:
    work = Workload(users=400, pause_s=0.0)
    rates = [simulate(work, setup(n), STEP).figures()["answers_per_s"] for n in (1, 2, 4)]
    assert rates[1] / rates[0] == pytest.approx(2, rel=0.1) and rates[2] / rates[1] == pytest.approx(2, rel=0.1)


def test_figures_of_nothing_are_zero() -> None:
    assert Result(10.0).figures() == {"answers_per_s": 0.0, "computed_per_answer": 0.0, "p50_s": 0.0, "p99_s": 0.0}
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0 and quantile([1.0], 0.99) == 1.0


def test_a_measurement_stands_beside_its_simulation() -> None:
    measured = {
        "step_times": {"base_s": 0.01, "per_sequence_s": 0.001, "per_prompt_token_s": 0.0001},
        "workload": {"users": 8, "pause_s": 0.0},
        "sticky": {"answers_per_s": 3.0},
        "random": {"answers_per_s": 2.0},
    }
    found = check(measured)
    assert found["sticky_of_random_measured"] == 1.5
    assert found["sticky"]["simulated"]["answers_per_s"] > found["random"]["simulated"]["answers_per_s"] > 0
