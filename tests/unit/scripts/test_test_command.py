"""scripts/test, run for real over stand-ins for the tools in .venv/bin that write down what they are asked to do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import tiers
import yaml

ROOT = Path(__file__).parents[3]
TOOL = """#!/usr/bin/env bash
echo "$(basename "$0")${*:+ $*}" | head -1 >>"$LOG"
case "$*" in *pytest*) echo "$OMP_NUM_THREADS" >"$LOG.threads" && echo "$TMPDIR" >"$LOG.folder" ;; esac
"""
CORES = len(os.sched_getaffinity(0))
QUICK_WORKERS, WORKERS = min(4, CORES), min(4, CORES + 1)
IN_PARALLEL = "--dist loadgroup --no-loadscope-reorder"
QUICK = "smoke or not (server or weights or vllm or browser or long or gpu or live or clients)"
QUICK_TESTS = f"python -m pytest -n {QUICK_WORKERS} {IN_PARALLEL} -m {QUICK}"
EVERY_TEST = f"python -m pytest -n {WORKERS} {IN_PARALLEL} --hypothesis-profile full --durations 40 --durations-min 5"
LINT = ["ruff format --check server retrieval models scripts tests", "ruff check server retrieval models scripts tests"]


class Checkout:
    """A copy of what the script reads, with the stand-ins in place."""

    def __init__(self, root: Path) -> None:
        self.root, self.log, self.threads = root, root / "log", root / "log.threads"
        (root / "scripts").mkdir()
        for name in ("test", "_venv.sh", "vllm_cpu_requirements.py"):
            shutil.copy(ROOT / "scripts" / name, root / "scripts")
        shutil.copy(ROOT / "pyproject.toml", root)
        for folder in ("unit/models", "contract", "http"):
            (root / "tests" / folder).mkdir(parents=True)
        (root / "tests" / "unit" / "models" / "test_types.py").touch()
        programs = [f".venv/bin/{tool}" for tool in ("python", "ruff", "mypy", "lint-imports")]
        # System packages are no matter of this test: the script finds them there.
        for program in (*programs, "bin/blastn", "bin/chromium", "bin/tesseract", "bin/haproxy"):
            path = root / program
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(TOOL)
            path.chmod(0o755)
        (root / ".venv" / "pyvenv.cfg").touch()

    def run(self, *arguments: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
        """The finished script, and the checks that it ran."""
        self.log.write_text("")
        path = f"{self.root / 'bin'}:{os.environ['PATH']}"
        done = subprocess.run(
            [str(self.root / "scripts" / "test"), *arguments],
            env={"PATH": path, "LOG": str(self.log), "ARROWHEAD_NO_VLLM": "1"},
            capture_output=True,
            text=True,
            timeout=120,
        )
        found = self.log.read_text().splitlines()
        return done, [line for line in found if line.split()[0] != "python" or "-m pytest" in line]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "ran"),
    [
        (("lint",), LINT),
        (("types",), ["mypy"]),
        (("imports",), ["lint-imports"]),
        (("unit",), ["python -m pytest tests/unit"]),
        (("unit", "models", "-x"), ["python -m pytest -x tests/unit/models"]),
        (("unit", "models/test_types.py::test_a"), ["python -m pytest tests/unit/models/test_types.py::test_a"]),
        (("unit", "tests/unit/models"), ["python -m pytest tests/unit/models"]),
        (("contract",), ["python -m pytest tests/contract"]),
        (("http", "-k", "chat"), ["python -m pytest -k chat tests/http"]),
        (("-q", "tests/http"), ["python -m pytest -q tests/http"]),
        (("tests/unit/models/test_types.py::test_a",), ["python -m pytest tests/unit/models/test_types.py::test_a"]),
    ],
)
def test_a_word_runs_its_check_alone(checkout: Checkout, arguments: tuple[str, ...], ran: list[str]) -> None:
    """What is no word goes to pytest as it is."""
    done, found = checkout.run(*arguments)

    assert (done.returncode, found) == (0, ran)


@pytest.mark.parametrize(("arguments", "tests"), [((), QUICK_TESTS), (("all",), EVERY_TEST)])
def test_a_whole_run_has_all_checks(checkout: Checkout, arguments: tuple[str, ...], tests: str) -> None:
    """Types beside the others, which come before the tests; the folder of the run is its own, and gone afterwards."""
    done, found = checkout.run(*arguments)

    assert done.returncode == 0
    assert [one for one in found if one != "mypy"] == [*LINT, "lint-imports", tests] and "mypy" in found
    folder = Path((checkout.root / "log.folder").read_text().strip())
    assert folder.is_absolute() and not folder.exists()


def test_types_that_fail_are_told_after_the_tests(checkout: Checkout) -> None:
    """They take as long as a part of the tests, which are run beside them."""
    (checkout.root / ".venv" / "bin" / "mypy").write_text("#!/usr/bin/env bash\necho that is wrong\nexit 3\n")
    done, found = checkout.run()

    assert (done.returncode, done.stdout.splitlines()[-1]) == (3, "that is wrong")
    assert QUICK_TESTS in found


@pytest.mark.parametrize("tool", ["ruff", "lint-imports"])
def test_a_check_that_fails_ends_the_run(checkout: Checkout, tool: str) -> None:
    """With what it says, before any test."""
    (checkout.root / ".venv" / "bin" / tool).write_text("#!/usr/bin/env bash\necho that is wrong\nexit 3\n")
    done, found = checkout.run()

    assert (done.returncode, done.stdout) == (3, "that is wrong\n")
    assert QUICK_TESTS not in found


def test_the_workers_share_the_cores(checkout: Checkout) -> None:
    """Each computes with its part of them; alone, a test has them all."""
    checkout.run()
    assert checkout.threads.read_text() == f"{CORES // QUICK_WORKERS}\n"
    checkout.run("all")
    assert checkout.threads.read_text() == f"{max(1, CORES // WORKERS)}\n"
    checkout.run("unit")
    assert checkout.threads.read_text() == "\n"


def test_the_help_names_every_check_and_runs_none(checkout: Checkout) -> None:
    """It needs no installation."""
    done, found = checkout.run("--help")

    named = re.findall(r"^  \./scripts/test (\w+)", done.stdout, re.MULTILINE)
    assert (done.returncode, found, checkout.log.read_text()) == (0, [], "")
    checks = ["all", "lint", "types", "imports", "unit", "contract", "http", "browser"]
    assert [name for name in named if name.islower()] == checks


@pytest.mark.parametrize("arguments", [("lnit",), ("units", "models"), ("lint", "server"), ("all", "-x")])
def test_an_unknown_word_is_refused(checkout: Checkout, arguments: tuple[str, ...]) -> None:
    """Nothing is installed or run, and the status is that of wrong usage."""
    done, found = checkout.run(*arguments)

    assert (done.returncode, found, checkout.log.read_text()) == (2, [], "")
    assert "error:" in done.stderr


def test_the_quick_tests_are_those_without_a_marker_of_a_slow_tier() -> None:
    """The script leaves out exactly what the guard lets through."""
    (expression,) = re.findall(
        r'^readonly QUICK="smoke or not \((.*)\)"$', (ROOT / "scripts" / "test").read_text(), re.M
    )
    assert set(expression.split(" or ")) == tiers.SLOW


def test_the_hooks_call_the_checks_of_the_script() -> None:
    """A hook is a word of scripts/test, so a commit passes what the whole run checks."""
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    entries = [hook["entry"].split() for repo in config["repos"] for hook in repo["hooks"]]

    assert {entry[0] for entry in entries} == {"./scripts/test"}
    assert [entry[1] for entry in entries] == ["lint", "types", "imports", "unit"]
    assert all((ROOT / "tests" / "unit" / path).exists() for entry in entries for path in entry[2:])
