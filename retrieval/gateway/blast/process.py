"""Run one program of ncbi-blast+ with fixed arguments, no shell, and every resource bounded.

Text passes through standard input. A program gets an environment of its own: no usage reports to NCBI, no look-up of
sequences over the network, no user configuration file. Memory is limited by RLIMIT_DATA: databases are mapped
read-only and shared, and a limit of the address space would prevent opening any database larger than the limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import resource
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from retrieval.errors import BLAST_FAILED, NcbiError

_MIB: Final = 1024 * 1024
_CHUNK: Final = 65_536
_MAX_ERROR_BYTES: Final = 8192
_MAX_ERROR_TEXT: Final = 300
_LETTER_RUN: Final = re.compile(r"[A-Z*-]{10,}|[acgtun]{10,}")
_ERROR_PREFIX: Final = re.compile(r"^(?:BLAST [^\n]*?error: *|Error: *)(?:Error: *)?", re.MULTILINE)
ENVIRONMENT: Final[Mapping[str, str]] = {
    "LC_ALL": "C",
    "BLAST_USAGE_REPORT": "false",
    # blast_formatter requests a sequence that its database lacks from GenBank; these settings leave it no server.
    "CONN_DISPD_DISABLE": "1",
    "CONN_LBSMD_DISABLE": "1",
    "CONN_LINKERD_DISABLE": "1",
    "CONN_NAMERD_DISABLE": "1",
    "NCBI_CONFIG__BLAST__BLAST_USAGE_REPORT": "false",
    "NCBI_CONFIG__BLAST__DATA_LOADERS": "none",
    "NCBI_DONT_USE_LOCAL_CONFIG": "1",
    "NCBI_DONT_USE_NCBIRC": "1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """Set the limits of one run.

    ``wall_s`` and ``cpu_s``: seconds, the latter over all threads; ``memory_bytes``: private writable memory;
    ``max_output``: bytes; ``nice``: added to the server's own niceness.
    """

    wall_s: float = 60.0
    cpu_s: int = 60
    memory_bytes: int = 4096 * _MIB
    max_output: int = 32 * _MIB
    nice: int = 10


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """Describe one run of a program; ``private``: texts that no error message may repeat."""

    arguments: Sequence[str]
    text: bytes
    directory: Path
    private: Sequence[str] = ()

    @property
    def program(self) -> str:
        return self.arguments[0]


def missing_programs(names: Sequence[str]) -> str:
    """Return an installation hint for the user if one of the programs is missing, else ""."""
    missing = [name for name in names if shutil.which(name) is None]
    return f"{' and '.join(missing)} not found: install ncbi-blast+ (apt install ncbi-blast+)" if missing else ""


def environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), **ENVIRONMENT}


def with_parent_death_signal(arguments: Sequence[str]) -> list[str]:
    """Return the command line that dies with its parent, so that a killed server leaves no search behind."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--", *arguments] if setpriv else [*arguments]


def limit_process(pid: int, limits: RunLimits) -> None:
    """Set limits on the running process: code between fork and exec is unsafe in a process with threads."""
    bounds = {
        resource.RLIMIT_CPU: (limits.cpu_s, limits.cpu_s + 2),
        resource.RLIMIT_DATA: (limits.memory_bytes, limits.memory_bytes),
        resource.RLIMIT_CORE: (0, 0),  # a core file would hold the sequence
        resource.RLIMIT_FSIZE: (0, 0),
    }
    with contextlib.suppress(ProcessLookupError, PermissionError):  # it may have ended already
        for kind, bound in bounds.items():
            _lower(pid, kind, bound)
        os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, 0) + limits.nice)


def _lower(pid: int, kind: int, bound: tuple[int, int]) -> None:
    """Lower one limit; a tighter one stays, because only root may raise a hard limit."""
    _, hard = resource.prlimit(pid, kind)
    if hard == resource.RLIM_INFINITY or hard > bound[1]:
        resource.prlimit(pid, kind, bound)
    else:
        resource.prlimit(pid, kind, (min(bound[0], hard), hard))


def kill_group(pid: int) -> None:
    """Kill the process group of a child.

    The child must not have been waited for yet, or must have a child left in its group: otherwise its PID may have been
    reused.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


async def run_program(work: ProgramRun, limits: RunLimits) -> bytes:
    """Run the program and return its standard output; kill it when cancelled.

    Raises:
        BLAST_FAILED: the program is missing, fails or exceeds a limit.
    """
    process = await _started(work)
    ended = False
    try:
        limit_process(process.pid, limits)
        async with asyncio.timeout(limits.wall_s):
            output, errors, _ = await asyncio.gather(
                _output(process, limits.max_output), _errors(process), _feed(process, work.text)
            )
            await process.wait()
        ended = True
    except TimeoutError as error:
        raise NcbiError(f"{work.program} ran longer than {limits.wall_s:g} s", BLAST_FAILED) from error
    finally:
        if not ended:  # a child may hold the pipes open although the program itself has ended
            kill_group(process.pid)
        await process.wait()
    if len(output) > limits.max_output:
        raise NcbiError(f"{work.program} wrote more than the {limits.max_output} bytes that are allowed", BLAST_FAILED)
    if process.returncode:
        raise NcbiError(_failure(work, process.returncode, errors, limits), BLAST_FAILED)
    return output


async def _started(work: ProgramRun) -> asyncio.subprocess.Process:
    starting = asyncio.create_task(
        asyncio.create_subprocess_exec(
            *with_parent_death_signal(work.arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=work.directory,
            env=environment(),
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # It may run already, and have children that a start which is cut short would leave behind.
        with contextlib.suppress(OSError):
            process = await starting
            kill_group(process.pid)
            await process.wait()
        raise
    except OSError as error:
        raise NcbiError(f"{work.program} cannot be started: {error.strerror}", BLAST_FAILED) from error


async def _feed(process: asyncio.subprocess.Process, text: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the exit status shows the failure
        process.stdin.write(text)
        await process.stdin.drain()
    process.stdin.close()


async def _output(process: asyncio.subprocess.Process, max_bytes: int) -> bytes:
    assert process.stdout is not None
    output = bytearray()
    while chunk := await process.stdout.read(_CHUNK):
        output += chunk
        if len(output) > max_bytes:
            kill_group(process.pid)
            break
    return bytes(output)


async def _errors(process: asyncio.subprocess.Process) -> bytes:
    """Return the end of the standard error; the rest is read and discarded, so that the pipe never fills."""
    assert process.stderr is not None
    errors = b""
    while chunk := await process.stderr.read(_CHUNK):
        errors = (errors + chunk)[-_MAX_ERROR_BYTES:]
    return errors


def _failure(work: ProgramRun, status: int, errors: bytes, limits: RunLimits) -> str:
    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"{work.program} used more than {limits.cpu_s} s of processor time, or was killed"
    return f"{work.program} failed: {error_message(errors, work.private) or f'exit status {status}'}"


def error_message(errors: bytes, private: Sequence[str] = ()) -> str:
    """Return the program's own error, without the sequence, the query's title and the server's paths."""
    text = errors.decode(errors="replace")
    if found := list(_ERROR_PREFIX.finditer(text)):
        text = text[found[-1].end() :]
    for secret in sorted(filter(None, private), key=len, reverse=True):
        text = text.replace(secret, "…")
    text = re.sub(r"(?<![\w/])/\S*/", "", text)
    return " ".join(_LETTER_RUN.sub("…", text).split())[:_MAX_ERROR_TEXT].strip()
