"""Keeps a process of the tests off the network: only this machine can be connected to, no name is looked up.

Every Python child that finds this folder on PYTHONPATH installs it at its start (``sitecustomize``); pytest does by its
plugin. What is tried is refused as a dead network refuses it, and written to the file NETWORK_BLOCK_LOG, so that code
which swallows the error is found out too. NETWORK_BLOCK_HOSTS names hosts that are looked up as 127.0.0.1: a test's
server can then stand on "another machine". Not seen: programs that are not Python, and libraries with sockets of
their own, but for uvloop's (``uvloop_block``).
"""

from __future__ import annotations

import errno
import ipaddress
import json
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

import uvloop_block

LOG = "NETWORK_BLOCK_LOG"
HOSTS = "NETWORK_BLOCK_HOSTS"
_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"})


class NetworkBlocked(OSError):
    """A connection to another machine."""


class NameBlocked(socket.gaierror):
    """A look-up of another machine's name."""


def is_local_address(address: object) -> bool:
    """Of a socket address: a path, a loopback address, or nothing that names a machine."""
    if not isinstance(address, tuple) or not address or not isinstance(address[0], str):
        return True
    return address[0] in _NAMES or _is_local(address[0])


def is_local_name(name: object) -> bool:
    """Whether no name server is needed: an address as text, or a name of this machine."""
    text = name.decode("ascii", "replace") if isinstance(name, bytes) else name
    if not isinstance(text, str) or not text or text.lower() in _NAMES:
        return True
    try:
        ipaddress.ip_address(text.split("%")[0])
    except ValueError:
        return False
    return True


def _is_local(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text.split("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return address.is_loopback or address.is_unspecified or bool(mapped and mapped.is_loopback)


def _record(what: str, target: object) -> str:
    text = f"{what} {target!r}"
    entry = {"what": text, "program": " ".join(sys.argv)[:200], "test": os.environ.get("PYTEST_CURRENT_TEST", "")}
    descriptor = os.open(os.environ[LOG], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, json.dumps(entry).encode() + b"\n")
    finally:
        os.close(descriptor)
    return text


def _check_address(what: str, address: object) -> None:
    if not is_local_address(address):
        raise NetworkBlocked(errno.ENETUNREACH, f"blocked in tests: {_record(what, address)}")


def _check_name(what: str, name: object) -> None:
    if not is_local_name(name):
        raise NameBlocked(socket.EAI_NONAME, f"blocked in tests: {_record(what, name)}")


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if not event.startswith("socket."):
        return
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        _check_address(event, args[1])
    elif event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"):
        _check_name(event, args[0])


def _checked(method: Any) -> Any:
    """``connect`` looks a name up before Python says so to any hook."""

    def checked(self: socket.socket, address: Any) -> Any:
        if isinstance(address, tuple) and address and isinstance(address[0], str):
            _check_name(method.__name__, address[0])
        return method(self, address)

    vars(checked)["blocks_network"] = True
    return checked


def _host_of(host: Any) -> Any:
    name = host.decode("ascii", "replace") if isinstance(host, bytes) else host
    return "127.0.0.1" if name and name in os.environ.get(HOSTS, "").split(",") else host


def _with_hosts(look_up: Callable[..., Any]) -> Any:
    def looked_up(host: Any, *args: Any, **kwargs: Any) -> Any:
        return look_up(_host_of(host), *args, **kwargs)

    return looked_up


def install() -> None:
    """Once for a process; cannot be undone in it."""
    if getattr(socket.socket.connect, "blocks_network", False):
        return
    sys.addaudithook(_hook)
    patched: Any = socket.socket
    patched.connect = _checked(socket.socket.connect)
    patched.connect_ex = _checked(socket.socket.connect_ex)
    uvloop_block.install(_check_name, _check_address, _host_of)
    if os.environ.get(HOSTS):
        socket.getaddrinfo = _with_hosts(socket.getaddrinfo)
