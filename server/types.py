"""Name what settings, keys, egress and methods have in common: egress modes and key ids."""

from __future__ import annotations

import hashlib
from typing import Final, Literal, get_args

# From the least that may leave to the most.
EgressMode = Literal["off", "local-first", "ncbi"]
EGRESS_MODES: Final[tuple[EgressMode, ...]] = get_args(EgressMode)
EgressProfile = Literal["hospital", "open"]
_KEY_ID_CHARS: Final = 8


def key_digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def key_id(key: str) -> str:
    """Return the name of an API key for places where the key itself must not appear.

    It is the first 8 hex digits of the key's SHA-256.
    """
    return id_of_digest(key_digest(key))


def id_of_digest(digest: str) -> str:
    """Return the key id of a digest; "" for "", the owner of requests on a server without keys."""
    return digest[:_KEY_ID_CHARS]
