"""Store keys in one JSON file.

The file is never written in place. A new one is synced to disk before it is renamed over the old one, under a lock that
the death of a process releases, so that a reader finds one complete state at every moment: the old or the new.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import TypeAdapter, ValidationError

from retrieval.storage.files import FileLock, make_folder, sync
from server.auth.key_store import KeySnapshot, KeyStoreError, NewKey, StoredKey, Version, key_for, retained, revoked

MAX_BYTES: Final = 32 * 2**20
_FORMAT: Final = 1
_LOCK_WAIT_S: Final = 10.0
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class _Content:
    format: int
    keys: tuple[StoredKey, ...]


class _FileRead(NamedTuple):
    keys: tuple[StoredKey, ...]
    version: Version
    descriptor: int


class FileKeyStore:
    """Read and change the key file, safely between processes.

    ``read`` leaves the file open until the next ``read`` or ``close``: as long as it is open, no other file can get its
    inode, so no later state has the same version. Nothing else stays open.
    """

    def __init__(self, path: Path, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.path = path
        self._now = now
        self._descriptor = -1

    def known(self) -> tuple[StoredKey, ...]:
        found = self._load()
        if found is None:
            return ()
        os.close(found.descriptor)
        return found.keys

    def version(self) -> Version | None:
        """Return device, inode, time of change and size; a change of permissions counts too."""
        try:
            return _version_of(os.stat(self.path))  # noqa: PTH116 (once for each request: a Path's stat is slower)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unreadable(error) from error

    def read(self) -> KeySnapshot:
        found = self._load()
        self.close()
        if found is None:
            return KeySnapshot((), None)
        self._descriptor = found.descriptor
        return KeySnapshot(found.keys, found.version)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def create(self, new_key: NewKey) -> tuple[str, StoredKey]:
        with self._locked() as target:
            keys = self.known()
            secret, key = key_for(new_key, keys, self._now())
            self._write(target, (*keys, key))
        return secret, key

    def revoke(self, which: str) -> StoredKey:
        with self._locked() as target:
            keys = self.known()
            revoked_key = revoked(which, keys, self._now())
            self._write(target, tuple(revoked_key if key.id == revoked_key.id else key for key in keys))
        return revoked_key

    def _load(self) -> _FileRead | None:
        """Read and validate the file; return None if there is none.

        The caller closes the descriptor.
        """
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unreadable(error) from error
        try:
            status = os.fstat(descriptor)
            self._check(status)
            data = b"".join(iter(lambda: os.read(descriptor, 2**20), b""))
            return _FileRead(self._parsed(data), _version_of(status), descriptor)
        except OSError as error:
            os.close(descriptor)
            raise self._unreadable(error) from error
        except BaseException:
            os.close(descriptor)
            raise

    @contextmanager
    def _locked(self) -> Iterator[Path]:
        """Lock the file against other writers and yield its path with all links resolved."""
        lock: FileLock | None = None
        deadline = time.monotonic() + _LOCK_WAIT_S
        while lock is None:
            try:
                target = Path(os.path.realpath(self.path))
                make_folder(target.parent)
                lock = FileLock(target.with_name(f"{target.name}.lock"))
                _keep_owner(target.with_name(f"{target.name}.lock"), target)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise KeyStoreError(f"{self.path}: another process changes it") from None
                time.sleep(0.01)
            except OSError as error:
                raise self._unreadable(error) from error
        try:
            yield target
        finally:
            lock.close()

    def _write(self, target: Path, keys: tuple[StoredKey, ...]) -> None:
        """Replace the file; the caller holds the lock."""
        data = _adapter().dump_json(_Content(_FORMAT, retained(keys)), indent=1) + b"\n"
        draft = target.with_name(f".{target.name}.tmp")
        try:
            draft.unlink(missing_ok=True)  # left by a killed process
            _fill(draft, data)
            _keep_owner(draft, target)
            draft.rename(target)
            sync(target.parent)
        except OSError as error:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise self._unreadable(error) from error

    def _check(self, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise KeyStoreError(f"{self.path}: is no ordinary file")
        if status.st_mode & _OTHERS_WRITE:
            raise KeyStoreError(f"{self.path}: others can write it, and so give themselves a key; chmod 600")
        if status.st_size > MAX_BYTES:
            raise KeyStoreError(f"{self.path}: is too long to be a file of keys")

    def _parsed(self, data: bytes) -> tuple[StoredKey, ...]:
        try:
            content = _adapter().validate_json(data, strict=True)
        except ValidationError:
            # The validation error is not chained or quoted, as it cites the file.
            raise KeyStoreError(f"{self.path}: is no file of keys, or is damaged") from None
        if content.format != _FORMAT:
            raise KeyStoreError(f"{self.path}: of format {content.format}; this version reads {_FORMAT}")
        return content.keys

    def _unreadable(self, error: OSError) -> KeyStoreError:
        return KeyStoreError(f"{self.path}: {error.strerror or type(error).__name__}")


def _fill(draft: Path, data: bytes) -> None:
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _keep_owner(path: Path, target: Path) -> None:
    """Give a file that root creates the owner of the key file.

    Without this, an administrator who creates a key would take the file away from the user of the server.
    """
    if os.geteuid() == 0:
        status = (target if target.exists() else target.parent).stat()
        os.chown(path, status.st_uid, status.st_gid, follow_symlinks=False)


def _version_of(status: os.stat_result) -> Version:
    return (status.st_dev, status.st_ino, status.st_ctime_ns, status.st_size)


def _adapter() -> TypeAdapter[_Content]:
    return TypeAdapter(_Content)
