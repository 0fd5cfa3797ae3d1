"""Where a Chromium is installed."""

from __future__ import annotations

import shutil
from typing import Final

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def installed() -> str | None:
    """The program's path, None where there is none."""
    return next((path for path in map(shutil.which, NAMES) if path), None)
