"""End a server under streams: killed, its own streams end with an error; drained, none does."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scripts.benchmarks.serving.scenarios.site import Site, asked_while, is_whole
from scripts.benchmarks.serving.scenarios.verdict import MAX_SILENCE_S, Verdict
from scripts.benchmarks.serving.streams import Outcome


def server_kill(site: Site, number: int) -> Verdict:
    """Kill the second server in the middle of the streams, with requests that go on for five seconds."""
    return asyncio.run(_server_kill(site, number))


async def _server_kill(site: Site, number: int) -> Verdict:
    running = await site.streams(number)
    of_server = int((await asyncio.to_thread(site.status, 1))["in_flight"])
    os.kill(site.servers[1].pid, signal.SIGKILL)
    killed_at = time.monotonic()
    asked = await asked_while(site, lambda: time.monotonic() < killed_at + 5)
    streams = await asyncio.gather(*running)
    figures = counted(streams, asked) | {"streams_of_the_server": of_server}
    is_met = (
        figures["whole"] == number - of_server
        and figures["ended_with_an_error"] == of_server
        and figures["requests_refused"] == 0
        and figures["longest_silence_s"] <= MAX_SILENCE_S
    )
    return Verdict("server-kill", is_met, figures)


def drain(site: Site, number: int) -> Verdict:
    """End the first server with SIGTERM in the middle of the streams, while new requests come."""
    return asyncio.run(_drain(site, number))


async def _drain(site: Site, number: int) -> Verdict:
    running = await site.streams(number)
    of_server = int((await asyncio.to_thread(site.status, 0))["in_flight"])
    os.kill(site.servers[0].pid, signal.SIGTERM)
    asked = await asked_while(site, lambda: is_alive(site.servers[0].pid))
    streams = await asyncio.gather(*running)
    figures = counted(streams, asked) | {"streams_of_the_server": of_server}
    is_met = figures["whole"] == number and figures["requests_refused"] == 0
    return Verdict("drain", is_met, figures)


def counted(streams: Sequence[Outcome], asked: Sequence[Outcome]) -> dict[str, Any]:
    """Return the figures of the streams that ran, and of the requests that came meanwhile."""
    whole = [one for one in streams if is_whole(one)]
    return {
        "streams": len(streams),
        "whole": len(whole),
        "ended_with_an_error": sum(one.is_broken or bool(one.error) for one in streams),
        "longest_silence_s": round(max((one.silence_s for one in whole), default=0.0), 2),
        "requests_meanwhile": len(asked),
        "requests_refused": sum(one.status != 200 or bool(one.error) or one.is_broken for one in asked),
        "slowest_request_s": round(max((one.total_s for one in asked), default=0.0), 2),
    }


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
