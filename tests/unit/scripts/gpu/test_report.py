"""Steps are bounded in time and do not stop one another; the report says what was run and what came of it."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from scripts.gpu.report import Step, render, run_step, run_steps


def _step(name: str, code: str, limit_s: float = 60.0, **more: object) -> Step:
    return Step(name, f"the step {name}", (sys.executable, "-c", code), limit_s, **more)  # type: ignore[arg-type]


@pytest.mark.server
def test_a_failing_step_does_not_stop_the_others(tmp_path: Path) -> None:
    """One that passes with figures, one that fails, one that is not there, one that is not asked for, one more."""
    steps = [
        _step("good", "print('FIGURE speed=12 GB/s'); print('FIGURE a=b=c')"),
        _step("bad", "import sys; print('what went wrong'); sys.exit(3)"),
        Step("gone", "no such program", ("/no/such/program",), 5.0),
        _step("left", "raise SystemExit(1)", skipped="no folder was given"),
        _step("last", ""),
    ]
    said: list[str] = []
    outcomes = run_steps(steps, tmp_path, said.append)

    assert [one.status for one in outcomes] == ["passed", "failed", "failed", "skipped", "passed"]
    assert outcomes[0].figures == {"speed": "12 GB/s", "a": "b=c"}
    assert "what went wrong" in outcomes[1].tail and "FileNotFoundError" in outcomes[2].tail
    assert [one.is_failure for one in outcomes] == [False, True, True, False, False]
    assert len(said) == 2 * len(steps)


@pytest.mark.server
def test_a_step_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    """Its engine's processes hold the GPU; one that ignores SIGTERM is killed."""
    mark = tmp_path / "alive"
    child = (
        "import pathlib, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"for n in range(10**6): pathlib.Path({str(mark)!r}).write_text(str(n)); time.sleep(0.02)"
    )
    parent = (
        f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        "print('began', flush=True); time.sleep(600)"
    )
    outcome = run_step(_step("hangs", parent, limit_s=3.0), tmp_path, grace_s=0.5)

    assert outcome.status == "timed out" and outcome.is_failure and "began" in outcome.tail
    assert mark.exists()
    before = mark.read_text()
    time.sleep(0.3)
    assert mark.read_text() == before


@pytest.mark.server
def test_the_report_has_command_versions_card_figures_and_the_output_of_failures(tmp_path: Path) -> None:
    """In Markdown whose tables a | and a fence in the output do not break."""
    outcomes = run_steps(
        [
            _step("good", "print('FIGURE a|b=1')"),
            _step("bad", "print('``' + '`'); raise SystemExit(1)"),
            _step("left", "", skipped="no folder was given"),
        ],
        tmp_path,
        lambda _: None,
    )
    text = render(outcomes, {"GPUs": "NVIDIA X | 80 GiB", "versions": "vllm 0.32.0"})

    assert text.startswith("# Arrowhead on a GPU\n\n**FAILED**: 1 passed, 1 failed, 1 skipped\n")
    assert "| GPUs | NVIDIA X \\| 80 GiB |" in text and "| versions | vllm 0.32.0 |" in text
    assert "| the step good | passed |" in text and "a\\|b 1 |" in text
    assert f"{sys.executable} -c" in text and "Not run: no folder was given" in text
    assert text.count("```") % 2 == 0
    assert render(outcomes[:1], {}).splitlines()[2] == "**PASSED**: 1 passed"
