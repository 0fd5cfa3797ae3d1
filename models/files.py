"""Read, compare and lock the files of models, in the same way for all who load, fetch or convert them."""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from models.errors import ModelNotFound

# The project's own facts about a model, beside its files.
CARD_FILE: Final = "arrowhead.json"
# Tokenizer, config and the file system's own.
_MARGIN_BYTES: Final = 64 * 2**20
_POLL_S: Final = 0.2


def parse_json(data: bytes | str) -> Any:
    """Parse the JSON of a file that may be damaged.

    Raises:
        ValueError: it is no JSON, is nested too deeply, or has a number that is not finite, of which int() makes none.
    """
    try:
        return _JSON.decode(data if isinstance(data, str) else data.decode())
    except RecursionError:
        raise ValueError("its JSON is nested too deeply") from None


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"the number {text[:40]} is not finite")
    return number


_JSON: Final = json.JSONDecoder(parse_float=_finite, parse_constant=_finite)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file.

    Raises:
        ModelNotFound: the file is missing or holds no JSON object.
    """
    try:
        loaded = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelNotFound(f"{path} cannot be read: {error}") from error
    if not isinstance(loaded, dict):
        raise ModelNotFound(f"{path} is not a JSON object")
    return loaded


def write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_room(folder: Path, needed: int, what: str, remedy: str = "") -> None:
    """Check that a folder has room for so many bytes.

    Raises:
        ModelNotFound: it has not.
    """
    free = shutil.disk_usage(folder).free
    if free < needed + _MARGIN_BYTES:
        raise ModelNotFound(f"{folder} has {free / 1e9:.1f} GB free, and {what} needs {needed / 1e9:.1f} GB{remedy}")


@contextmanager
def locked(path: Path, wait_s: float, what: str) -> Iterator[None]:
    """Hold a lock that the kernel releases when the process dies; ``what`` another one is doing who has it.

    Raises:
        ModelNotFound: another process has had it for ``wait_s``.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not take_lock(handle, wait_s):
            raise ModelNotFound(f"another process is {what}")
        yield
    finally:
        os.close(handle)


def take_lock(handle: int, wait_s: float) -> bool:
    """Take the kernel's lock of an open file, which ends with the handle; return False if another has it all along."""
    until = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(_POLL_S)
        else:
            return True


def first_line(error: BaseException) -> str:
    """Return what an error says in its first line, its type where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
