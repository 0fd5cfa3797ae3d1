"""scripts/gpu/first_light: its parts, its report, and a dry run on the processor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from scripts.gpu.parts import NO_GPU, chosen, main, steps

ROOT = Path(__file__).parents[4]
STARTS_OF_VLLM = {"tiny", "http", "shape"}


def no_card(command: Sequence[str]) -> str:
    return ""


def test_all_parts_together_take_eight_minutes_at_most() -> None:
    """Three of them start vLLM; a dry run has the same parts."""
    parts = steps("python", dry=False, without_vllm=False)
    assert sum(one.limit_s for one in parts) <= 480 and {one.name for one in parts} >= STARTS_OF_VLLM
    assert [one.name for one in steps("python", dry=True, without_vllm=False)] == [one.name for one in parts]
    assert all(one.command[-1] == "--dry" for one in steps("python", dry=True, without_vllm=False))


def test_without_vllm_the_rest_runs() -> None:
    assert {one.name for one in steps("python", dry=False, without_vllm=True) if one.skipped} == STARTS_OF_VLLM


def test_parts_are_chosen_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    found = chosen(steps("python", dry=True, without_vllm=False), "index, tiny")
    assert [one.name for one in found] == ["tiny", "index"]
    assert main(["--only", "disk"], no_card) == 1
    assert "no part is called disk: there are tiny, http" in capsys.readouterr().err


def test_without_a_card_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([], no_card) == NO_GPU
    assert "nvidia-smi lists no GPU" in capsys.readouterr().err


def _dry(folder: Path, *arguments: str) -> list[dict[str, object]]:
    done = subprocess.run(
        [str(ROOT / "scripts" / "gpu" / "first_light"), "--dry", "--out", str(folder), *arguments],
        env=os.environ | {"PYTHON": sys.executable, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=3000,
    )
    report = json.loads((folder / "report.json").read_text())
    assert (done.returncode, {one["output"] for one in report["parts"]}) == (0, {""}), done.stdout
    assert (folder / "report.md").read_text() in done.stdout and "**PASSED**" in done.stdout
    return list(report["parts"])


@pytest.mark.server
@pytest.mark.weights
@pytest.mark.long
def test_a_dry_run_without_vllm(tmp_path: Path) -> None:
    """Index and encoder, each with figures."""
    parts = _dry(tmp_path, "--without-vllm")
    wanted = dict.fromkeys(STARTS_OF_VLLM, "skipped") | {"index": "passed", "encoders": "passed"}
    assert {one["name"]: one["status"] for one in parts} == wanted
    assert all(one["figures"] for one in parts if one["status"] == "passed")


# Three starts of vLLM; what they show of the engine is shown by the tests of the engine too.
@pytest.mark.vllm
@pytest.mark.long
@pytest.mark.timeout(3000)
def test_a_dry_run_of_vllms_parts(tmp_path: Path) -> None:
    """On the CPU build: the transcripts are the processor's, the stream has its answer, our loop and vLLM's write."""
    parts = {str(one["name"]): one["figures"] for one in _dry(tmp_path, "--only", "tiny,http,shape")}
    assert isinstance(tiny := parts["tiny"], dict) and tiny["transcripts equal to the processor's"] == "4 of 4"
    assert isinstance(shape := parts["shape"], dict) and "ratio" in str(shape["tokens/s at 2"])
