"""The memory that a process may use, by /proc and its control groups."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from models.torch_runtime.memory import MachineMemory, machine_memory

GIB = 2**30


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine of 64 GiB, 50 of them available."""
    return _machine(tmp_path, "")


def _machine(root: Path, cgroup: str) -> Path:
    (root / "proc/self").mkdir(parents=True, exist_ok=True)
    (root / "proc/meminfo").write_text(f"MemTotal: {64 * 2**20} kB\nMemFree: 1 kB\nMemAvailable: {50 * 2**20} kB\n")
    (root / "proc/self/cgroup").write_text(cgroup)
    return root


def _group(folder: Path, **files: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        (folder / name.replace("__", ".")).write_text(f"{value}\n")


def test_without_a_limit_it_is_the_machines(root: Path) -> None:
    """No control groups at all, a group without a limit, and v1's number for none."""
    whole = MachineMemory(64 * GIB, 50 * GIB)
    assert machine_memory(root) == whole

    _machine(root, "0::/user\n")
    _group(root / "sys/fs/cgroup/user", memory__max="max", memory__current=GIB)
    assert machine_memory(root) == whole

    _machine(root, "5:cpu,memory:/docker/x\n")
    _group(root / "sys/fs/cgroup/memory", memory__limit_in_bytes=2**63 - 4096)
    assert machine_memory(root) == whole


def test_a_limit_of_version_2_counts_and_its_page_cache_does_not(root: Path) -> None:
    """A container of 8 GiB that uses 5, of which 3 are cache of files."""
    _machine(root, "0::/\n")
    _group(
        root / "sys/fs/cgroup", memory__max=8 * GIB, memory__current=5 * GIB,
        memory__stat=f"anon 1\ninactive_file {3 * GIB}",
    )  # fmt: skip
    assert machine_memory(root) == MachineMemory(8 * GIB, 6 * GIB)


def test_the_tightest_of_nested_groups_counts(root: Path) -> None:
    """A service in a slice."""
    _machine(root, "0::/a.slice/b.service\n")
    _group(root / "sys/fs/cgroup/a.slice", memory__max=16 * GIB, memory__current=15 * GIB)
    _group(root / "sys/fs/cgroup/a.slice/b.service", memory__max=20 * GIB, memory__current=GIB)
    assert machine_memory(root) == MachineMemory(16 * GIB, GIB)


def test_a_limit_of_version_1_counts(root: Path) -> None:
    """In a container the path is the host's, and the group is the mount's own folder."""
    _machine(root, "9:memory:/docker/0123\n1:name=systemd:/docker/0123\n")
    _group(
        root / "sys/fs/cgroup/memory", memory__limit_in_bytes=4 * GIB, memory__usage_in_bytes=GIB,
        memory__stat=f"total_inactive_file {GIB // 2}",
    )  # fmt: skip
    assert machine_memory(root) == MachineMemory(4 * GIB, 4 * GIB - GIB // 2)


def test_files_of_another_form_are_passed_over(tmp_path: Path) -> None:
    """Then it is what the system says of its pages."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal:\n")
    found = machine_memory(tmp_path)
    assert found.total == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < found.available < found.total


def test_this_machine_can_be_read() -> None:
    """Whatever limits this test runs under."""
    found = machine_memory()
    assert 0 < found.available <= found.total
