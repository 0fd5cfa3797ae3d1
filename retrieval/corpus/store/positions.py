"""Note on this server how far its own indices of a shared namespace follow the log of changes.

The note lies beside the indices and is lost with them, so that they are then derived from the first change on.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from retrieval.corpus.errors import NamespaceDamaged
from retrieval.corpus.store.base import Target
from retrieval.storage.files import Disk, make_folder

_FILE: Final = "positions.json"


@dataclass(frozen=True, slots=True)
class SharedNamespace:
    """Name the rows of a namespace; ``own``: the indices that each server derives for itself."""

    id: int
    name: str
    uid: str
    own: frozenset[Target]


@dataclass(frozen=True, slots=True)
class Position:
    """Hold the number of the last change in each index, 0 for none, and how often they changed."""

    numbers: Mapping[Target, int] = field(default_factory=dict)
    commits: int = 0


class Positions:
    """Read and write the note of one namespace; changes require the lock of this server's own indices.

    ``uid``: identifies the namespace, since another one may have its name and so its folder later.
    """

    def __init__(self, folder: Path, uid: str) -> None:
        self._folder = folder
        self._uid = uid
        self._disk = Disk()

    def read(self) -> Position:
        """Return the position; that of another namespace, or a damaged note, counts as none."""
        try:
            found = json.loads((self._folder / _FILE).read_bytes())
            if found["uid"] == self._uid:
                return Position({str(name): int(value) for name, value in found["numbers"].items()}, found["commits"])
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            pass
        return Position()

    def note(self, target: Target, number: int) -> None:
        """Note that an index has all changes up to ``number``.

        Raises:
            NamespaceDamaged: the note cannot be written.
        """
        before = self.read()
        self._write({**before.numbers, target: number}, before.commits + 1)

    def claim(self) -> None:
        """Take the folder for the namespace, without the indices of an earlier one of this name.

        Raises:
            NamespaceDamaged: the folder cannot be written.
        """
        if not self._is_own():
            shutil.rmtree(self._folder, ignore_errors=True)
            self._write({}, 0)

    def _write(self, numbers: Mapping[Target, int], commits: int) -> None:
        state = {"uid": self._uid, "numbers": dict(numbers), "commits": commits}
        try:
            make_folder(self._folder)
            self._disk.replace(self._folder / _FILE, json.dumps(state).encode())
        except OSError as error:
            raise NamespaceDamaged(f"{self._folder}: cannot be written: {error.strerror}") from error

    def _is_own(self) -> bool:
        try:
            return bool(json.loads((self._folder / _FILE).read_bytes())["uid"] == self._uid)
        except (OSError, ValueError, TypeError, KeyError):
            return False
