"""Read the memory that this process may use, within the limits of its control groups. Free of torch.

A container sees the whole machine in /proc/meminfo, but is killed when it exceeds the limit of its control group.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

_ROOT: Final = Path("/")


@dataclass(frozen=True, slots=True)
class MachineMemory:
    """Hold bytes: ``total`` of the machine or of the tightest control group, ``available`` without swapping."""

    total: int
    available: int


class _Names(NamedTuple):
    """Name the files of a control group, and the counter of the page cache that it gives back under pressure."""

    limit: str
    usage: str
    cache: str


_V2: Final = _Names("memory.max", "memory.current", "inactive_file")
_V1: Final = _Names("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def machine_memory(root: Path = _ROOT) -> MachineMemory:
    """Read the memory; ``root`` is the folder that holds ``proc`` and ``sys``."""
    total, available = _meminfo(root)
    for folder, names in _groups(root):
        limit, used = _number(folder / names.limit), _number(folder / names.usage)
        # A group without a limit says "max" (v2) or a number beyond any machine's memory (v1).
        if limit is None or limit >= total:
            continue
        free = limit - max((used or 0) - _counter(folder / "memory.stat", names.cache), 0)
        total, available = limit, min(available, max(free, 0))
    return MachineMemory(total, min(available, total))


def _meminfo(root: Path) -> tuple[int, int]:
    values: dict[str, int] = {}
    try:
        for line in (root / "proc/meminfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in ("MemTotal", "MemAvailable"):
                values[name] = int(value.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        values = {}
    total = values.get("MemTotal") or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return total, values.get("MemAvailable", total // 2)


def _groups(root: Path) -> Iterator[tuple[Path, _Names]]:
    """Yield the folders of this process's control groups and their parents, each of which may have a limit."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if number == "0" and not controllers:
            yield from _upwards(root / "sys/fs/cgroup", path, _V2)
        elif "memory" in controllers.split(","):
            yield from _upwards(root / "sys/fs/cgroup/memory", path, _V1)


def _upwards(mount: Path, path: str, names: _Names) -> Iterator[tuple[Path, _Names]]:
    # In a container the path may be the host's, of which only the mount's own folder is visible.
    inner = Path(path.lstrip("/"))
    parts = inner.parts if ".." not in inner.parts else ()
    for length in range(len(parts), -1, -1):
        yield mount.joinpath(*parts[:length]), names


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text().strip())
    except (OSError, ValueError):
        return None


def _counter(file: Path, name: str) -> int:
    try:
        lines = file.read_text().splitlines()
        return next((int(line.split()[1]) for line in lines if line.split(" ", 1)[0] == name), 0)
    except (OSError, ValueError, IndexError):
        return 0
