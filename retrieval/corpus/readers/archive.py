"""Unpack zip archives of documents, in a process of its own within limits; each file is then read as if it came alone.

Nothing of a name in the archive is used as a place on the disk but its last part, below a folder with a number.
"""

from __future__ import annotations

import contextlib
import json
import resource
import stat
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

import retrieval
from retrieval.errors import DOCUMENT_TOO_LARGE, DocumentUnreadable

_BLOCK: Final = 1 << 20
_MAX_NAME: Final = 200  # bytes; file systems take 255
_ENCRYPTED: Final = 0x1
_UTF_8: Final = 0x800
_PROGRAM: Final = (
    "import sys; sys.path.append(sys.argv[1]); from retrieval.corpus.readers.archive import main; main(*sys.argv[2:])"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveLimits:
    """Limit one archive: its files, the bytes that they have unpacked together, seconds, and bytes of memory."""

    files: int = 2_000
    bytes: int = 2 * 2**30
    seconds: float = 300.0
    memory_bytes: int = 512 * 2**20


@dataclass(frozen=True, slots=True)
class Member:
    """Hold a file of an archive: its name there, and where it was unpacked, or the reason why it was not."""

    name: str
    path: Path
    reason: str = ""


_LIMITS: Final = ArchiveLimits()


@contextlib.contextmanager
def unpacked(path: Path, limits: ArchiveLimits = _LIMITS) -> Iterator[list[Member]]:
    """Unpack an archive for the time of the block; folders and hidden files are left out.

    Raises:
        DocumentUnreadable: it is damaged, or over the limits.
    """
    with tempfile.TemporaryDirectory(prefix="arrowhead-") as folder:
        program = [sys.executable, "-I", "-c", _PROGRAM, str(Path(retrieval.__file__).parents[1])]
        try:
            done = subprocess.run(
                [*program, str(path.resolve()), folder, json.dumps(asdict(limits))],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={"LC_ALL": "C.UTF-8"},
                timeout=limits.seconds, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise DocumentUnreadable(f"{path}: unpacking it took too long", DOCUMENT_TOO_LARGE) from None
        said: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
        last = said.pop() if said else {}
        if "large" in last:
            raise DocumentUnreadable(f"{path}: {last['large']}", DOCUMENT_TOO_LARGE)
        if "end" not in last:
            raise DocumentUnreadable(f"{path}: the zip archive is damaged ({last.get('bad', 'its reader broke')})")
        yield [Member(one["name"], Path(folder, one["at"]), one.get("reason", "")) for one in said]


def main(path: str, folder: str, limits: str) -> None:
    """Unpack, as the process of its own; say each file as a line of JSON, at the end {"end"}, {"large"} or {"bad"}."""
    bounds = ArchiveLimits(**json.loads(limits))
    resource.setrlimit(resource.RLIMIT_AS, (bounds.memory_bytes, bounds.memory_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (int(bounds.seconds), int(bounds.seconds)))
    resource.setrlimit(resource.RLIMIT_FSIZE, (bounds.bytes, bounds.bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        _unpack(path, Path(folder), bounds)
    except MemoryError:
        _say(large="reading its list of files needs too much memory")
    except Exception as error:  # whatever the library raises for a file it cannot read
        _say(bad=type(error).__name__)


def _say(**fields: Any) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def _unpack(path: str, folder: Path, limits: ArchiveLimits) -> None:
    with zipfile.ZipFile(path) as archive:
        infos = [info for info in archive.infolist() if not _is_aside(info)]
        if len(infos) > limits.files:
            return _say(large=f"{len(infos)} files, {limits.files} at most")
        left = limits.bytes
        for number, info in enumerate(infos):
            name = _name_of(info)
            at = f"{number}/{PurePosixPath(name).name}"
            if reason := _refusal(info, name):
                _say(name=name[:_MAX_NAME], at=at, reason=reason)
                continue
            (folder / str(number)).mkdir()
            try:
                left -= _write(archive, info, folder / at, left)
            except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
                _say(name=name, at=at, reason=f"damaged, or packed in a way that is not read ({error})"[:300])
                continue
            if left < 0:
                return _say(large=f"it unpacks to more than {limits.bytes} bytes")
            _say(name=name, at=at)
    return _say(end=True)


def _is_aside(info: zipfile.ZipInfo) -> bool:
    """Return whether this is a folder, or one of the files that systems put beside those of people."""
    parts = PurePosixPath(info.filename).parts
    return info.is_dir() or not parts or parts[0] == "__MACOSX" or parts[-1].startswith(".")


def _name_of(info: zipfile.ZipInfo) -> str:
    """Return the name; macOS writes UTF-8 without saying so."""
    if info.flag_bits & _UTF_8:
        return info.filename
    try:
        return info.filename.encode("cp437").decode("utf-8")
    except UnicodeError:
        return info.filename


def _refusal(info: zipfile.ZipInfo, name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or not name.isprintable():
        return "its name in the archive leads elsewhere"
    if len(path.name.encode()) > _MAX_NAME or len(name.encode()) > 5 * _MAX_NAME:
        return "its name in the archive is too long"
    if stat.S_ISLNK(info.external_attr >> 16):
        return "a link, not a file"
    return "encrypted: unpack it with its password, and add the files" if info.flag_bits & _ENCRYPTED else ""


def _write(archive: zipfile.ZipFile, info: zipfile.ZipInfo, target: Path, most: int) -> int:
    """Write a file and return its size; ends behind ``most`` bytes."""
    size = 0
    with archive.open(info) as source, target.open("xb") as out:
        while size <= most and (block := source.read(_BLOCK)):
            size += len(block)
            if size <= most:
                out.write(block)
    return size
