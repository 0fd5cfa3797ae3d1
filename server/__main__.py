"""Run the ``arrowhead`` command, also as ``python -m server``."""

from __future__ import annotations

import gc
import sys
from typing import Final

# Imports make many objects and no garbage: at the usual 700, collecting is a twelfth of a short command's time.
_OBJECTS_BEFORE_COLLECTION: Final = 50_000


def run() -> int:
    """Run the command line of this process and return its exit status."""
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTION)
    from server.cli.main import main

    return main()


# An engine that starts its workers with "spawn" imports this module again in each of them.
if __name__ == "__main__":
    sys.exit(run())
