"""Store the keys that ``arrowhead key`` creates in one JSON file, which holds only their digests.

The file is never written in place. A new one is synced to disk before it is renamed over the old one, under a lock that
the death of a process releases, so that a reader finds one complete state at every moment: the old or the new.

A digest is plain SHA-256. Salts and slow hashes are for secrets that people choose; these have 32 bytes from the
system's generator, and a digest does not help to guess one.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import TypeAdapter, ValidationError

from models.errors import ArrowheadError
from retrieval.storage.durable import FileLock, sync
from server.auth.scopes import Scopes
from server.types import id_of_digest, key_digest

PREFIX: Final = "ah-"
MAX_ACTIVE: Final = 1000
# Includes revoked keys, whose ids still occur in audit logs; the oldest of them are dropped first.
MAX_KEPT: Final = 4000
MAX_BYTES: Final = 32 * 2**20
_FORMAT: Final = 1
_SECRET_BYTES: Final = 32
_LOCK_WAIT_S: Final = 10.0
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_NAME: Final = re.compile(r"\w[\w.@+ -]{0,62}\w|\w")
_ID: Final = re.compile(r"[0-9a-f]{8}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class KeyStoreError(ArrowheadError):
    """Signal that the key file cannot be read or written."""

    hint = "`arrowhead doctor` tells about the file; server.keys_file names another one"


class KeyRefused(ArrowheadError):
    """Signal a key that cannot be created or does not exist."""

    hint = "`arrowhead key list` shows what there is"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKey:
    """Describe one key without its secret.

    Times are in UTC; ``expires`` None is no expiry.
    """

    id: str
    digest: str
    name: str
    created: datetime
    expires: datetime | None = None
    revoked: datetime | None = None
    scopes: Scopes = field(default_factory=Scopes)

    def __post_init__(self) -> None:
        if _DIGEST.fullmatch(self.digest) is None or self.id != id_of_digest(self.digest):
            raise ValueError("the digest is not that of the id")
        if any(moment is not None and moment.tzinfo is None for moment in (self.created, self.expires, self.revoked)):
            raise ValueError("a time is without its zone")

    def is_usable(self, now: datetime) -> bool:
        return self.revoked is None and (self.expires is None or now < self.expires)


@dataclass(frozen=True, slots=True)
class _Content:
    format: int
    keys: tuple[StoredKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """Describe a key to create.

    ``taken``: ids that keys of the settings use.
    """

    name: str
    expires: datetime | None = None
    scopes: Scopes = field(default_factory=Scopes)
    taken: Collection[str] = ()


class FileState(NamedTuple):
    """Identify one state of the key file, including its permissions."""

    device: int
    inode: int
    changed_ns: int
    size: int


class StoreRead(NamedTuple):
    """Hold the keys of one state of the file, its mark and the open file.

    While ``descriptor`` is open, no other file can get its inode, so that no later state has the same mark.
    """

    keys: tuple[StoredKey, ...]
    mark: FileState
    descriptor: int


class KeyStore:
    """Read and change the key file, safely between processes.

    No file stays open except the descriptor that ``read`` returns.
    """

    def __init__(self, path: Path, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self.path = path
        self._now = now

    def known(self) -> tuple[StoredKey, ...]:
        """Return all keys in order of creation, none if there is no file.

        Raises:
            KeyStoreError: the file cannot be read or is invalid.
        """
        reading = self.read()
        if reading is None:
            return ()
        os.close(reading.descriptor)
        return reading.keys

    def mark(self) -> FileState | None:
        """Return the mark of the current state, None if there is no file.

        Raises:
            KeyStoreError: the file cannot be accessed.
        """
        try:
            return _mark_of(os.stat(self.path))  # noqa: PTH116 (once for each request: a Path's stat is slower)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unreadable(error) from error

    def read(self) -> StoreRead | None:
        """Read and validate the file; return None if there is none.

        The caller closes the descriptor.

        Raises:
            KeyStoreError: the file cannot be read or is invalid.
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
            return StoreRead(self._parsed(data), _mark_of(status), descriptor)
        except OSError as error:
            os.close(descriptor)
            raise self._unreadable(error) from error
        except BaseException:
            os.close(descriptor)
            raise

    def create(self, new_key: NewKey) -> tuple[str, StoredKey]:
        """Create a key and return its secret, which is not stored, and its record.

        The record is on disk on return.

        Raises:
            KeyRefused: the name is invalid or that of a key that is not revoked, or there are ``MAX_ACTIVE`` such keys.
            KeyStoreError: the file cannot be read or written, or another process keeps it locked.
        """
        if _NAME.fullmatch(new_key.name) is None or _ID.fullmatch(new_key.name):
            raise KeyRefused(
                f"{new_key.name[:70]!r} is no name of a key: letters, digits and . _ @ + - inside, up to 64"
            )
        with self._locked() as target:
            now, keys = self._now().replace(microsecond=0), self.known()
            active = [key for key in keys if key.revoked is None]
            if any(key.name == new_key.name for key in active):
                raise KeyRefused(f"there is a key {new_key.name} already; revoke it first")
            if len(active) >= MAX_ACTIVE:
                raise KeyRefused(f"there are {MAX_ACTIVE} keys; revoke some first")
            secret = _new_secret({key.id for key in keys} | set(new_key.taken))
            digest = key_digest(secret)
            made = StoredKey(
                id=id_of_digest(digest), digest=digest, name=new_key.name, created=now, expires=new_key.expires,
                scopes=new_key.scopes,
            )  # fmt: skip
            self._write(target, (*keys, made))
        return secret, made

    def revoke(self, which: str) -> StoredKey:
        """Revoke the key with this id or name, so that no server accepts it from then on.

        Raises:
            KeyRefused: there is no such key, or it is revoked already.
            KeyStoreError: the file cannot be read or written, or another process keeps it locked.
        """
        with self._locked() as target:
            keys = self.known()
            found = [key for key in keys if which in (key.id, key.name) and key.revoked is None]
            if not found:
                known = any(which in (key.id, key.name) for key in keys)
                raise KeyRefused(f"the key {which[:70]} is revoked already" if known else f"no key {which[:70]}")
            gone = replace(found[0], revoked=self._now().replace(microsecond=0))
            self._write(target, tuple(gone if key is found[0] else key for key in keys))
        return gone

    @contextmanager
    def _locked(self) -> Iterator[Path]:
        """Lock the file against other writers and yield its path with all links resolved."""
        held: FileLock | None = None
        until = time.monotonic() + _LOCK_WAIT_S
        while held is None:
            try:
                target = Path(os.path.realpath(self.path))
                target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                held = FileLock(target.with_name(f"{target.name}.lock"))
                _keep_owner(target.with_name(f"{target.name}.lock"), target)
            except BlockingIOError:
                if time.monotonic() > until:
                    raise KeyStoreError(f"{self.path}: another process changes it") from None
                time.sleep(0.01)
            except OSError as error:
                raise self._unreadable(error) from error
        try:
            yield target
        finally:
            held.close()

    def _write(self, target: Path, keys: tuple[StoredKey, ...]) -> None:
        """Replace the file, without the oldest revoked keys beyond ``MAX_KEPT``.

        The caller holds the lock.
        """
        gone = [key for key in keys if key.revoked is not None]
        too_many = {key.id for key in gone[: max(0, len(keys) - MAX_KEPT)]}
        kept = tuple(key for key in keys if key.id not in too_many)
        data = _adapter().dump_json(_Content(_FORMAT, kept), indent=1) + b"\n"
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


def _keep_owner(made: Path, target: Path) -> None:
    """Give a file that root creates the owner of the key file.

    Without this, an administrator who creates a key would take the file away from the user of the server.
    """
    if os.geteuid() == 0:
        status = (target if target.exists() else target.parent).stat()
        os.chown(made, status.st_uid, status.st_gid, follow_symlinks=False)


def _mark_of(status: os.stat_result) -> FileState:
    return FileState(status.st_dev, status.st_ino, status.st_ctime_ns, status.st_size)


def _adapter() -> TypeAdapter[_Content]:
    return TypeAdapter(_Content)


def _new_secret(taken: Collection[str]) -> str:
    """Return a new secret whose id is not taken.

    Ids are short but must be unique, since logs and settings name a key by its id.
    """
    while True:
        secret = PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
        if id_of_digest(key_digest(secret)) not in taken:
            return secret
