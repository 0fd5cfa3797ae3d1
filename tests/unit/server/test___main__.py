"""The process of the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CHILD = """
import atexit, os, sys
from server.__main__ import run

import pytest
sys.argv = ["arrowhead", "--version"]
status = run()
atexit.register(lambda: print("said by other code at the end", file=sys.stderr))
print("before", file=sys.stderr)

class Leak:
    def __del__(self):
        os.write(2, b"nanobind: leaked 4 instances!")

sys.modules["held to the very end"] = Leak()
sys.exit(status)
"""


@pytest.mark.server
def test_libraries_are_quiet_while_the_interpreter_is_taken_down() -> None:
    """What the program itself says before is still said."""
    paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    child = subprocess.run(
        [sys.executable, "-c", CHILD],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": paths},
    )
    assert child.returncode == 0
    assert child.stderr == "before\nsaid by other code at the end\n"
