"""Count the files and functions of our own code that one request enters.

The server runs in this process with the default settings and a real socket. The request is sent twice, and the second
one is traced, so that nothing of the start is counted; what runs without any request is subtracted. Comprehensions and
lambdas belong to the function around them.

    python scripts/dev/trace_request.py                    a table of the requests below
    python scripts/dev/trace_request.py genegpt --list     one of them, with every file and its functions
    python scripts/dev/trace_request.py GET /v1/models     any other; a JSON body may follow
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import threading
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
PACKAGES: Final = ("server", "retrieval", "models")
TIMEOUT_S: Final = 120.0
# Longer than the periods of what runs without requests.
IDLE_S: Final = 3.0
_QUESTION: Final = "What is the official gene symbol of LMP10?"


@dataclass(frozen=True, slots=True)
class Request:
    """Describe one HTTP request; ``body`` None sends none."""

    verb: str
    path: str
    body: dict[str, Any] | None = None


def _chat(model: str, text: str, *, stream: bool) -> Request:
    messages = [{"role": "user", "content": text}]
    body = {"model": model, "messages": messages, "stream": stream, "max_tokens": 64, "temperature": 0}
    return Request("POST", "/v1/chat/completions", body)


REQUESTS: Final = {
    "genegpt": _chat("arrowhead-small:genegpt", _QUESTION, stream=True),
    "plain": Request("POST", "/v1/completions", {"model": "arrowhead-small", "prompt": "Hello", "max_tokens": 16}),
    "models": Request("GET", "/v1/models"),
}


@dataclass(slots=True)
class Trace:
    """Record which code runs while ``recording`` is set, in every thread."""

    recording: bool = False
    entered: set[tuple[str, str]] = field(default_factory=set)
    _names: dict[CodeType, tuple[str, str] | None] = field(default_factory=dict)

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if not self.recording or event != "call":
            return
        code = frame.f_code
        if code not in self._names:
            self._names[code] = _own_name(code)
        if name := self._names[code]:
            self.entered.add(name)

    @property
    def files(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for path, function in sorted(self.entered):
            found.setdefault(path, []).append(function)
        return found


def _own_name(code: CodeType) -> tuple[str, str] | None:
    """Return the file and the function of ``code``, or None where it is not our own."""
    path = Path(code.co_filename)
    if not path.is_relative_to(ROOT) or path.relative_to(ROOT).parts[0] not in PACKAGES or code.co_name == "<module>":
        return None
    parts = code.co_qualname.split(".")
    while parts and parts[-1].startswith("<"):
        parts.pop()
    return str(path.relative_to(ROOT)), ".".join(parts) or code.co_qualname


async def trace(requests: dict[str, Request]) -> dict[str, Trace]:
    """Serve in this process, send each request twice and trace the second one."""
    from server.serving.run import DrainingServer, address_of, http_config, listen
    from server.settings.loading import load_settings
    from server.wiring.bootstrap import build_services

    now = Trace()
    threading.setprofile(lambda *event: now(*event))
    settings = load_settings({"server": {"port": 0}})
    listener = listen(settings.server)
    services = build_services(settings)
    server = DrainingServer(http_config(services), services)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    base, traces = address_of(listener), {}
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.05)
    await services.loaded()
    for request in requests.values():
        await asyncio.to_thread(_send, base, request)
    now = Trace(recording=True)
    sys.setprofile(now)
    await asyncio.sleep(IDLE_S)
    sys.setprofile(None)
    idle = now.entered
    for name, request in requests.items():
        now = traces[name] = Trace(recording=True)
        sys.setprofile(now)
        await asyncio.to_thread(_send, base, request)
        await asyncio.sleep(0.2)  # for what ends after the last byte
        sys.setprofile(None)
        now.recording = False
        now.entered -= idle
    server.should_exit = True
    await running
    return traces


def _send(base: str, request: Request) -> bytes:
    data = None if request.body is None else json.dumps(request.body).encode()
    headers = {"Content-Type": "application/json"}
    asked = urllib.request.Request(base + request.path, data, headers, method=request.verb)
    with urllib.request.urlopen(asked, timeout=TIMEOUT_S) as reply:
        body: bytes = reply.read()
    return body


def report(traces: dict[str, Trace], *, listed: bool) -> str:
    """Return a Markdown table, and below it each file with its functions if ``listed``."""
    lines = ["| request | files | functions |", "| --- | --- | --- |"]
    lines += [f"| {name} | {len(one.files)} | {len(one.entered)} |" for name, one in traces.items()]
    for name, one in traces.items() if listed else ():
        lines.append(f"\n{name}:")
        lines += [f"  {path}: {', '.join(names)}" for path, names in one.files.items()]
    return "\n".join(lines)


def main() -> None:
    """Read the command line, trace and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("request", nargs="*", help="genegpt, plain or models; or VERB PATH [JSON]")
    parser.add_argument("--list", action="store_true", help="print every file and its functions")
    args = parser.parse_args()
    given = args.request
    if len(given) >= 2:
        chosen = {" ".join(given[:2]): Request(given[0], given[1], json.loads(given[2]) if len(given) > 2 else None)}
    else:
        chosen = {name: REQUESTS[name] for name in given or REQUESTS}
    print(report(asyncio.run(trace(chosen)), listed=args.list))


if __name__ == "__main__":
    main()
