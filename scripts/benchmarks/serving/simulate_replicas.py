"""Simulate throughput and answer times of 1 to 16 replicas from measured step times, sticky against random routing.

    python scripts/benchmarks/serving/scale_out.py throughput | tee throughput.json
    python scripts/benchmarks/serving/simulate_replicas.py throughput.json [--users 10000] [--per-hour 10]

A replica works in steps, as vLLM: each gives every decoding sequence a token, and computes prompts within a budget of
tokens. A step takes a constant, an amount for each sequence, and one for each token of prompts; a generation takes a
constant beside its steps. An answer is several generations with a call after each but the last; its replica is drawn
once (sticky: rendezvous hashing spreads answers evenly) or for each generation (random). More answers than places wait,
as at the servers. A replica keeps the prefixes of the answers that run: room in its cache is not simulated, nor is a
beginning that prompts have in common. Printed first is the two-replica measurement beside its simulation, then the
table.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, Final, Literal

Routing = Literal["sticky", "random"]
REPLICAS: Final = (1, 2, 4, 8, 12, 16)


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Seconds of a step: ``base_s``, and more for each decoding sequence and each token of prompts.

    ``per_generation_s`` pass before and after the steps of a generation: the way to the replica and back.
    """

    base_s: float
    per_sequence_s: float
    per_prompt_token_s: float
    per_generation_s: float = 0.0

    def step_s(self, sequences: int, prompt_tokens: int) -> float:
        return self.base_s + self.per_sequence_s * sequences + self.per_prompt_token_s * prompt_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Users who ask, read for ``pause_s`` on average, and ask again; what one answer takes."""

    users: int
    pause_s: float
    prompt_tokens: int = 1300
    generations: int = 5
    sampled_tokens: int = 40
    reply_tokens: int = 30
    call_s: float = 0.5
    block_size: int = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The replicas, each with ``max_num_seqs`` places, which are as many as answers are admitted.

    ``warm_up_s`` are simulated before anything is counted, ``seconds`` after that.
    """

    replicas: int
    routing: Routing
    max_num_seqs: int = 64
    budget: int = 2048
    warm_up_s: float = 600.0
    seconds: float = 1200.0
    seed: int = 1


@dataclass(slots=True)
class Result:
    """What happened after the warm-up; ``answer_s`` count from the question, ``admitted_s`` from the place it got."""

    seconds: float
    answer_s: list[float] = field(default_factory=list)
    admitted_s: list[float] = field(default_factory=list)
    computed_tokens: int = 0

    def figures(self) -> dict[str, float]:
        number = len(self.answer_s)
        figures = {
            "answers_per_s": round(number / self.seconds, 2),
            "computed_per_answer": round(self.computed_tokens / number) if number else 0.0,
            "p50_s": quantile(self.answer_s, 0.5),
            "p99_s": quantile(self.answer_s, 0.99),
        }
        if self.admitted_s:
            figures |= {f"admitted_p{p}_s": quantile(self.admitted_s, p / 100) for p in (50, 99)}
        return figures


def quantile(values: Sequence[float], share: float) -> float:
    ranked = sorted(values)
    return round(ranked[min(len(ranked) - 1, int(len(ranked) * share))], 2) if ranked else 0.0


@dataclass(slots=True, eq=False)
class Answer:
    """One answer, which samples ``sampled`` tokens in each generation; ``cached``: the tokens that each replica has."""

    began: float
    home: int
    sampled: int
    admitted: float = 0.0
    generation: int = 0
    prompt: int = 0
    left: int = 0
    cached: dict[int, int] = field(default_factory=dict)


class Clock:
    """Run callbacks in the order of their times."""

    def __init__(self) -> None:
        self.now = 0.0
        self._numbers = count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._numbers), action))

    def run(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            self.now, _, action = heapq.heappop(self._events)
            action()


class Replica:
    """Decode answers in steps; ``ended`` is called with each that has all tokens of its generation."""

    def __init__(self, clock: Clock, times: StepTimes, setup: Setup, ended: Callable[[Answer], None]) -> None:
        self._clock, self._times, self._setup, self._ended = clock, times, setup, ended
        self._waiting: deque[Answer] = deque()
        self._filling: deque[Answer] = deque()
        self._decoding: list[tuple[int, int, Answer]] = []
        self._numbers = count()
        self._step = 0
        self._is_busy = False

    def add(self, answer: Answer) -> None:
        self._waiting.append(answer)
        if not self._is_busy:
            self._is_busy = True
            # Those that come at the same moment are in the same step.
            self._clock.after(0.0, self._begin)

    def _begin(self) -> None:
        while self._waiting and len(self._filling) + len(self._decoding) < self._setup.max_num_seqs:
            self._filling.append(self._waiting.popleft())
        if not self._filling and not self._decoding:
            self._is_busy = False
            return
        room, filled, tokens = self._setup.budget - len(self._decoding), [], 0
        while self._filling and room > 0:
            part = min(room, self._filling[0].left)
            self._filling[0].left -= part
            room, tokens = room - part, tokens + part
            if not self._filling[0].left:
                filled.append(self._filling.popleft())
        seconds = self._times.step_s(len(self._decoding) + len(filled), tokens)
        self._clock.after(seconds, lambda: self._end(filled))

    def _end(self, filled: list[Answer]) -> None:
        self._step += 1
        for answer in filled:
            heapq.heappush(self._decoding, (self._step + answer.sampled - 1, next(self._numbers), answer))
        while self._decoding and self._decoding[0][0] <= self._step:
            self._ended(heapq.heappop(self._decoding)[2])
        self._begin()


class Users:
    """Ask, follow an answer through its generations, and ask again after a pause."""

    def __init__(self, work: Workload, setup: Setup, times: StepTimes) -> None:
        self.clock = Clock()
        self.result = Result(setup.seconds)
        self._work, self._setup, self._times = work, setup, times
        self._random = random.Random(setup.seed)
        self._replicas = [Replica(self.clock, times, setup, self._ended) for _ in range(setup.replicas)]
        self._queue: deque[Answer] = deque()
        self._places = setup.replicas * setup.max_num_seqs
        for _ in range(work.users):
            self.clock.after(self._pause(), self._ask)

    def _pause(self) -> float:
        """Return how long a user reads; as it has no memory, it is also the time until the first question."""
        return self._random.expovariate(1 / self._work.pause_s) if self._work.pause_s else 0.0

    def _ask(self) -> None:
        home = self._random.randrange(self._setup.replicas)
        work = self._work
        self._queue.append(Answer(self.clock.now, home, work.sampled_tokens, prompt=work.prompt_tokens))
        self._admit()

    def _admit(self) -> None:
        while self._queue and self._places:
            self._places -= 1
            answer = self._queue.popleft()
            answer.admitted = self.clock.now
            self._generate(answer)

    def _generate(self, answer: Answer) -> None:
        if self._setup.routing == "random":
            answer.home = self._random.randrange(self._setup.replicas)
        block = self._work.block_size
        known = min(answer.cached.get(answer.home, 0), answer.prompt - 1) // block * block
        answer.left = answer.prompt - known
        if self.clock.now >= self._setup.warm_up_s:
            self.result.computed_tokens += answer.left
        self.clock.after(self._times.per_generation_s, lambda: self._replicas[answer.home].add(answer))

    def _ended(self, answer: Answer) -> None:
        work = self._work
        # The last token that the model wrote has not been computed by it.
        answer.cached[answer.home] = answer.prompt + work.sampled_tokens - 1
        answer.prompt += work.sampled_tokens + work.reply_tokens
        answer.generation += 1
        if answer.generation < work.generations:
            self.clock.after(work.call_s, lambda: self._generate(answer))
            return
        if self.clock.now >= self._setup.warm_up_s:
            self.result.answer_s.append(self.clock.now - answer.began)
            self.result.admitted_s.append(self.clock.now - answer.admitted)
        self._places += 1
        self._admit()
        self.clock.after(self._pause(), self._ask)


def simulate(work: Workload, setup: Setup, times: StepTimes) -> Result:
    """Return what users see of replicas."""
    users = Users(work, setup, times)
    users.clock.run(setup.warm_up_s + setup.seconds)
    return users.result


def check(measured: dict[str, Any]) -> dict[str, Any]:
    """Return the two-replica measurement beside its simulation."""
    times, work = StepTimes(**measured["step_times"]), Workload(**measured["workload"])
    found: dict[str, Any] = {}
    for routing in ("sticky", "random"):
        setup = Setup(replicas=2, routing=routing, warm_up_s=60, seconds=600)
        found[routing] = {"measured": measured[routing], "simulated": simulate(work, setup, times).figures()}
    for kind in ("measured", "simulated"):
        rates = [found[routing][kind]["answers_per_s"] for routing in ("sticky", "random")]
        found[f"sticky_of_random_{kind}"] = round(rates[0] / rates[1], 2) if rates[1] else 0.0
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("measured", type=Path, help="the line that scale_out.py throughput prints")
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--per-hour", type=float, default=10.0, help="questions of a user")
    args = parser.parse_args()
    (line,) = [one for one in args.measured.read_text().splitlines() if '"throughput"' in one]
    measured = json.loads(line)
    print(json.dumps({"check": check(measured)}))
    work = replace(Workload(**measured["workload"]), users=args.users, pause_s=3600 / args.per_hour)
    for replicas in REPLICAS:
        for routing in ("sticky", "random"):
            setup = Setup(replicas=replicas, routing=routing)
            result = simulate(work, setup, StepTimes(**measured["step_times"]))
            print(json.dumps({"replicas": replicas, "routing": routing} | result.figures()), flush=True)


if __name__ == "__main__":
    main()
