"""``python -m server`` is ``arrowhead``."""

from __future__ import annotations

import sys

from server.cli import main

# An engine that starts its workers with "spawn" imports this module again in each of them.
if __name__ == "__main__":
    sys.exit(main())
