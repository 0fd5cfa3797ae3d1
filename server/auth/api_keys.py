"""Authenticate requests by the keys of the settings and those of the key store, which may change at runtime.

All failures deny access: a server that once required keys continues to require them, an unreadable store accepts none
of its keys, and an unknown key permits no outbound call.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from server.auth.key_store import KeyStore, KeyStoreError, StoredKey, Version
from server.auth.scopes import OPERATOR, Principal
from server.errors import Unauthorized
from server.settings.loading import SettingsInvalid, variable_name
from server.settings.schema import Settings
from server.settings.server import is_loopback
from server.types import EgressMode, id_of_digest, key_digest

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Entry:
    digest: str
    principal: Principal
    expires: datetime | None = None


class Keyring:
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
        self._store = store
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
            Unauthorized: the key is unknown, revoked or expired.
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
            Unauthorized: the key was revoked or has expired since.
        """
        if not owner and not self._requires_key and self._problem is None:
            return OPERATOR
        return self._principal_if_valid(next((entry for entry in self._entries if entry.digest == owner), None))

    def _principal_if_valid(self, entry: _Entry | None) -> Principal:
        if entry is None or (entry.expires is not None and entry.expires <= self._now()):
            raise Unauthorized("a valid API key is required")
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
        if self._store is not None:
            self._store.close()

    def _refresh(self) -> None:
        if self._store is None:
            return
        try:
            version = self._store.version()
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
            snapshot = self._store.read()
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


def require_keys(settings: Settings, keyring: Keyring) -> None:
    """Check that a server that other machines can reach has at least one key.

    Raises:
        SettingsInvalid: it has none.
    """
    host = settings.server.host
    if is_loopback(host) or keyring.fixed_ids or keyring.active:
        return
    raise SettingsInvalid(
        f"{variable_name('server', 'host')} (server.host): {host} can be reached from other machines: make a key with "
        "`arrowhead key create`, set server.api_keys, or listen on 127.0.0.1"
    )
