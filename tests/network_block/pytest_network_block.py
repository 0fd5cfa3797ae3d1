"""The network block as a pytest plugin: this process and every Python process that it starts; a try fails the session.

Tests marked ``live`` talk to the real NCBI: a run that selects them by ``-m live`` has no block.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import network_block
import pytest

FOLDER = Path(__file__).parent
_attempts = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("markexpr") == "live":
        return
    # A worker of xdist writes into the log of the run that started it, which alone reads and removes it.
    if not hasattr(config, "workerinput"):
        log = Path(tempfile.mkdtemp(prefix="network-block-")) / "attempts.jsonl"
        config.stash[_attempts] = log
        os.environ["PYTHONPATH"] = os.pathsep.join([str(FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])])
        os.environ[network_block.LOG] = str(log)
    network_block.install()


def pytest_sessionfinish(session: pytest.Session) -> None:
    if any(_tried(session.config)):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    tried = dict.fromkeys(_tried(config))
    if tried:
        terminalreporter.section("other machines that were tried to reach", red=True)
        for line in tried:
            terminalreporter.line(line)


def pytest_unconfigure(config: pytest.Config) -> None:
    log = config.stash.get(_attempts, None)
    if log is not None:
        shutil.rmtree(log.parent, ignore_errors=True)


def _tried(config: pytest.Config) -> Iterator[str]:
    log = config.stash.get(_attempts, None)
    for line in log.read_text().splitlines() if log and log.exists() else ():
        entry = json.loads(line)
        yield f"{entry['what']} by {entry['program'] or '?'} in {entry['test'] or 'no test'}"
