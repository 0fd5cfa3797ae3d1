"""Make the addresses of this server's own passages whole, so that they open from where the client is.

Methods know paths alone (``/v1/passages/…``). Before them comes the address under which the client reached this server,
where that can be known; otherwise the path stays as it is.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from starlette.requests import HTTPConnection

from server.auth.access_control import host_name, is_local_name
from server.methods.base import Event, Evidence, Reference, TextDelta

_PATH: Final = "/v1/passages/"
_LINK: Final = re.compile(rf"(?<=\]\(){_PATH}")
# A host with its port, without anything that could end a link.
_HOST: Final = re.compile(r"(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?")
_ROOT: Final = re.compile(r"(?:/[A-Za-z0-9._~-]+)*")


def own_address(request: HTTPConnection, allowed_hosts: Collection[str]) -> str:
    """Return the address under which the client reached this server, without a slash at its end; "" if unknown.

    A proxy is trusted where it names a host of ``server.allowed_hosts``, in ``X-Forwarded-Host`` or ``Host``; uvicorn
    takes the scheme from ``X-Forwarded-Proto`` of loopback alone. Behind any other proxy, which may have replaced the
    host by one that the client cannot reach, the address is unknown.
    """
    names = frozenset(name.lower() for name in allowed_hosts)
    forwarded = request.headers.getlist("x-forwarded-host")
    hosts = forwarded or request.headers.getlist("host")
    if len(hosts) != 1 or not _HOST.fullmatch(hosts[0]) or not _ROOT.fullmatch(root := _root(request)):
        return ""
    host = hosts[0]
    if host_name(host) not in names:
        if forwarded or "forwarded" in request.headers:
            return ""
        if is_local_name(host_name(host), ()) and not _is_own_port(request, host):
            return ""
    return f"{request.scope.get('scheme', 'http')}://{host}{root}"


def _root(request: HTTPConnection) -> str:
    return str(request.scope.get("root_path", "")).rstrip("/")


def _is_own_port(request: HTTPConnection, host: str) -> bool:
    """Return whether a host names the port on which the request arrived; a proxy often leaves it out."""
    server = request.scope.get("server") or ("", None)
    port = host.removeprefix(host_name(host)).removeprefix(":")
    return server[1] is not None and (int(port) if port else 80) == server[1]


class EventAddresses:
    """Complete the addresses in the events of one answer, in order; references still point at their markers."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._num_chars = 0
        self._places: list[int] = []  # positions in the input at which the address was put in

    def of(self, event: Event) -> Iterator[Event]:
        match event:
            case TextDelta(text=text, channel="answer") if self._base:
                self._places += [self._num_chars + found.start() for found in _LINK.finditer(text)]
                self._num_chars += len(text)
                yield replace(event, text=_LINK.sub(lambda found: self._base + found[0], text))
            case Evidence(references=references) if self._base:
                yield Evidence(tuple(self._moved(reference) for reference in references))
            case _:
                yield event

    def _moved(self, reference: Reference) -> Reference:
        url = f"{self._base}{reference.url}" if reference.url.startswith(_PATH) else reference.url
        if not reference.end:
            return replace(reference, url=url)
        shift = len(self._base) * bisect_right(self._places, reference.start)
        return replace(reference, url=url, start=reference.start + shift, end=reference.end + shift)
