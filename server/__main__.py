"""Run the ``arrowhead`` command as ``python -m server``."""

from __future__ import annotations

import sys

from server.cli.main import main

# An engine that starts its workers with "spawn" imports this module again in each of them.
if __name__ == "__main__":
    sys.exit(main())
