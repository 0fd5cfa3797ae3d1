"""A run: equal seeds give equal weights, interrupted or not."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from scripts.training.packing import Encoded
from scripts.training.trainer import Plan, Run

PLAN = Plan(steps=6, seed=1, rate=1e-2, warm_up=1, decay=4)
NEVER = 1e9


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


def test_training_lowers_the_loss(tiny_model: Callable[[], Any], tmp_path: Path) -> None:
    run = Run(tiny_model(), Plan(30, 1, 2e-2, 1, 10), lambda step: _groups(0), tmp_path)
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
