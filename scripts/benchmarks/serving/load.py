"""Load the server with many streams, more requests than places, and disconnecting clients; report losses and times.

    python scripts/benchmarks/serving/load.py [--streams 200] [--offered 500] [--embedded-streams 200] [--only PART]

Each part starts a server process of its own. The scripted engine writes 200 characters, one every 20 ms, so that the
engine is not measured; its words are numbered, so that a lost, duplicated or reordered chunk changes the text.

    streams    all at once on a server with enough places: complete texts, time to the first text, memory of the server
    refusals   more requests than places and no queue: exactly the places are answered, the rest gets 429
    embedded   as streams, with the embedded model: the engine decodes 32 together, the rest waits
    leaving    16 clients of the embedded model reset their connections at once: time until all places are free again
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import resource
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from scripts.benchmarks.serving.streams import Outcome, Target
from scripts.served import served

WORDS: Final = "".join(f" w{number:03}" for number in range(40))
DELAY_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class Server:
    url: str
    pid: int

    @property
    def target(self) -> Target:
        return Target(self.url)

    def memory_mib(self, name: str) -> float:
        """``VmRSS``, or ``VmHWM``, the most so far."""
        found = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())
        return int(found[1]) / 1024 if found else 0.0

    def in_flight(self) -> int:
        with urllib.request.urlopen(f"{self.url}/ready", timeout=60) as reply:
            found = json.load(reply)
            return int(found["in_flight"]) + int(found["waiting"])


@contextmanager
def serving(settings: Mapping[str, str]) -> Iterator[Server]:
    with served(settings=settings) as one:
        yield Server(one.url, one.pid)


@contextmanager
def scripted(places: int) -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.json"
        rules = [{"regex": "Question: words", "text": WORDS}]
        script.write_text(json.dumps({"rules": rules, "behaviour": {"token_delay_s": DELAY_S}}))
        settings = {"MODEL__ENGINE": "scripted", "MODEL__SCRIPT": str(script), "MODEL__MAX_NUM_SEQS": "4096"}
        bounds = {"SERVER__MAX_IN_FLIGHT": str(places), "SERVER__MAX_WAITING": "0"}
        with serving(settings | bounds) as server:
            yield server


def chat(model: str, **fields: Any) -> dict[str, Any]:
    return {"model": model, "stream": True, "messages": [{"role": "user", "content": "words"}], **fields}


def completion(model: str, **fields: Any) -> dict[str, Any]:
    """Return the body of a raw completion: the embedded model does not chat."""
    return {"model": model, "stream": True, "prompt": "words", **fields}


def percentile(values: Sequence[float], share: float) -> float:
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, int(share * len(ranked)))] if ranked else 0.0


async def all_at_once(server: Server, body: Mapping[str, Any], number: int) -> list[Outcome]:
    return list(await asyncio.gather(*(server.target.ask(body) for _ in range(number))))


def tell(outcomes: Sequence[Outcome], server: Server, began: float, before: float) -> None:
    streams = [one for one in outcomes if one.status == 200]
    first = [one.first_s for one in streams]
    print(
        f"  statuses {dict(Counter(one.status for one in outcomes))}, ended with [DONE] {sum(s.done for s in streams)}"
    )
    print(f"  errors in streams {dict(Counter(s.error for s in streams if s.error))}")
    print(f"  first text s: p50 {percentile(first, 0.5):.2f} p99 {percentile(first, 0.99):.2f}")
    memory = f"memory MiB: {before:.0f} before, {server.memory_mib('VmHWM'):.0f} most"
    print(f"  all in {time.monotonic() - began:.1f} s; {memory}")


def streams(args: argparse.Namespace) -> None:
    with scripted(args.streams) as server:
        asyncio.run(all_at_once(server, chat("scripted"), 1))
        before, began = server.memory_mib("VmRSS"), time.monotonic()
        outcomes = asyncio.run(all_at_once(server, chat("scripted"), args.streams))
        print(f"streams: {args.streams} at once, {len(WORDS)} chunks each, ideal {len(WORDS) * DELAY_S:.1f} s")
        tell(outcomes, server, began, before)
        print(f"  texts lost, doubled or out of order: {sum(one.text != WORDS.lstrip() for one in outcomes)}")


def refusals(args: argparse.Namespace) -> None:
    with scripted(args.streams) as server:
        before, began = server.memory_mib("VmRSS"), time.monotonic()
        outcomes = asyncio.run(all_at_once(server, chat("scripted"), args.offered))
        refused = [one for one in outcomes if one.status == 429]
        hints = Counter(one.headers.get("retry-after") for one in refused)
        print(f"refusals: {args.offered} against {args.streams} places")
        tell(outcomes, server, began, before)
        print(f"  429: {len(refused)}, Retry-After {dict(hints)}, codes {dict(Counter(one.error for one in refused))}")
        print(f"  refused after s: p50 {percentile([one.total_s for one in refused], 0.5):.2f}")
        print(f"  whole texts: {sum(one.text == WORDS.lstrip() for one in outcomes)}")


def embedded(args: argparse.Namespace) -> None:
    with serving({}) as server:
        body = completion(_embedded_name(server), max_tokens=args.tokens, temperature=0.0)
        asyncio.run(all_at_once(server, body, 1))
        before, began = server.memory_mib("VmRSS"), time.monotonic()
        outcomes = asyncio.run(all_at_once(server, body, args.embedded_streams))
        print(f"embedded: {args.embedded_streams} at once, at most {args.tokens} tokens each")
        tell(outcomes, server, began, before)
        print(f"  different texts: {len({one.text for one in outcomes})}")


def leaving(args: argparse.Namespace) -> None:
    with serving({}) as server:
        body = completion(_embedded_name(server), max_tokens=1000, temperature=1.0)
        print("leaving: places free again, s after the connections were reset")
        for stream in (True, False):
            rounds = [asyncio.run(_leave(server, body | {"stream": stream}, 16)) for _ in range(args.rounds)]
            found, busy = [seconds for _, seconds in rounds], [number for number, _ in rounds]
            print(f"  stream={stream}: median {percentile(found, 0.5):.3f}, most {max(found):.3f}, running {busy}")


async def _leave(server: Server, body: Mapping[str, Any], number: int) -> tuple[int, float]:
    """How many were being answered, and the seconds until none was."""
    writers = [(await server.target.open(body))[1] for _ in range(number)]
    busy = 0
    for _ in range(100):
        busy = await asyncio.to_thread(server.in_flight)
        if busy == number:
            break
    began = time.monotonic()
    for writer in writers:
        writer.transport.abort()
    for _ in range(10_000):
        if not await asyncio.to_thread(server.in_flight):
            break
        await asyncio.sleep(0.01)
    return busy, time.monotonic() - began


def _embedded_name(server: Server) -> str:
    with urllib.request.urlopen(f"{server.url}/v1/models", timeout=60) as reply:
        return str(json.load(reply)["data"][0]["id"])


PARTS: Final = {"streams": streams, "refusals": refusals, "embedded": embedded, "leaving": leaving}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--streams", type=int, default=200, help="at once, and places of the server")
    parser.add_argument("--offered", type=int, default=500, help="at once against --streams places")
    parser.add_argument("--embedded-streams", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=16, help="of each answer of the embedded model")
    parser.add_argument("--rounds", type=int, default=5, help="of leaving")
    parser.add_argument("--only", choices=PARTS)
    args = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    for name, part in PARTS.items():
        if args.only in (None, name):
            part(args)


if __name__ == "__main__":
    main()
