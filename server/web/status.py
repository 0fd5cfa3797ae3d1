"""Read the state of the audit log and of the built-in gateway's store from their files."""

from __future__ import annotations

from typing import Any

from retrieval.errors import RetrievalError
from retrieval.formats.records import DATABASES
from retrieval.gateway.store.open import open_store
from server.settings.paths import audit_path, gateway_dir
from server.settings.schema import Settings


def status_of(settings: Settings) -> dict[str, Any]:
    return {"audit": _audit(settings), "gateway": _gateway(settings)}


def _audit(settings: Settings) -> dict[str, Any]:
    recording = settings.egress.mode != "off" or settings.audit.path is not None
    try:
        found = audit_path(settings).stat() if recording else None
    except OSError:
        found = None
    return {
        "recording": recording,
        "bytes": found.st_size if found else 0,
        "last": int(found.st_mtime) if found else None,
    }


def _gateway(settings: Settings) -> dict[str, int]:
    """Return the number of records by database, {} where the store cannot be read."""
    try:
        store = open_store(gateway_dir(settings))
    except (RetrievalError, OSError):
        return {}
    try:
        return {name: store.count(name) for name in DATABASES}
    finally:
        store.close()
