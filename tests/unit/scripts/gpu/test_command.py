"""scripts/verify_gpu itself, over stand-ins for nvidia-smi and for the environment's Python."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
PYTHON = """#!/usr/bin/env bash
echo "$*" | head -1 >>"$LOG"
case "$*" in
*"pip"*"install"*) exit "${PIP_STATUS:-0}" ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "scripts").mkdir()
    for name in ("scripts/verify_gpu", "scripts/_venv.sh", "scripts/vllm_cpu_requirements.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    _program(tmp_path / ".venv/bin/python", PYTHON)
    (tmp_path / ".venv/pyvenv.cfg").touch()
    return tmp_path


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def _run(checkout: Path, *arguments: str, smi: str | None = None, pip: int = 0) -> subprocess.CompletedProcess[str]:
    """``smi``: the body of a stand-in for nvidia-smi."""
    if smi is not None:
        _program(checkout / "bin/nvidia-smi", f"#!/bin/sh\n{smi}\n")
    paths = [str(checkout / "bin"), "/usr/bin", "/bin"]
    environment = {"PATH": os.pathsep.join(paths), "LOG": str(checkout / "log"), "PIP_STATUS": str(pip)}
    command = ["bash", str(checkout / "scripts/verify_gpu"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)


@pytest.mark.parametrize("smi", [None, "exit 9", "echo 'No devices found.'"])
def test_without_a_gpu_it_says_so_at_once_and_installs_nothing(checkout: Path, smi: str | None) -> None:
    """No driver, a driver that does not answer, a driver without a card."""
    if smi is None and shutil.which("nvidia-smi", path="/usr/bin:/bin"):
        pytest.skip("nvidia-smi is installed here")
    done = _run(checkout, smi=smi)
    assert done.returncode == 2 and "no NVIDIA GPU" in done.stderr and "driver 580" in done.stderr
    assert not (checkout / "log").exists()


def test_an_environment_for_cpus_is_left_alone(checkout: Path) -> None:
    """Two FAISS packages, or two vLLM packages, in one environment overwrite each other."""
    (checkout / ".venv/.installed-dev").touch()
    done = _run(checkout, smi="echo 'GPU 0: X'")
    assert done.returncode == 2 and "fresh checkout" in done.stderr and not (checkout / "log").exists()


def test_with_a_gpu_it_installs_and_verifies_with_what_it_was_given(checkout: Path) -> None:
    done = _run(checkout, "--model", "/models/a b", smi="echo 'GPU 0: X'")
    lines = (checkout / "log").read_text().splitlines()
    assert done.returncode == 0, done.stderr
    assert any(line.endswith("install -e .[gpu,postgres]") for line in lines)
    assert any(line.endswith("install -e .[gpu,dev]") for line in lines)
    assert lines[-1].startswith("-m scripts.gpu.verify --install-status=0 ") and "--model /models/a b" in lines[-1]


def test_an_installation_that_fails_is_in_the_report(checkout: Path) -> None:
    """The steps run all the same: each says what it lacks."""
    _run(checkout, smi="echo 'GPU 0: X'", pip=1)
    assert "-m scripts.gpu.verify --install-status=1 " in (checkout / "log").read_text()


def test_its_help_says_what_it_is_for(checkout: Path) -> None:
    done = _run(checkout, "--help")
    assert done.returncode == 0 and "--checkpoint DIR" in done.stdout and "Exit code" in done.stdout
