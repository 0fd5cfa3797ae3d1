"""The ``arrowhead`` command: its exit status and what it printed.

In pytest's own process, without a start of Python, for what a command does and says; as a process of its own where it
serves, or is killed, or what it imports matters.
"""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from unittest import mock

from server.cli.main import main

ROOT: Final = Path(__file__).parents[2]
# What keeps a command, and the programs that it starts, off the network.
_KEPT: Final = ("PYTHONPATH", "NETWORK_BLOCK_LOG")


@dataclass(frozen=True)
class Done:
    """An ended command."""

    returncode: int
    stdout: str
    stderr: str


def command_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a command: these, and none of the user's."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {"PATH": "/usr/local/bin:/usr/bin:/bin"} | kept | dict(environment)


def arrowhead(environment: Mapping[str, str], *words: str) -> Done:
    """Run one command line to its end, with these variables."""
    out, err = io.StringIO(), io.StringIO()
    variables = mock.patch.dict("os.environ", command_environment(environment), clear=True)
    with variables, _own_logging(), redirect_stdout(out), redirect_stderr(err):
        status = main(words)
    return Done(status, out.getvalue(), err.getvalue())


def arrowhead_process(environment: Mapping[str, str], *words: str) -> Done:
    """Do the same with a process."""
    command, variables = [sys.executable, "-m", "server", *words], command_environment(environment)
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False, timeout=240)
    return Done(done.returncode, done.stdout, done.stderr)


@contextmanager
def _own_logging() -> Iterator[None]:
    """Give the loggers back as they were: a command sets up those of its process."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    loggers = [one for one in logging.Logger.manager.loggerDict.values() if isinstance(one, logging.Logger)]
    levels = {one: one.level for one in loggers}
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.handlers[:] = handlers
        root.setLevel(level)
        for one, before in levels.items():
            one.setLevel(before)
