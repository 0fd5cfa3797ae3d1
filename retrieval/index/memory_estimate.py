"""Estimate the size of an index before it is built, and account for each device's memory.

An engine measures the free memory of the whole device when it starts, so whatever is loaded concurrently or later
conflicts with it. Claims are therefore made in one order, index, encoder, engine, and the engine gets the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from retrieval.index.errors import IndexFault, IndexTooLarge
from retrieval.index.spec import MIN_APPROXIMATE_ROWS, Kind, lists_for, pq_parts

GIB: Final = 1 << 30
Stage = Literal["index", "encoder", "engine"]
_STAGES: Final[tuple[Stage, ...]] = ("index", "encoder", "engine")
_COLUMN_BYTES: Final = 8 + 4 + 8 + 4
_ALIVE_BYTES: Final = 1
_ID_BYTES: Final = 8
# Two times 32 links of 4 bytes on the lowest level, and the levels above.
_HNSW_LINK_BYTES: Final = 272
_RABITQ_FACTOR_BYTES: Final = 8
_BUILD_BLOCK: Final = 65_536


@dataclass(frozen=True, slots=True)
class Estimate:
    """Hold the estimated bytes of an index.

    ``memory`` is what searches access (pages of memory-mapped files too), ``build`` the additional peak while it is
    built.
    """

    memory: int
    disk: int
    build: int


@dataclass(frozen=True, slots=True)
class MemoryClaim:
    """Reserve bytes of a device ("cpu", "cuda:0") for one component."""

    name: str
    stage: Stage
    device: str
    bytes: int


def estimate(kind: Kind, rows: int, dim: int) -> Estimate:
    """Return the estimate for one index of ``rows`` x ``dim``, from measured formats.

    38 million x 768 flat takes 54.4 GiB in memory.
    """
    kind = "flat" if rows < MIN_APPROXIMATE_ROWS else kind
    lists = lists_for(rows) * dim * 4 if kind.startswith("ivf") else 0
    structure = rows * _row_bytes(kind, dim) + lists
    stored = rows * (2 * dim + _COLUMN_BYTES)
    memory = structure + rows * _ALIVE_BYTES
    disk = stored if kind == "flat" else stored + structure
    sample = min(rows, max(_BUILD_BLOCK, 64 * lists_for(rows))) * dim * 4
    return Estimate(memory, disk, 0 if kind == "flat" else structure + 2 * sample)


class MemoryBudget:
    """Track memory claims against a budget per device.

    Budgets are in GiB, of which ``reserve_gib`` stays unassigned. Not thread-safe: claims are made at start-up.
    """

    def __init__(self, budgets_gib: Mapping[str, float], reserve_gib: float = 3.0) -> None:
        self._budgets = {device: int(max(0.0, gib - reserve_gib) * GIB) for device, gib in budgets_gib.items()}
        self._claims: list[MemoryClaim] = []

    def claim(self, claim: MemoryClaim) -> None:
        """Add a claim.

        Raises:
            IndexTooLarge: it exceeds the remaining memory; the message has the numbers.
            IndexFault: the device has no budget, or a component of a later stage is loaded already.
        """
        if claim.device not in self._budgets:
            raise IndexFault(f"{claim.device} has no memory budget", param="device")
        later = [other for other in self._on(claim.device) if _stage_rank(other.stage) > _stage_rank(claim.stage)]
        if later:
            raise IndexFault(
                f"{claim.name} must be loaded before {later[0].name}: first indices, then encoders, engines"
            )
        free = self.left(claim.device)
        if claim.bytes > free:
            raise IndexTooLarge(
                f"{claim.name} needs {_gib(claim.bytes)} of {claim.device}, of which {_gib(free)} is left "
                f"({', '.join(self.table(claim.device)) or 'nothing else is there'})"
            )
        self._claims.append(claim)

    def release(self, name: str) -> None:
        self._claims = [claim for claim in self._claims if claim.name != name]

    def left(self, device: str) -> int:
        """Return the unclaimed bytes of a device; an engine may use all of them."""
        return self._budgets[device] - sum(claim.bytes for claim in self._on(device))

    def table(self, device: str) -> list[str]:
        """Return one line for each claim, in load order."""
        return [f"{claim.stage} {claim.name}: {_gib(claim.bytes)}" for claim in self._on(device)]

    def _on(self, device: str) -> list[MemoryClaim]:
        return [claim for claim in self._claims if claim.device == device]


def check_build(kind: Kind, rows: int, dim: int, *, memory_left: int, disk_left: int) -> Estimate:
    """Return the estimate after checking that it fits, before anything is written.

    Raises:
        IndexTooLarge: it does not fit into memory or on the disk; the message has the numbers.
    """
    needed = estimate(kind, rows, dim)
    what = f"{kind} over {rows:,} x {dim}"
    if needed.memory + needed.build > memory_left:
        raise IndexTooLarge(
            f"{what} takes {_gib(needed.memory)} and {_gib(needed.build)} more while it is built; "
            f"{_gib(memory_left)} of memory is left"
        )
    if needed.disk > disk_left:
        raise IndexTooLarge(f"{what} takes {_gib(needed.disk)} on the disk, which has {_gib(disk_left)} free")
    return needed


def _row_bytes(kind: Kind, dim: int) -> int:
    sizes: dict[Kind, int] = {
        "flat": 2 * dim,
        "sq8": dim,
        "ivf-sq8": dim + _ID_BYTES,
        "ivf-pq": pq_parts(dim) + _ID_BYTES,
        "hnsw": 2 * dim + _HNSW_LINK_BYTES,
        "ivf-rabitq": dim // 8 + _RABITQ_FACTOR_BYTES + dim + _ID_BYTES,
    }
    return sizes[kind]


def _stage_rank(stage: Stage) -> int:
    return _STAGES.index(stage)


def _gib(count: int) -> str:
    return f"{count / GIB:.2f} GiB"
