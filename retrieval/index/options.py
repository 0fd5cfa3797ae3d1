"""How an index is opened, as against what it is."""

from __future__ import annotations

from dataclasses import dataclass, field

from retrieval.durable import Disk
from retrieval.index.manifest import Verify


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenOptions:
    """``write``: as the one writer, else as one of many readers. ``verify``: "sizes" leaves the digests unread, for
    indices that take minutes to read. ``threads`` of the search library, 0 for its own choice. ``device`` of back ends
    that have one. ``tail_rows`` are kept in memory before they are sealed; no segment grows beyond ``segment_rows``.
    A filter that leaves fewer than ``gather_rows`` of an approximate segment is met by scoring exactly those.
    ``probe_share`` of the lists of an IVF type are looked into. ``batch_ms``: how long a search on a GPU waits for
    others to go with it, at most ``queue`` of them at a time. ``disk`` writes.
    """

    write: bool = False
    verify: Verify = "full"
    threads: int = 0
    device: str = "cpu"
    tail_rows: int = 32_768
    segment_rows: int = 4_000_000
    gather_rows: int = 10_000
    probe_share: float = 0.25
    batch_ms: float = 3.0
    queue: int = 1_024
    disk: Disk = field(default_factory=Disk)
