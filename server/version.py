"""Report the installed version, its licence and, if known, the commit that it was built from."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

# Of the project, as pyproject.toml has it; NOTICE names those of the parts that others made.
LICENCE: Final = "Apache-2.0"
_COMMIT: Final = re.compile(r"[0-9a-f]{7,64}")


def installed_version() -> str:
    """Return the installed version, "unknown" in a checkout that was not installed."""
    try:
        return version("arrowhead")
    except PackageNotFoundError:
        return "unknown"


def commit(package: Path | None = None) -> str | None:
    """Return the commit from the file COMMIT beside this one, else from the surrounding checkout, None if unknown.

    The build of an image writes the file.
    """
    folder = package or Path(__file__).parent
    revision = _read(folder / "COMMIT") or _checked_out(folder.parent / ".git")
    return revision if _COMMIT.fullmatch(revision) else None


def _checked_out(git: Path) -> str:
    head = _read(git / "HEAD")
    name = head.removeprefix("ref: ")
    if name == head:
        return head
    packed = (line.split(" ", 1) for line in _read(git / "packed-refs").splitlines() if " " in line)
    return _read(git / name) or next((commit for commit, ref in packed if ref == name), "")


def _read(path: Path) -> str:
    """Return the text of a file, "" if it cannot be read."""
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
