"""Ask what servers share over PostgreSQL: rates, jobs, and what its restart costs."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from scripts.benchmarks.serving.scenarios.servers import counted
from scripts.benchmarks.serving.scenarios.site import Site, asked_while, chat
from scripts.benchmarks.serving.scenarios.verdict import MAX_SILENCE_S, Verdict, allowed_requests, first_out_of_order
from scripts.benchmarks.serving.streams import Target

_JOB_S = 300.0
_REPLACED = 200


def rates(site: Site, per_minute: int = 60, number: int = 200) -> Verdict:
    """Ask at both servers at once with one key, more often than it may."""
    return asyncio.run(_rates(site, per_minute, number))


async def _rates(site: Site, per_minute: int, number: int) -> Verdict:
    key = await asyncio.to_thread(site.database.new_key, "rated", per_minute)
    await asyncio.sleep(4)  # until both servers have read it
    targets = [Target(one.url, key) for one in site.servers]
    began = time.monotonic()
    asked = await asyncio.gather(*(targets[i % 2].ask(chat("short")) for i in range(number)))
    seconds = time.monotonic() - began
    statuses = Counter(one.status for one in asked)
    allowed = allowed_requests(per_minute, seconds)
    figures = {
        "per_minute": per_minute, "requests": number, "answered": statuses[200], "refused": statuses[429],
        "seconds": round(seconds, 2), "most_allowed": allowed[-1],
    }  # fmt: skip
    return Verdict("rates", statuses[200] in allowed and statuses[200] + statuses[429] == number, figures)


def jobs(site: Site, of_each: int) -> Verdict:
    """Queue changes of two namespaces of each server, kill one server among them, and start it again."""
    names = {name: number for number in (0, 1) for name in (f"a{number}", f"b{number}")}
    for name, number in names.items():
        _call(site, number, "POST", "/v1/namespaces", {"name": name})
    with ThreadPoolExecutor() as threads:
        sending = [threads.submit(_send, site, number, name, of_each) for name, number in names.items()]
        sent = sum(one.result() for one in sending)
    rows = site.database.query("SELECT count(*) FROM arrowhead_jobs WHERE ended IS NULL")
    os.kill(site.servers[1].pid, signal.SIGKILL)
    site.start_server(1)
    seconds = _until_ended(site)
    states = Counter(str(row[0]) for row in site.database.query("SELECT state FROM arrowhead_jobs"))
    disordered = _disordered(site)
    documents = [_call(site, number, "GET", f"/v1/namespaces/{name}")["documents"] for name, number in names.items()]
    figures = {
        "jobs": sent, "open_at_the_kill": rows[0][0], "done": states["done"], "disordered": disordered,
        "documents": documents, "seconds_after_the_start": round(seconds, 1),
    }  # fmt: skip
    is_met = states["done"] == sent and not disordered and set(documents) == {of_each + _REPLACED}
    return Verdict("jobs", is_met, figures)


def _send(site: Site, number: int, name: str, of_each: int) -> int:
    """Queue jobs of one namespace, each with a document of its own and many that each job replaces."""
    for i in range(of_each):
        again = [{"id": f"again{n}", "text": f"Version {i} of document {n}."} for n in range(_REPLACED)]
        documents = [{"id": f"d{i}", "text": f"Document {i}."}, *again]
        _call(site, number, "POST", f"/v1/namespaces/{name}/documents", {"documents": documents})
    return of_each


def _until_ended(site: Site) -> float:
    began = time.monotonic()
    while time.monotonic() < began + _JOB_S:
        if not site.database.query("SELECT 1 FROM arrowhead_jobs WHERE ended IS NULL"):
            break
        time.sleep(0.2)
    return time.monotonic() - began


def _disordered(site: Site) -> int:
    """Count the namespaces whose jobs did not end in the order in which they were sent."""
    rows = site.database.query("SELECT home, namespace, place FROM arrowhead_jobs ORDER BY ended")
    places: dict[tuple[str, str], list[int]] = {}
    for home, namespace, place in rows:
        places.setdefault((home, namespace), []).append(place)
    return sum(first_out_of_order(found) is not None for found in places.values())


def database_restart(site: Site, number: int, seconds: float = 3.0) -> Verdict:
    """Stop PostgreSQL in the middle of the streams, start it again, and ask all the time."""
    return asyncio.run(_database_restart(site, number, seconds))


async def _database_restart(site: Site, number: int, seconds: float) -> Verdict:
    running = await site.streams(number)
    await asyncio.to_thread(site.database.stop)
    stopped = time.monotonic()
    asked = await asked_while(site, lambda: time.monotonic() < stopped + seconds)
    await asyncio.to_thread(site.database.start)
    down_s, started = time.monotonic() - stopped, time.monotonic()
    asked += await asked_while(site, lambda: time.monotonic() < started + 3)
    streams = await asyncio.gather(*running)
    after = await site.target.ask(chat("short"))
    trace = await asyncio.to_thread(_comes, site, f"/v1/traces/{after.trace_id}")
    figures = counted(streams, asked) | {"down_s": round(down_s, 1), "trace_after_it": trace}
    is_met = (
        figures["whole"] == number
        and figures["requests_refused"] == 0
        and figures["longest_silence_s"] <= MAX_SILENCE_S
        and trace
    )
    return Verdict("database-restart", is_met, figures)


def _comes(site: Site, path: str) -> bool:
    """Return whether both servers find something within ten seconds."""
    for number in (0, 1):
        for _ in range(50):
            try:
                _call(site, number, "GET", path)
                break
            except urllib.error.HTTPError:
                time.sleep(0.2)
        else:
            return False
    return True


def _call(site: Site, number: int, method: str, path: str, body: Any = None) -> Any:
    """Return the JSON of a server's reply.

    Raises:
        HTTPError: the server refuses the request.
    """
    data = None if body is None else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {site.key}"} | ({"Content-Type": "application/json"} if data else {})
    request = urllib.request.Request(site.servers[number].url + path, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=120) as reply:
        return json.load(reply)
