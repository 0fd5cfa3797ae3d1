"""The command: on a machine without a GPU it says so at once; with one, it reports."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from scripts.gpu.verify import main


def no_gpu(_: Sequence[str]) -> str:
    return ""


def one_gpu(command: Sequence[str]) -> str:
    return "NVIDIA H100, 81559 MiB, 580.65, 9.0" if command[0] == "nvidia-smi" else "0123abc"


def test_without_a_gpu_it_ends_at_once_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([], no_gpu) == 2
    told = capsys.readouterr()
    assert told.out == "" and "no GPU: run this on the GPU host" in told.err


def test_a_step_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "nothing"], one_gpu) == 1
    assert "there is no step nothing; steps: gpu-tests" in capsys.readouterr().err


def test_the_steps_can_be_listed_anywhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"], no_gpu) == 0
    assert len(capsys.readouterr().out.splitlines()) == 8


def test_the_report_names_the_card_and_is_written_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A step that is skipped is no failure; an installation that failed is one, with its last lines."""
    out, log = tmp_path / "report.md", tmp_path / "log"
    log.write_text("no matching distribution\n")
    arguments = ["--only", "quantised", "--out", str(out)]

    assert main([*arguments, "--install-status=0", "--install-seconds=7"], one_gpu) == 0
    text = out.read_text()
    assert "NVIDIA H100, 81559 MiB, 580.65, 9.0" in text and "0123abc" in text and "--install-" not in text
    assert "| the gpu extra installs | passed | 7 |" in text and text in capsys.readouterr().out

    assert main([*arguments, "--install-status=1", f"--install-log={log}"], one_gpu) == 1
    assert "no matching distribution" in out.read_text()
