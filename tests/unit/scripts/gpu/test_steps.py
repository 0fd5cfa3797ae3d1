"""The steps run files that are there, each with a limit."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.gpu.steps import chosen, steps_for

ROOT = Path(__file__).parents[4]
STEPS = steps_for("python", Path("/models/m"), None)


def test_every_step_runs_something_that_is_here_and_has_an_end() -> None:
    """Tests by their path, our own checks by their module."""
    for step in STEPS:
        assert step.command[0] == "python" and step.command[1] == "-m" and 0 < step.limit_s <= 3600
        if step.is_pytest:
            (path,) = [word for word in step.command if word.startswith("tests/")]
            assert (ROOT / path).exists() and step.command[2] == "pytest"
            assert step.command[-2:] == ("--vllm-device", "cuda")
        else:
            assert (ROOT / (step.command[2].replace(".", "/") + ".py")).is_file()
    assert len({step.name for step in STEPS}) == len(STEPS)


def test_a_quantised_checkpoint_is_tested_where_a_folder_is_given() -> None:
    """And otherwise the report says how to give one."""
    (without,) = chosen(STEPS, "quantised")
    (given,) = chosen(steps_for("python", Path("/m"), Path("/fp8")), "quantised")
    assert "--checkpoint" in without.skipped and not given.skipped and "/fp8" in given.command


def test_some_steps_can_be_chosen() -> None:
    assert [step.name for step in chosen(STEPS, "survival, parity")] == ["survival", "parity"]
    assert chosen(STEPS, None) == STEPS
    for only in ("parity,nothing", " "):
        with pytest.raises(ValueError, match="there is no step"):
            chosen(STEPS, only)
