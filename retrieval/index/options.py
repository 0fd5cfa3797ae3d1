"""Configure how an index is opened, as opposed to what it contains."""

from __future__ import annotations

from dataclasses import dataclass, field

from retrieval.durable import Disk
from retrieval.index.manifest import Verify


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenOptions:
    """Configure the opening of an index.

    ``write``: open as the only writer, else as one of many readers. ``verify``: "sizes" skips the digests, for indices
    that take minutes to read. ``threads`` of the search library, 0 for its default. ``device`` of back ends that use
    one. ``tail_rows`` stay in memory before they are sealed; no segment grows beyond ``segment_rows``. If a filter
    leaves fewer than ``gather_rows`` of an approximate segment, exactly those rows are scored. ``probe_share`` is the
    share of an IVF type's lists that is probed. ``batch_ms``: how long a search on a GPU waits to be batched with
    others, at most ``queue`` of them. ``disk`` performs the writes.
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
