"""Authenticate requests by the keys of the settings and those of the key store, which may change at runtime.

All failures deny access: a server that once required keys continues to require them, an unreadable store accepts none
of its keys, and an unknown key permits no outbound call. ``FileKeyStore`` is the store in one JSON file, which is never
written in place. A new one is synced to disk before it is renamed over the old one, under a lock that the death of a
process releases, so that a reader finds one complete state at every moment: the old or the new. Texts about keys hold
no secret and no digest.
"""

from __future__ import annotations

import hmac
import logging
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import TypeAdapter, ValidationError

from retrieval.storage.files import FileLock, make_folder, sync
from server.auth.keys import (
    Edit,
    KeySnapshot,
    KeyStore,
    KeyStoreError,
    NewKey,
    Scopes,
    StoredKey,
    Version,
    changed,
    key_for,
    retained,
    revoking,
)
from server.errors import NOT_GRANTED, UNAUTHORIZED, RequestError
from server.settings.loading import keys_file
from server.settings.schema import Settings
from server.settings.server import is_loopback
from server.types import EgressMode, id_of_digest, key_digest

log = logging.getLogger(__name__)
MAX_BYTES: Final = 32 * 2**20
_FORMAT: Final = 1
_LOCK_WAIT_S: Final = 10.0
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH
_MAX_LISTED: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Hold the permissions of one request.

    ``owner`` is the digest of its key, "" on a server without keys. An operator (a key of the settings, or no key on a
    server without keys) has all permissions.
    """

    owner: str = ""
    scopes: Scopes = field(default_factory=Scopes)
    is_operator: bool = False

    @property
    def key_id(self) -> str:
        return id_of_digest(self.owner) if self.owner else ""

    def may_use(self, method: str) -> bool:
        return self.is_operator or self.scopes.methods is None or method in self.scopes.methods

    def may_read(self, namespace: str, belongs_to: str) -> bool:
        """Return whether the namespace may be read.

        ``belongs_to`` is the owner of the key that made the namespace, "" for an operator's.
        """
        if self.is_operator or (belongs_to and belongs_to == self.owner):
            return True
        if self.scopes.namespaces is None:
            return not belongs_to
        return namespace in self.scopes.namespaces

    @property
    def may_change(self) -> bool:
        return self.is_operator or self.scopes.may_change

    @property
    def may_administer(self) -> bool:
        return self.is_operator or self.scopes.may_administer


OPERATOR: Final = Principal(is_operator=True)


@dataclass(frozen=True, slots=True)
class _Entry:
    digest: str
    principal: Principal
    expires: datetime | None = None


class ApiKeyLookup:
    """Look up API keys; not thread-safe.

    ``find`` first reloads the store if its version has changed.
    """

    def __init__(
        self,
        secrets: Sequence[str],
        store: KeyStore | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Load the keys of the settings and of the store, which ``close`` closes.

        Raises:
            KeyStoreError: the store exists and cannot be read.
        """
        digests = [key_digest(secret) for secret in secrets]
        self._fixed = [_Entry(digest, Principal(owner=digest, is_operator=True)) for digest in digests]
        self.store = store
        self._now = now
        self._version: Version | None = None
        self._problem: KeyStoreError | None = None
        self._is_known = True
        self._stored: tuple[StoredKey, ...] = ()
        self._entries = list(self._fixed)
        self._requires_key = bool(self._fixed)
        self._refresh()
        if self._problem is not None:
            raise self._problem

    @property
    def requires_key(self) -> bool:
        """Return whether requests need a key, which remains true after the last key is revoked.

        They do while the store does not answer, as it may have got a key meanwhile.
        """
        self._refresh()
        return self._requires_key or self._problem is not None

    def find(self, secret: str) -> Principal:
        """Return the principal of a secret.

        Raises:
            UNAUTHORIZED: the key is unknown, revoked or expired.
            KeyStoreError: the key may be one of the store, which cannot be read now.
        """
        self._refresh()
        digest = key_digest(secret)
        found: _Entry | None = None
        # Every entry is compared, in constant time, so that the duration reveals nothing about any key.
        for entry in self._entries:
            if hmac.compare_digest(digest, entry.digest):
                found = entry
        if found is None and self._problem is not None:
            # The original message names a local path; only the log has it.
            raise KeyStoreError("the key cannot be checked: the keys cannot be read now") from self._problem
        return self._principal_if_valid(found)

    def principal_of(self, owner: str) -> Principal:
        """Return the current principal of the key that a request was authenticated with.

        ``owner``: the digest of the key, "" for none.

        Raises:
            UNAUTHORIZED: the key was revoked or has expired since.
        """
        if not owner and not self._requires_key and self._problem is None:
            return OPERATOR
        return self._principal_if_valid(next((entry for entry in self._entries if entry.digest == owner), None))

    def _principal_if_valid(self, entry: _Entry | None) -> Principal:
        if entry is None or (entry.expires is not None and entry.expires <= self._now()):
            raise RequestError("a valid API key is required", UNAUTHORIZED)
        return entry.principal

    def mode_of(self, key_id: str) -> EgressMode | None:
        """Return the egress mode that a key is limited to, None for no limit.

        A revoked key keeps its limit for requests that are still running; an unknown key gets "off".
        """
        if not key_id or any(id_of_digest(entry.digest) == key_id for entry in self._fixed):
            return None
        key = next((key for key in self._stored if key.id == key_id), None)
        return key.scopes.egress if key else "off"

    @property
    def fixed_ids(self) -> list[str]:
        """Return the ids of the keys of the settings."""
        return [id_of_digest(entry.digest) for entry in self._fixed]

    @property
    def ids(self) -> list[str]:
        """Return the ids of all accepted keys, those of the settings first."""
        return self.fixed_ids + [key.id for key in self.active]

    @property
    def active(self) -> list[StoredKey]:
        """Return the keys of the store that are neither revoked nor expired."""
        self._refresh()
        now = self._now()
        return [key for key in self._stored if key.is_usable(now)]

    def close(self) -> None:
        if self.store is not None:
            self.store.close()

    def _refresh(self) -> None:
        if self.store is None:
            return
        try:
            version = self.store.version()
        except KeyStoreError as error:
            # The store could not be asked: nothing is known of it, also not whether it has changed since.
            self._is_known = False
            self._fail(error)
            return
        try:
            if version == self._version and self._is_known:
                return
            self._is_known = True
            # Set before the read, so that a damaged state is read once and not at every request.
            self._version = version
            snapshot = self.store.read()
        except KeyStoreError as error:
            self._requires_key = True
            self._fail(error)
            return
        self._version, self._problem = snapshot.version, None
        self._take(snapshot.keys)

    def _fail(self, error: KeyStoreError) -> None:
        if self._problem is None or self._problem.message != error.message:
            log.error("keys of the store are not taken: %s", error.message)
        self._problem = error
        self._entries = list(self._fixed)

    def _take(self, keys: tuple[StoredKey, ...]) -> None:
        active = [key for key in keys if key.revoked is None]
        entries = [_Entry(key.digest, Principal(owner=key.digest, scopes=key.scopes), key.expires) for key in active]
        if self._stored != keys:
            log.info("keys: %d of the settings, %d of the store", len(self._fixed), len(active))
        self._stored = keys
        self._entries = [*self._fixed, *entries]
        self._requires_key = self._requires_key or bool(active)


def require_change(principal: Principal) -> None:
    """Check that a key may change namespaces.

    Raises:
        RequestError: it may only read them.
    """
    if not principal.may_change:
        raise RequestError("this key reads namespaces and does not change them", NOT_GRANTED)


def require_administration(principal: Principal) -> None:
    """Check that a key may administer the server.

    Raises:
        RequestError: it may not.
    """
    if not principal.may_administer:
        raise RequestError("this key does not administer the server", NOT_GRANTED)


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

    def change(self, which: str, edit: Edit) -> StoredKey:
        with self._locked() as target:
            keys = self.known()
            edited = changed(which, keys, edit)
            self._write(target, tuple(edited if key.id == edited.id else key for key in keys))
        return edited

    def revoke(self, which: str) -> StoredKey:
        return self.change(which, revoking(self._now()))

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
        except (RequestError, ValidationError):
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


def named_keys(key_lookup: ApiKeyLookup, mode_of: Callable[[str], EgressMode]) -> str:
    """Return the ids of the keys with their egress modes, which ``mode_of`` returns; "" if there are no keys.

    ``egress.key_modes`` and the audit log use the same ids. Keys after the first 20 are only counted.
    """
    ids = key_lookup.ids
    entries = [f"{name} {mode_of(name)}" for name in ids[:_MAX_LISTED]]
    return ", ".join(entries) + (f" and {len(ids) - _MAX_LISTED} more" if len(ids) > _MAX_LISTED else "")


def access_lines(settings: Settings, key_lookup: ApiKeyLookup) -> list[str]:
    """Return the report lines on authentication and allowed web origins."""
    local = is_loopback(settings.server.host)
    if not local or key_lookup.requires_key:
        where = f"{len(key_lookup.fixed_ids)} of the settings, {len(key_lookup.active)} of {keys_file(settings)}"
        who = f"every route but /health needs a key ({where})"
    else:
        who = "no keys: every program on this machine may ask"
    pages = ", ".join(settings.server.cors_origins) or "none but this server's own"
    return [f"guard: {who}", f"web pages that may ask: {pages}"]


def permission_problem(path: Path) -> str:
    """Return the problem with the permissions of a key file, "" if there is none or no such file."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return ""
    others = stat.S_IMODE(mode) & 0o077
    return f"others have rights on {path} ({stat.S_IMODE(mode):o}): chmod 600" if others else ""
