"""Folders of a test run's own, so that no test reads or writes those of the user who runs it.

One temporary folder a run, removed at its end; each worker has a home of its own in it. What is costly to make and the
same for all, the converted small model and compiled code, lies once in the run's folder.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import certifi
import pytest

_RUN: Final = "TEST_RUN_FOLDER"
# Where the evaluation data lie.
_KEPT: Final = ("ARROWHEAD_EVAL_DATA",)
_COMPILED: Final = ("VLLM_CACHE_ROOT", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")


def own_environment(home: Path) -> dict[str, str]:
    """Return the variables of this process for a child that keeps its files in ``home``, without those of Arrowhead."""
    return {name: value for name, value in os.environ.items() if not _is_users(name)} | {"HOME": str(home)}


def models_folder() -> Path:
    """Return the run's folder of converted models; a conversion takes seconds, and its lock lets only one do it."""
    if _RUN not in os.environ:  # a script that starts servers as the tests do
        os.environ[_RUN] = tempfile.mkdtemp(prefix="arrowhead-tests-")
        atexit.register(shutil.rmtree, os.environ[_RUN], ignore_errors=True)
    return Path(os.environ[_RUN]) / "models"


@contextmanager
def made_once(name: str) -> Iterator[Path]:
    """Hold a folder of the run: what another worker has made there is found, not made again."""
    folder = models_folder().with_name(name)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def home_with_models(home: Path) -> Path:
    """Make a home whose converted models are those of the run."""
    data = home / ".local" / "share" / "arrowhead"
    data.mkdir(parents=True, exist_ok=True)
    models_folder().mkdir(parents=True, exist_ok=True)
    if not (data / "models").exists():
        (data / "models").symlink_to(models_folder(), target_is_directory=True)
    return home


def _is_users(name: str) -> bool:
    return name.startswith(("ARROWHEAD_", "XDG_"))


def pytest_configure(config: pytest.Config) -> None:
    """Give this process a home of its own before any test file is imported."""
    worker: Mapping[str, object] | None = getattr(config, "workerinput", None)
    if worker is None:
        os.environ[_RUN] = tempfile.mkdtemp(prefix="arrowhead-tests-")
        os.environ.update({name: f"{os.environ[_RUN]}/compiled/{name.lower()}" for name in _COMPILED})
        os.environ["SSL_CERT_FILE"] = _one_authority(Path(os.environ[_RUN], "authority.pem"))
    for name in [name for name in os.environ if _is_users(name) and name not in _KEPT]:
        del os.environ[name]
    home = Path(os.environ[_RUN]) / ("main" if worker is None else str(worker["workerid"]))
    os.environ["HOME"] = str(home_with_models(home))


def _one_authority(file: Path) -> str:
    """Write the first of certifi's authorities for all clients of the run: to read all takes each of them 25 ms."""
    bundle, end = Path(certifi.where()).read_text(encoding="utf-8"), "-----END CERTIFICATE-----\n"
    file.write_text(bundle[: bundle.index(end) + len(end)], encoding="utf-8")
    return str(file)


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") and _RUN in os.environ:
        shutil.rmtree(os.environ.pop(_RUN), ignore_errors=True)
