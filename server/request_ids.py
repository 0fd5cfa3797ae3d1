"""Choose the id of a request: that of the client if it can only be an id, else a new one."""

from __future__ import annotations

import re
import secrets
from typing import Final

# Covers UUIDs, trace ids and ids of proxies. Any wider alphabet would let words into the logs.
_SAFE: Final = re.compile(r"[0-9A-Fa-f](?:-?[0-9A-Fa-f]){15,63}", re.ASCII)


def request_id_for(given: str) -> str:
    """Return the given id if it is safe to log, else a new one.

    ``given``: the ``x-request-id`` header, "" for none.
    """
    return given if _SAFE.fullmatch(given) else new_id()


def new_id() -> str:
    """Return 32 random hexadecimal digits."""
    return secrets.token_hex(16)
