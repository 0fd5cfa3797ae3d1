"""Report the API keys and access rules of a server as terminal text.

The text holds no secret and no digest.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Final

from server.auth.api_keys import Keyring
from server.egress.policy import EgressPolicy
from server.settings.loading import keys_file
from server.settings.schema import Settings
from server.settings.server import is_loopback

_MAX_LISTED: Final = 20


def named_keys(policy: EgressPolicy, keyring: Keyring) -> str:
    """Return the ids of the keys with their egress modes, "" if there are no keys.

    ``egress.key_modes`` and the audit log use the same ids. Keys after the first 20 are only counted.
    """
    ids = keyring.ids
    entries = [f"{name} {policy.ceiling(name)}" for name in ids[:_MAX_LISTED]]
    return ", ".join(entries) + (f" and {len(ids) - _MAX_LISTED} more" if len(ids) > _MAX_LISTED else "")


def access_lines(settings: Settings, keyring: Keyring) -> list[str]:
    """Return the report lines on authentication and allowed web origins."""
    local = is_loopback(settings.server.host)
    if not local or keyring.requires_key:
        where = f"{len(keyring.fixed_ids)} of the settings, {len(keyring.active)} of {keys_file(settings)}"
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
