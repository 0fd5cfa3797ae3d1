"""A run: equal seeds give equal weights, interrupted or not, in one process or several."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from scripts.training.packing import Encoded
from scripts.training.trainer import Plan, Run

PLAN = Plan(steps=6, seed=1, rate=1e-2, warm_up=1, decay=4, workers=1)
NEVER = 1e9
# Tests drop the variables of the product from their environment.
ALONE = "TRAINER_TEST_ALONE"


def _groups(step: int) -> list[list[Encoded]]:
    draw = random.Random(step)
    start = tuple(draw.randrange(97) for _ in range(12))
    learn = (False,) * 15 + (True,) * 5
    return [[Encoded((*start, *(draw.randrange(97) for _ in range(8))), learn) for _ in range(2)] for _ in range(3)]


def _run(model: Any, folder: Path, plan: Plan = PLAN) -> Run:
    return Run(model, plan, _groups, folder)


def _weights(run: Run) -> torch.Tensor:
    return torch.cat([p.detach().flatten().clone() for p in run.parameters.values()])


def test_a_resumed_run_has_the_weights_of_an_uninterrupted_one(tiny_model: Callable[[], Any], tmp_path: Path) -> None:
    whole = _run(tiny_model(), tmp_path / "whole")
    whole.train(NEVER)
    _run(tiny_model(), tmp_path / "parts").train(NEVER, until=2)
    resumed = _run(tiny_model(), tmp_path / "parts")
    resumed.resume()
    resumed.train(NEVER)

    assert torch.equal(_weights(whole), _weights(resumed))
    assert [row["step"] for row in resumed.log] == [1, 2, 3, 4, 5, 6]
    assert [plan["from_step"] for plan in resumed.plans] == [0, 2]


@pytest.mark.server
@pytest.mark.skipif(ALONE not in os.environ, reason="runs in a process of its own, which the next test starts")
def test_several_workers_add_the_same_gradients(tiny_model: Callable[[], Any], tmp_path: Path) -> None:
    one = _run(tiny_model(), tmp_path / "one")
    two = _run(tiny_model(), tmp_path / "two", Plan(6, 1, 1e-2, 1, 4, workers=2))
    one.train(NEVER)
    two.train(NEVER)

    assert torch.allclose(_weights(one), _weights(two), atol=1e-4)


@pytest.mark.server
def test_workers_of_a_fresh_process_add_the_same_gradients() -> None:
    """As the command starts them: a copy of a process whose threads have computed waits for these for ever."""
    test = f"{__file__}::test_several_workers_add_the_same_gradients"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
    done = subprocess.run(
        command, env=os.environ | {ALONE: "1"}, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout


def test_training_lowers_the_loss(tiny_model: Callable[[], Any], tmp_path: Path) -> None:
    run = Run(tiny_model(), Plan(30, 1, 2e-2, 1, 10, workers=1), lambda step: _groups(0), tmp_path)
    run.train(NEVER)

    assert run.log[-1]["loss"] < 0.5 * run.log[0]["loss"]


def test_a_run_without_checkpoint_cannot_be_resumed(tiny_model: Callable[[], Any], tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        _run(tiny_model(), tmp_path).resume()


def test_a_torn_checkpoint_leaves_the_one_before(tiny_model: Callable[[], Any], tmp_path: Path) -> None:
    """The state file is replaced last, so files of a newer step beside it count for nothing."""
    run = _run(tiny_model(), tmp_path)
    run.train(NEVER, until=2)
    before = _weights(run)
    (tmp_path / "adapter-3.safetensors").write_bytes(b"torn")
    (tmp_path / "state.json.new").write_text("{")
    again = _run(tiny_model(), tmp_path)
    again.resume()

    assert torch.equal(_weights(again), before)
    assert json.loads((tmp_path / "state.json").read_text())["step"] == again.step == 2


def test_the_rate_rises_stays_and_falls() -> None:
    plan = Plan(steps=100, rate=1.0, warm_up=10, decay=50)

    assert [round(plan.rate_at(step), 3) for step in (0, 9, 49, 75, 99)] == [0.1, 1.0, 1.0, 0.5, 0.001]
