"""The network block for uvloop, which looks names up and connects without a word to Python.

Its loop is an ordinary class above a compiled one, so its methods can be checked as soon as it is imported. Not seen:
``sendto`` of a datagram transport that has no peer.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

Check = Callable[[str, Any], None]


class OnImport(MetaPathFinder):
    """Lets ``check`` see the module ``uvloop`` right after it was loaded."""

    def __init__(self, check: Callable[[ModuleType], None]) -> None:
        self._check = check

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname != "uvloop":
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            load: Any = spec.loader.exec_module

            def load_and_check(module: ModuleType) -> None:
                load(module)
                self._check(module)

            vars(spec.loader)["exec_module"] = load_and_check
        return spec


def install(check_name: Check, check_address: Check, host_of: Callable[[Any], Any]) -> None:
    """``host_of``: the host that is asked in place of another."""

    def check(module: ModuleType) -> None:
        _check_loop(module.Loop, check_name, check_address, host_of)

    sys.meta_path.insert(0, OnImport(check))


def _check_loop(loop: Any, check_name: Check, check_address: Check, host_of: Callable[[Any], Any]) -> None:
    connect, look_up = loop.create_connection, loop.getaddrinfo

    def check_both(what: str, address: Any) -> None:
        if isinstance(address, tuple) and address:
            check_name(what, address[0])
        check_address(what, address)

    def create_connection(self: Any, factory: Any, host: Any = None, *args: Any, **kwargs: Any) -> Any:
        host = host_of(host)
        check_both("uvloop.create_connection", (host,))
        return connect(self, factory, host, *args, **kwargs)

    def getaddrinfo(self: Any, host: Any, *args: Any, **kwargs: Any) -> Any:
        host = host_of(host)
        check_name("uvloop.getaddrinfo", host)
        return look_up(self, host, *args, **kwargs)

    def checked(name: str, place: int, keyword: str) -> Any:
        method = getattr(loop, name)

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            address = kwargs.get(keyword) or (args[place] if len(args) > place else None)
            check_both(f"uvloop.{name}", address)
            return method(self, *args, **kwargs)

        return call

    loop.create_connection, loop.getaddrinfo = create_connection, getaddrinfo
    loop.sock_connect = checked("sock_connect", 1, "address")
    loop.sock_sendto = checked("sock_sendto", 2, "address")
    loop.create_datagram_endpoint = checked("create_datagram_endpoint", 2, "remote_addr")
    loop.getnameinfo = checked("getnameinfo", 0, "sockaddr")
