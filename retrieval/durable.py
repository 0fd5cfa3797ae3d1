"""What must be on the disk before something may rest on it. No error is hidden: OSError goes to the caller."""

from __future__ import annotations

import os
from pathlib import Path


def sync_path(path: Path) -> None:
    """A file's content, or a folder's list of names, onto the disk: only then a new name is there for good."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Every file of the folder, and then the folder itself."""
    for path in folder.iterdir():
        sync_path(path)
    sync_path(folder)
