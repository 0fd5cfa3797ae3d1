"""Read the wordings of questions and statements that were written by hand."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

LANGUAGES = ("en", "de", "fr", "es")


@cache
def wordings() -> dict[str, Any]:
    """Return the content of ``wordings.toml``."""
    return tomllib.loads((files("scripts.verifier") / "wordings.toml").read_text(encoding="utf-8"))
