"""Write what a Python process asks of the network to the file that ``EGRESS_WATCH_FILE`` names.

Python imports a module of this name at its start. ``arrowhead egress prove`` puts this folder on the path of the server
that it starts, and of all that this server starts; nothing else does.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

_PLACE_OF_ADDRESS = {
    "socket.connect": 1,
    "socket.sendto": 1,
    "socket.sendmsg": 1,
    "socket.getaddrinfo": 0,
    "socket.gethostbyname": 0,
    "socket.gethostbyaddr": 0,
}


def _watch(event: str, args: tuple[Any, ...]) -> None:
    if event in _PLACE_OF_ADDRESS:
        address = args[_PLACE_OF_ADDRESS[event]]
        host = address[0] if isinstance(address, tuple) else address
        port = args[1] if event == "socket.getaddrinfo" else address[1] if isinstance(address, tuple) else None
        is_path = event in ("socket.connect", "socket.sendto", "socket.sendmsg") and not isinstance(address, tuple)
        row = ["path" if is_path else event, _text(host), _text(port), os.getpid()]
        line = (json.dumps(row) + "\n").encode()
        # One write of a short line, so that the lines of several processes do not mix.
        file = os.open(os.environ["EGRESS_WATCH_FILE"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line)
        finally:
            os.close(file)


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else "" if value is None else str(value)


if os.environ.get("EGRESS_WATCH_FILE"):
    sys.addaudithook(_watch)
