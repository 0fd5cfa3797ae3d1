"""Samples that are kept in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.training.packing import Encoded
from scripts.training.prepared import PreparedSteps, write_steps

FIRST = Encoded((1, 2, 3, 70_000), (False, False, True, True), 0.5)
SECOND = Encoded((1, 2, 3, 9, 8), (False, False, False, True, True))
STEPS = [[[FIRST, SECOND], [SECOND]], [[FIRST]]]


def test_a_file_gives_back_what_was_written(tmp_path: Path) -> None:
    write_steps(tmp_path / "steps.npz", STEPS)
    read = PreparedSteps(tmp_path / "steps.npz")

    assert len(read) == 2
    assert [read.groups(step) for step in range(2)] == STEPS


def test_a_step_that_is_not_there_is_refused(tmp_path: Path) -> None:
    write_steps(tmp_path / "steps.npz", STEPS)

    with pytest.raises(IndexError, match="2 steps, and no step 2"):
        PreparedSteps(tmp_path / "steps.npz").groups(2)
