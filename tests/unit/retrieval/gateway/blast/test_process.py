"""Runs of single programs: what they are given, and what holds them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from blast_data import bases, make_database, needs_blast, residues, script

from retrieval.errors import BLAST_FAILED, NcbiError
from retrieval.gateway.blast.process import ProgramRun, RunLimits, run_program

LIMITS = RunLimits(wall_s=120.0, cpu_s=120)


async def test_a_program_gets_no_more_of_the_environment_than_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No usage report to NCBI, no look-up over the network, no configuration of the user's, no secrets."""
    monkeypatch.setenv("ARROWHEAD_NCBI__API_KEY", "secret")
    monkeypatch.setenv("BLASTDB", "/elsewhere")
    lines = (await run_program(ProgramRun(["env"], b"", tmp_path), LIMITS)).decode().splitlines()
    assert set(lines) - {f"PATH={os.environ['PATH']}", f"PWD={tmp_path}"} == {
        "LC_ALL=C",
        "BLAST_USAGE_REPORT=false",
        "CONN_DISPD_DISABLE=1",
        "CONN_LBSMD_DISABLE=1",
        "CONN_LINKERD_DISABLE=1",
        "CONN_NAMERD_DISABLE=1",
        "NCBI_CONFIG__BLAST__BLAST_USAGE_REPORT=false",
        "NCBI_CONFIG__BLAST__DATA_LOADERS=none",
        "NCBI_DONT_USE_LOCAL_CONFIG=1",
        "NCBI_DONT_USE_NCBIRC=1",
    }


async def test_limits_hold_for_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processor time, private memory, files and core files; the address space stays open for large databases."""
    # It waits for its text, which comes after the limits.
    script(tmp_path, "show", 'read x; for o in t d c v; do ulimit -"$o"; done; : > file; echo data > file')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.defpath}")
    limits = RunLimits(cpu_s=17, memory_bytes=512 * 1024 * 1024)
    with pytest.raises(NcbiError, check=BLAST_FAILED.is_of):
        await run_program(ProgramRun(["show"], b"go\n", tmp_path), limits)
    assert (tmp_path / "file").read_bytes() == b""
    script(tmp_path, "show", 'read x; for o in t d c v; do ulimit -"$o"; done')
    shown = await run_program(ProgramRun(["show"], b"go\n", tmp_path), limits)
    assert shown.decode().split() == ["17", str(512 * 1024), "0", "unlimited"]


async def test_what_cannot_be_started_is_a_typed_error(tmp_path: Path) -> None:
    """A program or a folder that is not there."""
    for work in (ProgramRun(["no-such-program"], b"", tmp_path / "gone"), ProgramRun(["env"], b"", tmp_path / "gone")):
        with pytest.raises(NcbiError, match="cannot be started", check=BLAST_FAILED.is_of):
            await run_program(work, LIMITS)


async def test_a_program_that_reads_nothing_does_not_hang(tmp_path: Path) -> None:
    """A text larger than the pipe, which nobody takes."""
    assert await run_program(ProgramRun(["true"], b"x" * 1_000_000, tmp_path), LIMITS) == b""


@needs_blast
@pytest.mark.parametrize("program", ["blastn", "blastp"])
async def test_blast_runs_within_half_a_gigabyte_and_fails_cleanly_without_memory(tmp_path: Path, program: str) -> None:
    """The limit does not break it, and its end is an error and not a hang."""
    letters, molecule = (bases, "nucl") if program == "blastn" else (residues, "prot")
    make_database(tmp_path / "some", {f"s{n}": letters(5000, n) for n in range(40)}, molecule=molecule)
    work = ProgramRun(
        [program, "-db", "some", "-query", "-", "-outfmt", "6"], f">q\n{letters(900, 7)}\n".encode(), tmp_path
    )
    enough = RunLimits(wall_s=120.0, cpu_s=120, memory_bytes=512 * 1024 * 1024)
    assert (await run_program(work, enough)).startswith(b"q\ts7\t100.000\t900")
    with pytest.raises(NcbiError, check=BLAST_FAILED.is_of):
        await run_program(work, RunLimits(wall_s=120.0, cpu_s=120, memory_bytes=4 * 1024 * 1024))
