"""Describe a generation of an index: its files and their digests, in one JSON file with its own digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from models.encoders.base import Metric
from models.files import parse_json
from retrieval.errors import INDEX_MISMATCH, IndexDamaged, IndexFault
from retrieval.index.backends.base import Backend
from retrieval.index.spec import GIB, PROBE_SHARE, FilteredSearch, IndexSpec, Kind, KindChoice
from retrieval.storage.files import Disk, FileDigest, digest_file

SCHEMA: Final = 1
Verify = Literal["full", "sizes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentEntry:
    """List the files of one segment.

    ``files`` maps names inside the index's folder; ``dead_file`` is the name of the tombstone file, or "". ``recall``
    at 10 was measured when the segment was built, with ``probe_share`` of its lists; None where it was not (``flat``).
    """

    number: int
    kind: Kind
    rows: int
    dead: int = 0
    dead_file: str = ""
    probe_share: float = PROBE_SHARE
    recall: float | None = None
    files: Mapping[str, FileDigest] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Describe one generation.

    ``corpus`` is the caller's identifier of the source data (a digest), "" if there is none.
    """

    generation: int
    dim: int
    metric: Metric
    kind: KindChoice
    encoder: Mapping[str, Any]
    corpus: str = ""
    segments: tuple[SegmentEntry, ...] = ()

    @property
    def rows(self) -> int:
        """Return the number of live rows."""
        return sum(entry.rows - entry.dead for entry in self.segments)

    @property
    def recall(self) -> float | None:
        """Return the recall at 10 of the worst segment, 1 where all are exact; None where one was not measured."""
        measured = [1.0 if entry.kind == "flat" else entry.recall for entry in self.segments]
        known = [recall for recall in measured if recall is not None]
        return min(known, default=1.0) if len(known) == len(measured) else None

    def files(self) -> dict[str, FileDigest]:
        return {name: fact for entry in self.segments for name, fact in entry.files.items()}

    def to_bytes(self) -> bytes:
        return _sealed({"schema": SCHEMA, "rows": self.rows, **asdict(self)})


def manifest_from_bytes(data: bytes, name: str) -> Manifest:
    """Parse a manifest and verify its digest; ``name`` is the file, for messages.

    Raises:
        IndexDamaged: a byte differs from what was written.
        IndexFault: it was written by another version of this program.
    """
    try:
        fields: dict[str, Any] = parse_json(data)
        if _sealed({key: value for key, value in fields.items() if key != "sha256"}) != data:
            raise ValueError("its digest is another")
        if fields["schema"] != SCHEMA:
            raise IndexFault(f"{name} has schema {fields['schema']}; this program reads {SCHEMA}", INDEX_MISMATCH)
        return _manifest(fields)
    except (ValueError, KeyError, TypeError, AttributeError) as fault:
        raise IndexDamaged(f"{name} is damaged: {fault}") from fault


def check_fits(manifest: Manifest, spec: IndexSpec, name: str) -> None:
    """Check that the index has the encoder, dimension and metric of ``spec``.

    Raises:
        IndexFault: one of them differs.
    """
    if manifest.dim != spec.dim:
        raise IndexFault(f"{name} has dimension {manifest.dim}, not {spec.dim}", INDEX_MISMATCH, param="dim")
    if manifest.metric != spec.metric:
        raise IndexFault(f"{name} has metric {manifest.metric}, not {spec.metric}", INDEX_MISMATCH, param="metric")
    expected, found = spec.encoder_json(), dict(manifest.encoder)
    if expected != found:
        other = sorted(key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key))
        raise IndexFault(
            f"{name} was made by another encoder: {', '.join(other)} differ", INDEX_MISMATCH, param="encoder"
        )


def check_files(folder: Path, files: Mapping[str, FileDigest], verify: Verify) -> None:
    """Check the sizes and, with "full", the digests of files.

    Raises:
        IndexDamaged: a file is truncated or (with "full") changed.
        FileNotFoundError: a file is missing.
    """
    for name, fact in files.items():
        size = (folder / name).stat().st_size
        if size != fact.bytes:
            raise IndexDamaged(f"{folder / name} has {size} bytes, not {fact.bytes}")
        if verify == "full" and digest_file(folder / name) != fact:
            raise IndexDamaged(f"{folder / name} is not as it was written: its digest is another")


def _sealed(fields: Mapping[str, Any]) -> bytes:
    """Return canonical JSON with its own digest: serialising it again reveals any changed byte."""
    plain = json.dumps(fields, sort_keys=True, indent=1)
    digest = hashlib.sha256(plain.encode()).hexdigest()
    return (json.dumps({**fields, "sha256": digest}, sort_keys=True, indent=1) + "\n").encode()


def _manifest(fields: dict[str, Any]) -> Manifest:
    entries = []
    for entry in fields["segments"]:
        files = {name: FileDigest(int(f["bytes"]), str(f["sha256"])) for name, f in entry["files"].items()}
        entries.append(SegmentEntry(**{**entry, "files": files}))
    names = ("generation", "dim", "metric", "kind", "encoder", "corpus")
    return Manifest(**{name: fields[name] for name in names}, segments=tuple(entries))


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenOptions:
    """Configure the opening of an index.

    ``write``: open as the only writer, else as one of many readers. ``verify``: "sizes" skips the digests, for indices
    that take minutes to read. ``threads`` of the search library, 0 for its default. ``device`` of back ends that use
    one, and a search there allocates at most ``scratch_bytes``; ``backend`` is one that several indices share, in place
    of an own one of the spec's name. ``tail_rows`` stay in memory before they are sealed; no segment grows beyond
    ``segment_rows``. ``filtered`` is how approximate segments are searched under a filter (a scan where there is a copy
    of the rows to scan), None for the way that costs least. ``probe_share`` is the share of an IVF type's lists that is
    probed, None for the one that each segment needs. ``batch_ms``: how long a search on a GPU waits to be batched with
    others, at most ``queue`` of them. ``disk`` performs the writes.
    """

    write: bool = False
    verify: Verify = "full"
    threads: int = 0
    device: str = "cpu"
    scratch_bytes: int = GIB
    backend: Backend | None = None
    tail_rows: int = 32_768
    segment_rows: int = 4_000_000
    filtered: FilteredSearch | None = None
    probe_share: float | None = None
    batch_ms: float = 3.0
    queue: int = 1_024
    disk: Disk = field(default_factory=Disk)
