"""Run the steps of a verification one after the other, each with a limit of time, and write the report."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_TAIL_LINES = 25
_FIGURE = re.compile(r"^FIGURE ([^=\n]{1,80})=(.{1,200})$", re.MULTILINE)
_GRACE_S = 20.0


@dataclass(frozen=True, slots=True)
class Step:
    """One check: a command that ends with 0 if it passes, and says its figures in lines ``FIGURE name=value``.

    ``skipped`` is the reason why it is not run, "" if it is.
    """

    name: str
    title: str
    command: tuple[str, ...]
    limit_s: float
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a step. ``status``: passed, failed, timed out, skipped."""

    step: Step
    status: str
    seconds: float = 0.0
    figures: Mapping[str, str] = field(default_factory=dict)
    tail: str = ""

    @property
    def is_failure(self) -> bool:
        return self.status not in ("passed", "skipped")


def run_steps(steps: Sequence[Step], folder: Path, say: Callable[[str], None]) -> list[Outcome]:
    """Run all steps, in order. None of them stops those behind it."""
    outcomes = []
    for step in steps:
        say(f"{step.name}: {step.title} …")
        outcomes.append(run_step(step, folder))
        say(f"{step.name}: {outcomes[-1].status}, {outcomes[-1].seconds:.0f} s")
    return outcomes


def run_step(step: Step, folder: Path, grace_s: float = _GRACE_S) -> Outcome:
    """Run one step in a process group of its own, which is ended with all that it started.

    ``grace_s``: how long a group has between SIGTERM and SIGKILL.
    """
    if step.skipped:
        return Outcome(step, "skipped", tail=step.skipped)
    log = folder / f"{step.name}.log"
    began = time.monotonic()
    with log.open("wb") as output:
        try:
            child = subprocess.Popen(
                step.command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
        except OSError as error:
            return Outcome(step, "failed", tail=f"{type(error).__name__}: {error}")
        try:
            status = "passed" if child.wait(step.limit_s) == 0 else "failed"
        except subprocess.TimeoutExpired:
            status = "timed out"
        finally:
            _end_group(child, grace_s)
    seconds = time.monotonic() - began
    text = log.read_text(encoding="utf-8", errors="replace")
    tail = "\n".join(text.splitlines()[-_TAIL_LINES:])
    return Outcome(step, status, seconds, dict(_FIGURE.findall(text)), tail)


def _end_group(child: subprocess.Popen[bytes], grace_s: float) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, number)
        except ProcessLookupError:
            break
        deadline = time.monotonic() + grace_s
        while time.monotonic() < deadline and _group_lives(child):
            time.sleep(0.05)
    child.wait(_GRACE_S)


def _group_lives(child: subprocess.Popen[bytes]) -> bool:
    child.poll()
    try:
        os.killpg(child.pid, 0)
    except ProcessLookupError:
        return False
    return True


def render(outcomes: Sequence[Outcome], facts: Mapping[str, str]) -> str:
    """The report: what it ran on, one line for each step, then command, figures and, of failures, the last output."""
    failures = sum(one.is_failure for one in outcomes)
    lines = ["# Arrowhead on a GPU", "", f"**{'FAILED' if failures else 'PASSED'}**: {_count(outcomes)}", ""]
    lines += ["| | |", "| --- | --- |", *(f"| {_cell(name)} | {_cell(value)} |" for name, value in facts.items()), ""]
    lines += ["| step | result | seconds | figures |", "| --- | --- | --- | --- |"]
    for one in outcomes:
        figures = "; ".join(f"{name} {value}" for name, value in one.figures.items())
        lines.append(f"| {_cell(one.step.title)} | {one.status} | {one.seconds:.0f} | {_cell(figures)} |")
    for one in outcomes:
        lines += ["", f"## {one.step.name}: {one.status}", ""]
        lines += ["```", " ".join(one.step.command) or "(none)", "```"]
        lines += [f"- {name}: {value}" for name, value in one.figures.items()]
        if one.status == "skipped":
            lines += [f"Not run: {one.tail}"]
        elif one.is_failure:
            lines += ["", "```text", one.tail.replace("```", "'''"), "```"]
    return "\n".join(lines) + "\n"


def _count(outcomes: Sequence[Outcome]) -> str:
    states = [one.status for one in outcomes]
    return ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
