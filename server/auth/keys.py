"""Define API keys: the scopes that limit them, how stores hold those of ``arrowhead key``, the rules of each store.

A store holds only the digests of keys. A digest is plain SHA-256. Salts and slow hashes are for secrets that people
choose; these have 32 bytes from the system's generator, and a digest does not help to guess one. Pure; knows neither
where keys are stored nor HTTP.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, Protocol

from models.errors import ArrowheadError, Fault
from server.errors import KEY_REFUSED, SCOPE_INVALID, RequestError
from server.types import EgressMode, id_of_digest, key_digest

MAX_RATE: Final = 1_000_000_000
_MAX_LISTED: Final = 200
_METHOD: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}", re.ASCII)
_NAMESPACE: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scopes:
    """Limit what a key may do.

    ``methods`` are allowed by name, ``direct`` for the bare model; None for all. ``egress`` lowers the server's mode.
    ``namespaces`` that are listed may be read whatever their owner; None: all that belong to no other key. A key always
    reads its own. ``may_change`` applies to the namespaces that it reads, and to new ones. ``may_administer`` allows
    to make, change and revoke keys, and to see what all keys use.

    Raises:
        SCOPE_INVALID: a rate is out of range, or a list of names is empty, too long or malformed.
    """

    methods: tuple[str, ...] | None = None
    egress: EgressMode | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    namespaces: tuple[str, ...] | None = None
    may_change: bool = True
    may_administer: bool = False

    def __post_init__(self) -> None:
        for what, rate in (("requests", self.requests_per_minute), ("tokens", self.tokens_per_minute)):
            if rate is not None and not 1 <= rate <= MAX_RATE:
                raise RequestError(f"{what} per minute: a number from 1 to {MAX_RATE}", SCOPE_INVALID)
        if self.methods == ():
            raise RequestError("methods: name at least one, or leave them out for all", SCOPE_INVALID)
        for what, names, form in (("method", self.methods, _METHOD), ("namespace", self.namespaces, _NAMESPACE)):
            if names is not None and len(names) > _MAX_LISTED:
                raise RequestError(f"{what}s: at most {_MAX_LISTED} can be listed", SCOPE_INVALID)
            for name in names or ():
                if form.fullmatch(name) is None:
                    raise RequestError(f"{name[:70]!r} is no name of a {what}", SCOPE_INVALID)


PREFIX: Final = "ah-"
MAX_ACTIVE: Final = 1000
# Includes revoked keys, whose ids still occur in audit logs; the oldest of them are dropped first.
MAX_KEPT: Final = 4000
_SECRET_BYTES: Final = 32
_NAME: Final = re.compile(r"\w[\w.@+ -]{0,62}\w|\w")
_ID: Final = re.compile(r"[0-9a-f]{8}")
_UNITS: Final = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_PERIOD: Final = re.compile(r"([0-9]{1,5})([hdw])", re.ASCII)
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
# Identifies one state of a store.
Version = tuple[int, ...]
Edit = Callable[["StoredKey"], "StoredKey"]


class KeyStoreError(ArrowheadError):
    """Signal that the keys cannot be read or written."""

    fault = Fault(503, "keys_unreadable", "`arrowhead doctor` tells about the file; server.keys_file names another one")


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

    def as_dict(self, now: datetime) -> dict[str, Any]:
        """Return what may be shown of the key, for JSON."""
        state = "active" if self.is_usable(now) else "expired" if self.revoked is None else "revoked"
        moments = {"created": self.created, "expires": self.expires, "revoked": self.revoked}
        times = {name: moment.isoformat() if moment else None for name, moment in moments.items()}
        return {"id": self.id, "name": self.name, "state": state, **times, "scopes": asdict(self.scopes)}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """Describe a key to create.

    ``taken``: ids that keys of the settings use.
    """

    name: str
    expires: datetime | None = None
    scopes: Scopes = field(default_factory=Scopes)
    taken: Collection[str] = ()


def expiry_of(text: str, now: datetime) -> datetime:
    """Return the time of an expiry, written as 90d, 12h, 4w or a day or time in ISO 8601, in UTC to the second.

    Raises:
        SCOPE_INVALID: the text is no period or date, or the time is past.
    """
    try:
        if period := _PERIOD.fullmatch(text):
            expiry = now + int(period[1]) * _UNITS[period[2]]
        else:
            expiry = datetime.fromisoformat(text)
            expiry = expiry if expiry.tzinfo else expiry.replace(tzinfo=UTC)
        expiry = expiry.astimezone(UTC)
    except (ValueError, OverflowError):
        raise RequestError(
            f"expires {text[:70]}: write 90d, 12h, 4w, or a day as 2027-01-31", SCOPE_INVALID, param="expires"
        ) from None
    if expiry <= now:
        raise RequestError(f"expires {text[:70]}: is past", SCOPE_INVALID, param="expires")
    return expiry.replace(microsecond=0)


class KeySnapshot(NamedTuple):
    """Hold all keys of one state of a store, in order of creation.

    ``version`` None: no key was ever created.
    """

    keys: tuple[StoredKey, ...]
    version: Version | None


class KeyStore(Protocol):
    """Store keys for the command line, which changes them, and for servers, which follow the changes.

    Changes are atomic, and safe between processes: of concurrent changes none is lost.

    ``version`` and ``read`` belong to one ``ApiKeyLookup``, which calls them on its event loop. They must not wait for
    a network: a store elsewhere follows its changes in the background, and returns what it saw last. The other methods
    block, and are called on threads or by the command line.
    """

    def known(self) -> tuple[StoredKey, ...]:
        """Return all keys in order of creation, with every change that has returned, in any process.

        Raises:
            KeyStoreError: the keys cannot be read.
        """

    def version(self) -> Version | None:
        """Return the version of the current state, which differs from that of the last ``read`` after any change.

        Called for each request.

        Raises:
            KeyStoreError: the keys cannot be accessed.
        """

    def read(self) -> KeySnapshot:
        """Return the keys with the version of their state.

        Raises:
            KeyStoreError: the keys cannot be read or are invalid; no key of such a state is returned.
        """

    def create(self, new_key: NewKey) -> tuple[str, StoredKey]:
        """Create a key and return its secret, which is not stored, and its record.

        The record is durable on return.

        Raises:
            RequestError: as ``key_for`` says.
            KeyStoreError: the keys cannot be read or written.
        """

    def change(self, which: str, edit: Edit) -> StoredKey:
        """Store what ``edit`` makes of the key with this id or name, with its id, digest and time of creation.

        Raises:
            RequestError: as ``changed`` says.
            KeyStoreError: the keys cannot be read or written.
        """

    def revoke(self, which: str) -> StoredKey:
        """Revoke the key with this id or name, so that no server accepts it from then on; raises as ``change``."""

    def close(self) -> None:
        """Release what ``read`` holds; the store remains usable."""


def key_for(new_key: NewKey, keys: Sequence[StoredKey], now: datetime) -> tuple[str, StoredKey]:
    """Return the secret and the record of a new key beside the ``keys`` of a store.

    Raises:
        RequestError: the name is invalid or that of a key that is not revoked, or there are ``MAX_ACTIVE`` such keys.
    """
    active = [key for key in keys if key.revoked is None]
    _check_name(new_key.name, active)
    if len(active) >= MAX_ACTIVE:
        raise RequestError(f"there are {MAX_ACTIVE} keys; revoke some first", KEY_REFUSED)
    secret = _new_secret({key.id for key in keys} | set(new_key.taken))
    digest = key_digest(secret)
    key = StoredKey(
        id=id_of_digest(digest), digest=digest, name=new_key.name, created=now.replace(microsecond=0),
        expires=new_key.expires, scopes=new_key.scopes,
    )  # fmt: skip
    return secret, key


def _check_name(name: str, active: Sequence[StoredKey]) -> None:
    if _NAME.fullmatch(name) is None or _ID.fullmatch(name):
        raise RequestError(
            f"{name[:70]!r} is no name of a key: letters, digits and . _ @ + - inside, up to 64", KEY_REFUSED
        )
    if any(key.name == name for key in active):
        raise RequestError(f"there is a key {name} already; revoke it first", KEY_REFUSED)


def changed(which: str, keys: Sequence[StoredKey], edit: Edit) -> StoredKey:
    """Return what ``edit`` makes of the key with this id or name.

    Raises:
        RequestError: there is no such key, it is revoked already, or its new name is invalid or that of another one.
    """
    found = [key for key in keys if which in (key.id, key.name)]
    usable = [key for key in found if key.revoked is None]
    if not usable:
        raise RequestError(f"the key {which[:70]} is revoked already" if found else f"no key {which[:70]}", KEY_REFUSED)
    key = usable[0]
    edited = edit(key)
    if edited.name != key.name:
        _check_name(edited.name, [one for one in keys if one.revoked is None])
    return edited


def revoking(now: datetime) -> Edit:
    """Return the edit that revokes a key at ``now``."""
    return lambda key: replace(key, revoked=now.replace(microsecond=0))


def retained(keys: Sequence[StoredKey]) -> tuple[StoredKey, ...]:
    """Return the keys without the oldest revoked ones beyond ``MAX_KEPT``."""
    revoked_keys = [key for key in keys if key.revoked is not None]
    dropped_ids = {key.id for key in revoked_keys[: max(0, len(keys) - MAX_KEPT)]}
    return tuple(key for key in keys if key.id not in dropped_ids)


def _new_secret(used_ids: Collection[str]) -> str:
    """Return a new secret whose id is not taken.

    Ids are short but must be unique, since logs and settings name a key by its id.
    """
    while True:
        secret = PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
        if id_of_digest(key_digest(secret)) not in used_ids:
            return secret
