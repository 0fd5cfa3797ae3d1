"""The id of a request: the client's own where it can only be an id, else a new one."""

from __future__ import annotations

import re
import secrets
from typing import Final

# A UUID, a trace id, a proxy's id: hexadecimal digits and dashes. Anything wider could hold words into the logs.
_SAFE: Final = re.compile(r"[0-9A-Fa-f](?:-?[0-9A-Fa-f]){15,63}", re.ASCII)


def request_id_for(given: str) -> str:
    """``given``: the ``x-request-id`` header, "" for none."""
    return given if _SAFE.fullmatch(given) else new_id()


def new_id() -> str:
    """32 hexadecimal digits by chance."""
    return secrets.token_hex(16)
