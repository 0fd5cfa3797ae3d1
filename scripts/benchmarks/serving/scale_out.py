"""Check what several servers over replicas promise, with real components: one line with its verdict for each scenario.

    python scripts/benchmarks/serving/scale_out.py [SCENARIO …] [--urls URL,URL] [--streams 100]

Over two replicas, `vllm serve --enable-scale-out` of the embedded model, started here unless --urls names some:

    cached            each resume computes no more than its reply and one block
    latency           a resume's first token: the remote engine against vLLM's in this process, in turns
    throughput        step times, and answers in a closed loop, sticky and random: input of simulate_replicas.py
    replica-kill      `kill -9` of a replica in the middle of the streams, in groups of --group (starts its own)

Over two servers with the scripted engine, behind HAProxy as shipped and over one PostgreSQL:

    rates             one key at both servers at once
    database-restart  PostgreSQL stops and starts in the middle of the streams
    jobs              changes of namespaces, with `kill -9` of one server among them
    drain             SIGTERM of a server in the middle of the streams, while requests come
    server-kill       `kill -9` of a server in the middle of the streams, while requests come

Without a name, all of them. The status is 1 where one fails.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from models.catalog import EMBEDDED_DIR
from scripts.benchmarks.serving.scenarios import replicas, servers, shared_state
from scripts.benchmarks.serving.scenarios.site import Site, site
from scripts.benchmarks.serving.scenarios.throughput import throughput
from scripts.benchmarks.serving.scenarios.verdict import Verdict
from scripts.benchmarks.serving.vllm_replica import THREADS, VllmReplica, vllm_replicas

OF_REPLICAS: Final = ("cached", "latency", "throughput", "replica-kill")
OF_SERVERS: Final[dict[str, Callable[[Site, argparse.Namespace], Verdict]]] = {
    "rates": lambda where, args: shared_state.rates(where),
    "database-restart": lambda where, args: shared_state.database_restart(where, args.streams),
    "jobs": lambda where, args: shared_state.jobs(where, args.jobs // 4),
    # These two end a server: the first is replaced after it, the second is not.
    "drain": lambda where, args: _replaced(where, servers.drain(where, args.streams)),
    "server-kill": lambda where, args: servers.server_kill(where, args.streams),
}


def _replaced(where: Site, verdict: Verdict) -> Verdict:
    where.start_server(0)
    return verdict


def over_replicas(names: Sequence[str], args: argparse.Namespace) -> Iterator[Verdict]:
    with ExitStack() as stack:
        own: list[VllmReplica] = []
        if not args.urls:
            own = stack.enter_context(vllm_replicas(args.replicas, EMBEDDED_DIR, replicas.NAME, replicas.OPTIONS))
        urls = args.urls.split(",") if args.urls else [one.url for one in own[:2]]
        if "cached" in names:
            yield replicas.cached(urls, args.answers)
        if "latency" in names:
            yield replicas.latency(urls, args.answers)
        if "throughput" in names:
            yield throughput(urls, args.clients, args.answers * 4)
        if "replica-kill" in names and own:
            yield replicas.replica_kill(own, args.streams, args.group)


def over_servers(names: Sequence[str], args: argparse.Namespace) -> Iterator[Verdict]:
    with site() as where:
        for name, scenario in OF_SERVERS.items():
            if name in names:
                yield scenario(where, args)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", choices=[[], *OF_REPLICAS, *OF_SERVERS])
    parser.add_argument("--urls", default="", help="replicas that run already, for cached and latency")
    parser.add_argument("--replicas", type=int, default=2, help="to start; more of them save starts after a kill")
    parser.add_argument("--answers", type=int, default=8, help="of four resumes each; throughput: four times as many")
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument("--group", type=int, default=34, help="streams at once over the replicas")
    parser.add_argument("--clients", type=int, default=8, help="of throughput")
    parser.add_argument("--jobs", type=int, default=80)
    args = parser.parse_args()
    names = args.scenarios or [*OF_REPLICAS, *OF_SERVERS]
    if args.urls and "replica-kill" in args.scenarios:
        parser.error("replica-kill starts its own replicas: leave --urls out")
    # As the replicas have: one core for each engine.
    os.environ.setdefault(THREADS, "0")
    failed = False
    for run, known in ((over_replicas, OF_REPLICAS), (over_servers, tuple(OF_SERVERS))):
        if set(names) & set(known):
            for verdict in run(names, args):
                print(verdict.line(), flush=True)
                failed |= not verdict.is_met
    sys.exit(failed)


if __name__ == "__main__":
    main()
