"""Serialize records to the store's bytes and back: JSON, deflated.

Pure functions, no I/O.
"""

from __future__ import annotations

import dataclasses
import json
import zlib
from typing import Any, Final

from retrieval.gateway.records import KINDS, Database, Organism, Record

_LEVEL: Final = 3  # most of the gain for a third of the time of the default


def encode(record: Record) -> bytes:
    text = json.dumps(_values(record), ensure_ascii=False, separators=(",", ":"), default=_values)
    return zlib.compress(text.encode(), _LEVEL)


def decode(db: Database, body: bytes) -> Record:
    """Deserialize a record.

    Raises:
        zlib.error, ValueError: the bytes are damaged.
    """
    values = {key: _tuples(value) for key, value in json.loads(zlib.decompress(body)).items()}
    if db == "gene":
        values["organism"] = Organism(**{key: _tuples(value) for key, value in values["organism"].items()})
    record: Record = KINDS[db](**values)
    return record


def _values(record: Any) -> dict[str, Any]:
    """Return the record's fields; ``dataclasses.asdict`` would copy every value, which takes longer than writing it."""
    return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}


def _tuples(value: Any) -> Any:
    """Convert JSON arrays back to the tuples of the records."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
