"""End an engine's child processes when this process ends without closing it (SIGKILL, a crash).

Owns one small helper process and the pipe to it. The helper sees its parent change when this process ends, however it
ends; it then ends the registered processes and their descendants. Knows nothing of engines. Linux only, since it reads
/proc; elsewhere it has no effect.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

log = logging.getLogger(__name__)

_GRACE_S = 5.0

# Runs alone in a bare interpreter. A process is identified by its id and its start time, since ids are reused. The end
# of the pipe does not show that the parent has ended: processes forked from the parent keep it open.
_HELPER = """
import os, select, signal, sys, time
def stat(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return None if fields[0] == "Z" else (int(fields[1]), fields[19])
def table():
    found = {int(name): stat(name) for name in os.listdir("/proc") if name.isdigit()}
    return {pid: entry for pid, entry in found.items() if entry}
def family(watched):
    processes = table()
    members = {pid for pid, start in watched.items() if pid in processes and processes[pid][1] == start}
    while True:
        more = {pid for pid, (parent, _) in processes.items() if parent in members} - members
        if not more:
            return {pid: processes[pid][1] for pid in members}
        members |= more
def send(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass
def orders(parent):
    buffer, sources = b"", [0]
    while True:
        # What the parent still said is read first: it may be gone before this process has come up.
        if not select.select(sources, [], [], 0.5)[0]:
            if os.getppid() != parent:
                return
            continue
        chunk = os.read(0, 4096)
        if not chunk:
            sources = []
        *lines, buffer = (buffer + chunk).split(b"\\n")
        yield from lines
watched = {}
for order in orders(int(sys.argv[2])):
    if order == b"done":
        sys.exit(0)
    entry = stat(int(order))
    if entry:
        watched[int(order)] = entry[1]
doomed = family(watched)
send(doomed, signal.SIGTERM)
deadline = time.monotonic() + float(sys.argv[1])
while doomed and time.monotonic() < deadline:
    time.sleep(0.1)
    doomed = family(doomed)
send(doomed, signal.SIGKILL)
"""


class ProcessReaper:
    """End the watched child processes if this process ends without ``release``.

    ``watch`` registers what was started since construction; call ``release`` after an orderly shutdown.
    """

    def __init__(self) -> None:
        self._before = _children()
        self._watched: set[int] = set()
        self._helper: subprocess.Popen[str] | None = None
        if not Path("/proc/self/stat").exists():
            log.warning("no /proc here: engine processes would outlive a killed server")
            return
        self._helper = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _HELPER, str(_GRACE_S), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            # A signal to our process group (Ctrl-C, a closed terminal) must not end the helper before its work.
            start_new_session=True,
        )

    @property
    def watched(self) -> frozenset[int]:
        """Return the registered process ids."""
        return frozenset(self._watched)

    def watch(self) -> None:
        """Register the child processes that multiprocessing has started since construction."""
        for pid in _children() - self._before - self._watched:
            self._watched.add(pid)
            self._send(str(pid))

    def release(self) -> None:
        """End the helper without ending any other process."""
        self._send("done")
        helper, self._helper = self._helper, None
        if helper is None:
            return
        try:
            if helper.stdin is not None:
                helper.stdin.close()
            helper.wait(timeout=_GRACE_S)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            helper.kill()
            helper.wait()

    def _send(self, line: str) -> None:
        if self._helper is None or self._helper.stdin is None:
            return
        try:
            self._helper.stdin.write(line + "\n")
            self._helper.stdin.flush()
        except BrokenPipeError:
            log.warning("the process guard has died; engine processes would outlive a killed server")
            self._helper.wait()
            self._helper = None


def _children() -> set[int]:
    return {child.pid for child in multiprocessing.active_children() if child.pid is not None}
