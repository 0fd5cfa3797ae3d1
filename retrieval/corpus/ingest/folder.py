"""Keep the documents of a namespace as the files of a folder are: new, changed and removed ones.

What was read of each file stands in the namespace's store, so that a restart reads no file again. Links are never
followed, neither of files nor of folders: each part of a path is opened below the one before it, as what it is.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from retrieval.corpus.ingest.add import ChangeHooks, Progress, add_items, remove, try_file
from retrieval.corpus.items import ReadOptions, SkippedRecord
from retrieval.corpus.namespaces.registry import Namespaces

# The value in a store that has what was read of the folder.
STATE: Final = "followed"
MAX_FILES: Final = 20_000
_MAX_DEPTH: Final = 20
_BLOCK: Final = 1 << 20
_SAVED_EACH: Final = 20
_UNREAD: Final = "!"
_COUNTED: Final = ("added", "changed", "unchanged", "passed")
# Of programs that are still writing.
_DRAFTS: Final = (".part", ".partial", ".crdownload", ".download", ".tmp")


class Stamp(NamedTuple):
    """Tell whether a file may have changed; of its change time too, as copies keep the other one."""

    size: int
    modified_ns: int
    changed_ns: int


class Known(NamedTuple):
    """Hold what is known of a file that was read: "!" for the digest of one that cannot be.

    ``alone``: it gave one document, known by its digest. ``ocr``: in which languages its pictures of pages were read.
    """

    stamp: Stamp
    digest: str
    alone: bool
    ocr: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """Hold the files of a folder by their paths in it; ``problem`` says why some may be missing, "" for nothing."""

    files: Mapping[str, Stamp]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """Hold the files to be removed and to be read."""

    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


def label_of(file: str) -> str:
    """Return the provenance of a file's documents; no uploaded file has such a name."""
    return f"./{file}"


def listing_of(root: Path) -> Listing:
    """List the files of a folder and its folders, without hidden ones, drafts and links.

    A folder that cannot be read, or holds more than 20,000 files, is a problem of the listing.
    """
    files: dict[str, Stamp] = {}
    faults: list[str] = []
    try:
        for place, folders, names, descriptor in os.fwalk(root, follow_symlinks=False, onerror=_told_to(faults)):
            below = PurePosixPath(place).relative_to(root)
            folders[:] = [name for name in folders if not name.startswith(".") and len(below.parts) < _MAX_DEPTH]
            for name in filter(_is_followed, names):
                if not name.isprintable():
                    faults.append("a file whose name is no text: rename it")
                elif (stamp := _stamp_of(name, descriptor)) is not None:
                    files[str(below / name)] = stamp
            if len(files) > MAX_FILES:
                return Listing({}, f"more than {MAX_FILES} files: follow a smaller folder")
    except OSError as error:
        return Listing({}, f"the folder cannot be read, or its disk is not mounted: {error.strerror}")
    return Listing(files, faults[0] if faults else "")


def _told_to(faults: list[str]) -> Callable[[OSError], None]:
    return lambda error: faults.append(f"a folder in it cannot be read: {error.strerror}")


def _is_followed(name: str) -> bool:
    return not name.startswith((".", "~$")) and not name.lower().endswith(_DRAFTS)


def _stamp_of(name: str, descriptor: int) -> Stamp | None:
    """Return the stamp of a file in an open folder, None for one that is no file, or was removed since."""
    try:
        found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except OSError:
        return None
    return Stamp(found.st_size, found.st_mtime_ns, found.st_ctime_ns) if stat.S_ISREG(found.st_mode) else None


def plan_of(known: Mapping[str, Known], now: Listing, before: Listing, ocr: str = "") -> Plan:
    """Return what is to be done: files are read that two listings found alike, since others may still be written.

    Where a listing has a problem, no file counts as removed.
    """
    changed = [file for file in unread_of(known, now, ocr) if before.files.get(file) == now.files[file]]
    gone = () if now.problem else tuple(file for file in known if file not in now.files)
    return Plan(gone, tuple(changed))


def unread_of(known: Mapping[str, Known], now: Listing, ocr: str = "") -> list[str]:
    """Return the files that are new or changed, or were read for other languages of pictures of pages."""
    return [
        file
        for file, stamp in now.files.items()
        if file not in known or (known[file].stamp, known[file].ocr) != (stamp, ocr)
    ]


def known_files(namespaces: Namespaces, name: str) -> dict[str, Known]:
    with namespaces.using(name) as namespace:
        text = namespace.store.meta(STATE)
    rows: dict[str, list[object]] = json.loads(text) if text else {}
    return {
        file: Known(Stamp(*map(int, map(str, row[:3]))), str(row[3]), bool(row[4]), "".join(map(str, row[5:])))
        for file, row in rows.items()
    }


class FolderReader:
    """Read files of a folder into a namespace, within one job, by a plan."""

    def __init__(self, namespaces: Namespaces, name: str, root: Path, watch: ChangeHooks) -> None:
        self._namespaces = namespaces
        self._name = name
        self._root = root
        self.watch = watch
        # Its progress is that of files, which each file's own would replace.
        self._quiet = ChangeHooks(cancelled=watch.cancelled)
        self._known = known_files(namespaces, name)
        self.counts = Counter[str]()

    def remove(self, files: Sequence[str]) -> None:
        """Remove the documents of files that are no longer there."""
        ids = [document for file in files for document in self._from_file(file)]
        for file in files:
            self._known.pop(file, None)
            self._namespaces.forget_skipped(self._name, label_of(file))
        self._remove(ids)
        self.save()

    def _from_file(self, file: str) -> list[str]:
        with self._namespaces.using(self._name) as namespace:
            return namespace.store.from_file(label_of(file))

    def _remove(self, ids: Sequence[str]) -> None:
        """Remove documents; other files that may have them too are read again."""
        if not ids:
            return
        remove(self._namespaces, self._name, ids, self._quiet)
        self.counts["withdrawn"] += len(ids)
        gone = frozenset(ids)
        self._known = {
            file: known
            for file, known in self._known.items()
            if known.digest == _UNREAD or (known.alone and f"sha256:{known.digest}" not in gone)
        }

    def read(self, file: str, stamp: Stamp, options: ReadOptions) -> None:
        """Read a file of this stamp from a private copy, which nobody changes meanwhile.

        Raises:
            Unfinished: it is another one by now.
            OSError: it cannot be read, or the copy not be written.
            CorpusError: a fault of the namespace; the file is read another time.
        """
        with tempfile.TemporaryDirectory(prefix="arrowhead-") as folder:
            copy = Path(folder, PurePosixPath(file).name)
            digest = copied(self._root, file, stamp, copy)
            known = self._known.get(file)
            if known is not None and (known.digest, known.ocr) == (digest, options.ocr):
                self._known[file] = known._replace(stamp=stamp)
            else:
                found = Known(stamp, digest, False, options.ocr)
                self._take(file, copy, found, replace(options, provenance=label_of(file)))

    def _take(self, file: str, copy: Path, found: Known, options: ReadOptions) -> None:
        """Add the documents of a file, and remove those of its earlier content that it has no longer."""
        stored: set[str] = set()
        watch = replace(self._quiet, stored=stored.add)
        result = try_file(self._namespaces, self._name, copy, options, watch)
        if result.report.cancelled:
            return
        self.counts.update({name: getattr(result.report, name) for name in _COUNTED})
        own, before = f"sha256:{found.digest}", self._known.get(file)
        if result.report.already and before is not None and before.digest == found.digest:
            self._known[file] = found._replace(alone=before.alone)  # it has no pictures of pages
            return
        left = [] if result.refused else [one for one in self._from_file(file) if one not in stored and one != own]
        self._remove(left)
        if left and result.report.already:  # the same content as another file's, whose documents may be among them
            result = try_file(self._namespaces, self._name, copy, options, watch)
        self._known[file] = found._replace(digest=_UNREAD if result.refused else found.digest, alone=stored == {own})

    def refuse(self, file: str, stamp: Stamp, reason: str, ocr: str = "") -> None:
        """Record a file that cannot be read at all, until it changes."""
        add_items(self._namespaces, self._name, [SkippedRecord(label_of(file), 0, reason)])
        self._known[file] = Known(stamp, _UNREAD, False, ocr)

    def save(self) -> None:
        """Store what is known, so that the next process goes on from there."""
        rows = {file: [*known.stamp, known.digest, known.alone, known.ocr] for file, known in self._known.items()}
        self._namespaces.note(self._name, STATE, json.dumps(rows))


def read_files(reader: FolderReader, files: Mapping[str, Stamp], options: ReadOptions, max_bytes: int) -> None:
    """Read files one by one, until the reader is cancelled; larger ones than ``max_bytes`` are refused.

    Raises:
        CorpusError: a fault of the namespace, which the other files would meet too.
    """
    try:
        for number, (file, stamp) in enumerate(files.items(), 1):
            if reader.watch.cancelled():
                return
            reader.watch.progress(_progress(number - 1, len(files)))
            try:
                if stamp.size > max_bytes:
                    reader.refuse(
                        file, stamp, f"larger than {max_bytes} bytes (retrieval.max_upload_bytes)", options.ocr
                    )
                else:
                    reader.read(file, stamp, options)
            except Unfinished:
                continue
            except OSError as error:
                reader.refuse(file, stamp, f"cannot be read: {error.strerror or type(error).__name__}", options.ocr)
            if number % _SAVED_EACH == 0:
                reader.save()
    finally:
        reader.save()


def _progress(done: int, of: int) -> Progress:
    return Progress(read=done, indexed=0, waiting=0, passed=0, seconds=0.0, expected=of, arrived=done)


class Unfinished(Exception):
    """Report a file that is being written, or was removed: it is looked at again later."""


def copied(root: Path, file: str, stamp: Stamp, copy: Path) -> str:
    """Copy a file of this stamp to a new one, and return its digest.

    Raises:
        Unfinished: it is another one by now, or changed meanwhile, or is not there any more.
        OSError: it cannot be read, or the copy not be written; also where a part of its path is a link by now.
    """
    state = hashlib.sha256()
    try:
        source = _opened(root, PurePosixPath(file).parts)
    except FileNotFoundError:
        raise Unfinished from None
    with os.fdopen(source, "rb") as content, copy.open("xb") as out:
        if _stamp(content.fileno()) != stamp:
            raise Unfinished
        while (block := content.read(_BLOCK)) and out.tell() <= stamp.size:
            state.update(block)
            out.write(block)
        if _stamp(content.fileno()) != stamp or out.tell() != stamp.size:
            raise Unfinished
    return state.hexdigest()


def _stamp(descriptor: int) -> Stamp:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise Unfinished
    return Stamp(found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _opened(root: Path, parts: Collection[str]) -> int:
    """Open a file below a folder, no part of whose path is a link."""
    *folders, name = parts
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder in folders:
            below = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
            os.close(here)
            here = below
        return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=here)
    finally:
        os.close(here)
