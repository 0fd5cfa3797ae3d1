"""Watch what a server and the processes that it starts ask of the network.

Two watchers complete each other: an audit hook in each Python process sees every connection and every look-up of a name
that Python makes, also one that fails at once; the system's table of sockets, read many times a second, sees what
libraries in other languages open, if it stays open that long. Linux.
"""

from __future__ import annotations

import ipaddress
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

WATCHED: Final = Path(__file__).parent / "watched"
EVERY_S: Final = 0.05
_TABLES: Final = ("tcp", "tcp6", "udp", "udp6")
# Behind the name of the program: state, parent, group, session.
_SESSION: Final = 3
_BYTES_OF_WORD: Final = 4


class Contact(NamedTuple):
    """Name what was asked of the network: ``kind`` is "connection" or "name"."""

    kind: str
    host: str
    port: str


class Watch:
    """Watch the processes of one session; ``environment`` is for the first of them.

    ``folder`` keeps the hook's file.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / "contacts.jsonl"
        self._file.touch(mode=0o600)
        self._open: set[Contact] = set()
        self._ended = threading.Event()
        self._reader: threading.Thread | None = None

    @property
    def environment(self) -> dict[str, str]:
        paths = [str(WATCHED), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {"EGRESS_WATCH_FILE": str(self._file), "PYTHONPATH": os.pathsep.join(paths)}

    def begin(self, session: int) -> None:
        """Read the sockets of all processes of a session until ``end``."""
        self._reader = threading.Thread(target=self._read, args=(session,), daemon=True)
        self._reader.start()

    def end(self) -> list[Contact]:
        """Return all contacts that were seen, each once, in order."""
        self._ended.set()
        if self._reader is not None:
            self._reader.join()
        return sorted(self._open | set(self._hooked()))

    def _read(self, session: int) -> None:
        while not self._ended.wait(EVERY_S):
            self._open |= set(open_contacts(session))

    def _hooked(self) -> Iterator[Contact]:
        for line in self._file.read_text(encoding="utf-8").splitlines():
            kind, host, port, _ = json.loads(line)
            if kind != "path" and host:
                is_name = kind.startswith("socket.get") and not _is_address(host)
                yield Contact("name" if is_name else "connection", host, port)


def is_outside(contact: Contact) -> bool:
    """Return whether a contact is to another machine; a name is, unless it is this machine's."""
    if contact.kind == "name":
        return contact.host.lower() not in ("localhost", os.uname().nodename.lower())
    try:
        address = ipaddress.ip_address(contact.host.partition("%")[0])
    except ValueError:
        return True
    address = getattr(address, "ipv4_mapped", None) or address
    return not (address.is_loopback or address.is_unspecified)


def open_contacts(session: int) -> Iterator[Contact]:
    """Yield the remote ends of the sockets that the processes of a session have open."""
    inodes = {inode for process in _processes(session) for inode in _sockets(process)}
    if not inodes:
        return
    for table in _TABLES:
        for line in _lines(Path("/proc/net") / table)[1:]:
            fields = line.split()
            host, _, port = fields[2].partition(":")
            if fields[9] in inodes and int(port, 16):
                yield Contact("connection", _address(host), str(int(port, 16)))


def _processes(session: int) -> Iterator[Path]:
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            # The name of the program, in brackets, may have blanks.
            fields = "".join(_lines(process / "stat")).rpartition(")")[2].split()
            if len(fields) > _SESSION and fields[_SESSION] == str(session):
                yield process


def _sockets(process: Path) -> Iterator[str]:
    try:
        for descriptor in (process / "fd").iterdir():
            target = descriptor.readlink().name
            if target.startswith("socket:["):
                yield target[len("socket:[") : -1]
    except OSError:
        return  # it ended, or closed the file meanwhile


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []


def _address(text: str) -> str:
    """Return an address of the table, which has words of four bytes in the machine's order."""
    raw = bytes.fromhex(text)
    words = [raw[place : place + _BYTES_OF_WORD][::-1] for place in range(0, len(raw), _BYTES_OF_WORD)]
    return str(ipaddress.ip_address(b"".join(words)))


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
