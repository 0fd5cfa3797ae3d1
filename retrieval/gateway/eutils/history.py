"""Store searches by WebEnv and query key, as Entrez's history server does.

A WebEnv of ``SignedHistory`` has its searches inside, signed and with the time of their end, so that every copy of the
gateway with the same key answers for it and no copy stores anything. Only lists of ids that are too long for a URL are
in the memory of one copy.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import os
import secrets
import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from retrieval.formats.records import DATABASES, Database
from retrieval.storage.files import FILE_MODE

log = logging.getLogger(__name__)
_MAX_ENVIRONMENTS: Final = 500
_MAX_SEARCHES: Final = 100
_MAX_BYTES: Final = 128 * 2**20
_OF_A_TEXT: Final = 64  # bytes of overhead per string
_TTL_S: Final = 8 * 3600.0
KEY_FILE: Final = "history.key"
_KEY_BYTES: Final = 32
_PREFIX: Final = "MCID_"
_SIGNATURE_BYTES: Final = 16
# A query string may have 32 KiB; a WebEnv stands in it beside the other parameters.
_MAX_CHARS: Final = 24 * 1024
_MAX_TEXT: Final = 2**20
# What a stored search is run again with; the rest of a call is about the form of its reply.
_KEPT_PARAMS: Final = ("term", "sort", "datetype", "reldate", "mindate", "maxdate", "field")


@dataclass(frozen=True, slots=True)
class StoredSearch:
    """Hold a stored search, which is run again when used.

    ``params`` are those of an esearch; ``uids`` are those of an epost.
    """

    db: Database
    params: Mapping[str, str]
    uids: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Return the approximate size in memory, in bytes."""
        texts = (*self.params.values(), *self.uids)
        return sum(map(len, texts)) + _OF_A_TEXT * (1 + len(texts))


@dataclass(slots=True)
class _Environment:
    used: float
    searches: list[StoredSearch] = field(default_factory=list)
    size: int = 0


class History:
    """Store searches by WebEnv, for concurrent use by many threads.

    An environment expires after eight hours without use. The least recently used ones are evicted when there are too
    many or they hold more than ``max_bytes``; the one that a call has just used stays.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, max_bytes: int = _MAX_BYTES) -> None:
        self._clock = clock
        self._max_bytes = max_bytes
        self._total_size = 0
        self._lock = threading.Lock()
        self._environments: OrderedDict[str, _Environment] = OrderedDict()

    def keep(self, environment: str, search: StoredSearch) -> tuple[str, int]:
        """Store a search and return (WebEnv, query key from 1).

        The environment is a new one if the named one is unknown or full.
        """
        with self._lock:
            self._forget_old()
            known = self._environments.get(environment)
            if known is None or len(known.searches) >= _MAX_SEARCHES or known.size >= self._max_bytes:
                environment, known = f"MCID_{secrets.token_hex(16)}", _Environment(self._clock())
                self._environments[environment] = known
            known.searches.append(search)
            known.size += search.size
            self._total_size += search.size
            self._touch(environment, known)
            self._forget_old()
            return environment, len(known.searches)

    def find(self, environment: str, query_key: str) -> StoredSearch | None:
        with self._lock:
            self._forget_old()
            known = self._environments.get(environment)
            if known is None or not (query_key.isascii() and query_key.isdigit() and len(query_key) < 6):
                return None
            self._touch(environment, known)
            number = int(query_key)
            return known.searches[number - 1] if 0 < number <= len(known.searches) else None

    def _touch(self, environment: str, known: _Environment) -> None:
        known.used = self._clock()
        self._environments.move_to_end(environment)

    def _forget_old(self) -> None:
        now = self._clock()
        while self._environments:
            oldest = next(iter(self._environments.values()))
            fits = len(self._environments) <= _MAX_ENVIRONMENTS and self._total_size <= self._max_bytes
            if now - oldest.used <= _TTL_S and (fits or len(self._environments) == 1):
                return
            self._environments.popitem(last=False)
            self._total_size -= oldest.size


class SignedHistory(History):
    """Store searches in the WebEnv itself, for concurrent use by many threads and by all who have the same key.

    A WebEnv ends eight hours after it was given out. A call that adds a search to a WebEnv gets a new one, which has
    the earlier searches under their query keys; the earlier WebEnv stays as it is.
    """

    def __init__(self, key: bytes, now: Callable[[], float] = time.time) -> None:
        super().__init__()
        self._key = hashlib.sha256(b"arrowhead gateway WebEnv 1\0" + key).digest()
        self._now = now

    def keep(self, environment: str, search: StoredSearch) -> tuple[str, int]:
        """Return (WebEnv, query key from 1) for a search.

        The WebEnv has those of the named one before it, unless that is unknown, foreign, expired or full.
        """
        earlier = self._searches(environment)
        if not earlier and super().find(environment, "1") is not None:
            return super().keep(environment, search)
        searches = [*(earlier if len(earlier) < _MAX_SEARCHES else ()), _reduced(search)]
        signed = self._signed(searches)
        if len(signed) <= _MAX_CHARS:
            return signed, len(searches)
        kept = ("", 0)
        for one in searches:
            kept = super().keep(kept[0], one)
        return kept

    def find(self, environment: str, query_key: str) -> StoredSearch | None:
        """Return a stored search, None where the WebEnv is unknown, changed, foreign or expired, or has no such key."""
        searches = self._searches(environment)
        if not searches:
            return super().find(environment, query_key)
        if not (query_key.isascii() and query_key.isdigit() and len(query_key) < 6):
            return None
        number = int(query_key)
        return searches[number - 1] if 0 < number <= len(searches) else None

    def _signed(self, searches: Sequence[StoredSearch]) -> str:
        rows = [[one.db, dict(one.params), ",".join(one.uids)] for one in searches]
        text = json.dumps([int(self._now() + _TTL_S), rows], ensure_ascii=False, separators=(",", ":"))
        packed = zlib.compress(text.encode("utf-8", "surrogatepass"), 9)
        return _PREFIX + base64.urlsafe_b64encode(self._signature(packed) + packed).rstrip(b"=").decode("ascii")

    def _searches(self, environment: str) -> list[StoredSearch]:
        """Return the searches of a WebEnv that this key signed and that has not expired, else none."""
        text = environment.removeprefix(_PREFIX)
        if len(environment) > _MAX_CHARS or text == environment:
            return []
        try:
            sent = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except ValueError:
            return []
        signature, packed = sent[:_SIGNATURE_BYTES], sent[_SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, self._signature(packed)):
            return []
        ends_at, rows = json.loads(zlib.decompressobj().decompress(packed, _MAX_TEXT).decode("utf-8", "surrogatepass"))
        if self._now() > ends_at:
            return []
        return [
            StoredSearch(db, params, tuple(uids.split(",")) if uids else ())
            for db, params, uids in rows
            if db in DATABASES
        ]

    def _signature(self, packed: bytes) -> bytes:
        return hmac.digest(self._key, packed, "sha256")[:_SIGNATURE_BYTES]


def _reduced(search: StoredSearch) -> StoredSearch:
    """Return the search without what its results do not depend on, such as the WebEnv that the call named."""
    return StoredSearch(
        search.db, {name: search.params[name] for name in _KEPT_PARAMS if name in search.params}, search.uids
    )


def history_key(folder: Path) -> bytes:
    """Return the key of the folder's history, which is made where there is none.

    Copies of the gateway over one folder have one key. In a folder that cannot be written and has no key, this copy
    alone answers for its WebEnvs, until it ends.
    """
    path = folder / KEY_FILE
    try:
        if not path.exists():
            _create_key(path)
        return path.read_bytes()
    except OSError as error:
        log.warning("WebEnvs of this copy count here alone: %s: %s", path, error.strerror)
        return secrets.token_bytes(_KEY_BYTES)


def _create_key(path: Path) -> None:
    """Create the file with its whole content at once, unless another copy was faster."""
    draft = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    try:
        os.write(descriptor, secrets.token_hex(_KEY_BYTES).encode("ascii"))
        os.fsync(descriptor)
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        os.close(descriptor)
        draft.unlink(missing_ok=True)
