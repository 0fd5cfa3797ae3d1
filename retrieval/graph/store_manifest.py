"""Describe a built graph in one JSON file: its files with their digests, and a digest of the manifest itself."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from models.encoders.base import EncoderFingerprint
from retrieval.durable import FileFact
from retrieval.graph.errors import GraphDamaged
from retrieval.graph.store_schema import FILES, MANIFEST_FILE, SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Describe a built graph.

    ``inputs``: facts of each imported file by its name. ``built``: day, ISO. ``encoder``: a fingerprint as a mapping;
    ``encoder_name``: the name by which the encoder is loaded.
    """

    graph: str
    release: str
    kind: str
    nodes: int
    edges: int
    passed: int
    built: str
    encoder_name: str
    encoder: Mapping[str, Any]
    inputs: Mapping[str, FileFact]
    files: Mapping[str, FileFact] = field(default_factory=dict)

    @property
    def dim(self) -> int:
        return int(self.encoder["dim"])

    def is_of(self, encoder: EncoderFingerprint) -> bool:
        return dict(self.encoder) == as_json(encoder)

    def to_bytes(self) -> bytes:
        return _sealed({"schema": SCHEMA_VERSION, **asdict(self)})


def as_json(encoder: EncoderFingerprint) -> dict[str, Any]:
    """Return the fingerprint as it is read back from a file, with tuples as lists."""
    found: dict[str, Any] = json.loads(json.dumps(encoder.as_dict()))
    return found


def read_manifest(folder: Path) -> Manifest:
    """Read and verify the manifest of a folder.

    Raises:
        GraphDamaged: the manifest is missing, modified, or of another version of this program.
    """
    path = folder / MANIFEST_FILE
    try:
        data = path.read_bytes()
        fields: dict[str, Any] = json.loads(data)
        if _sealed({key: value for key, value in fields.items() if key != "sha256"}) != data:
            raise ValueError("its digest is another")
        if (schema := fields.pop("schema")) != SCHEMA_VERSION:
            raise GraphDamaged(f"{path} has schema {schema}; this program reads {SCHEMA_VERSION}")
        fields.pop("sha256")
        for key in ("inputs", "files"):
            fields[key] = {name: FileFact(**fact) for name, fact in fields[key].items()}
        manifest = Manifest(**fields)
        if set(manifest.files) != set(FILES):
            raise ValueError("its list of files is another")
        return manifest
    except OSError as fault:
        raise GraphDamaged(f"{path} cannot be read: {fault.strerror}") from fault
    except (ValueError, KeyError, TypeError, AttributeError) as fault:
        raise GraphDamaged(f"{path} is damaged: {fault}") from fault


def _sealed(fields: Mapping[str, Any]) -> bytes:
    plain = json.dumps(fields, sort_keys=True, ensure_ascii=False)
    digest = hashlib.sha256(plain.encode()).hexdigest()
    return (json.dumps({**fields, "sha256": digest}, sort_keys=True, ensure_ascii=False, indent=1) + "\n").encode()
