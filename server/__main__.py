"""Run the ``arrowhead`` command, also as ``python -m server``."""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import sys
from typing import Final

# Imports make many objects and no garbage: at the usual 700, collecting is a twelfth of a short command's time.
_OBJECTS_BEFORE_COLLECTION: Final = 50_000


def run() -> int:
    """Run the command line of this process and return its exit status."""
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTION)
    # The first to be registered runs last: what other code has to say at the end is said before.
    atexit.register(_close_stderr)
    from server.cli.main import main

    return main()


def _close_stderr() -> None:
    """Keep libraries quiet while the interpreter is taken down: triton lists what it leaves to the system to free."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, 2)
        os.close(sink)


# An engine that starts its workers with "spawn" imports this module again in each of them.
if __name__ == "__main__":
    sys.exit(run())
