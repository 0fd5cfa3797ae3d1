"""Kill a process that builds and changes a vector index, repeatedly, and check for lost or mixed rows.

A child adds, replaces and deletes rows, commits, and reports each commit when it has returned. It is killed with
SIGKILL at a random moment. The folder must then have exactly the rows of the last reported commit, or of the one after
it: every id, every column, every vector; every file with its digest.

    python scripts/crash_index.py [--trials 1000] [--kind flat] [--ids 400] [--window 0.12] [--seed 0] [--folder DIR]

Approximate types take longer to commit: --kind ivf-rabitq --ids 6000 --window 2.
"""

from __future__ import annotations

import argparse
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from models.encoders.base import Floats
from retrieval.errors import IndexFault
from retrieval.index.base import Ids, Rows
from retrieval.index.open import create_index, open_index
from retrieval.index.segments.index import SegmentedIndex
from retrieval.index.segments.manifest import OpenOptions
from retrieval.index.spec import IndexSpec, KindChoice

DIM: Final = 16
_READY: Final = "ready"
_COMPACT_EVERY: Final = 13
# Trials on one folder before the next one starts from nothing, so that making an index is killed too.
_TRIALS_PER_FOLDER: Final = 50
_START_LIMIT_S: Final = 60.0
State = dict[int, int]


@dataclass(slots=True)
class Tally:
    """What came of the trials."""

    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    commits: int = 0
    seconds: float = 0.0

    @property
    def trials(self) -> int:
        return sum(self.outcomes.values())

    def table(self) -> str:
        lines = ["| outcome | trials |", "|---|---|"]
        lines += [f"| {name} | {count} |" for name, count in sorted(self.outcomes.items())]
        lines += [f"| **all** | {self.trials} |", ""]
        lines.append(f"{self.commits} commits, {self.seconds / max(1, self.trials):.2f} s per trial")
        return "\n".join([*lines, *self.faults])


def spec_of(kind: KindChoice) -> IndexSpec:
    return IndexSpec(dim=DIM, metric="inner_product", kind=kind, encoder={"encoder_id": "crash"})


def changes(step: int, ids: int) -> tuple[list[int], list[int]]:
    """(put, deleted) of a step: the same in every process."""
    rng = random.Random(step)
    put = sorted(rng.sample(range(1, ids + 1), ids // 5))
    gone = sorted(set(rng.sample(range(1, ids + 1), ids // 12)) - set(put))
    return put, gone


def rows_of(put: list[int], step: int) -> Rows:
    ids = np.array(put, np.int64)
    return Rows(
        ids=ids,
        vectors=vectors_of(ids, np.full(len(ids), step)),
        dates=np.full(len(ids), step, np.int32),
        types=ids * 31 + step,
        namespaces=np.full(len(ids), step % 7, np.int32),
    )


def vectors_of(ids: Ids, steps: Ids) -> Floats:
    """Of an id at a step, unlike those of its neighbours."""
    places = np.arange(1, DIM + 1)
    angles = ids[:, None] * 0.7 * places + steps[:, None] * 1.3 * places[::-1]
    found: Floats = (np.sin(angles) + 2.0).astype(np.float32)
    return found


def child(folder: Path, kind: KindChoice, ids: int) -> None:
    """Runs until it is killed."""
    options = OpenOptions(write=True, tail_rows=max(8, ids // 8))
    if (folder / "manifest.json").exists():
        index = open_index(folder, spec_of(kind), options)
    else:
        index = create_index(folder, spec_of(kind), options)
    _tell(_READY)
    step = step_of(index)
    while True:
        step += 1
        put, gone = changes(step, ids)
        half = len(put) // 2
        index.add(rows_of(put[:half], step))
        index.delete(np.array(gone, np.int64))
        index.add(rows_of(put[half:], step))
        index.commit(str(step))
        _tell(str(step))
        if step % _COMPACT_EVERY == 0:
            index.compact()


def step_of(index: SegmentedIndex) -> int:
    return int(index.manifest.corpus or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """``window_s`` after it is ready, at the latest, a child is killed."""

    trials: int
    kind: KindChoice = "flat"
    ids: int = 400
    seed: int = 0
    window_s: float = 0.12


class Crasher:
    """One folder and what should be in it."""

    def __init__(self, folder: Path, plan: Plan, rng: random.Random) -> None:
        self.folder, self.kind, self.ids, self.rng = folder, plan.kind, plan.ids, rng
        self.window_s = plan.window_s
        self.step = 0
        self.expected: State = {}

    def trial(self, tally: Tally) -> None:
        """One child, one kill, one look."""
        started = time.monotonic()
        told = self._run_and_kill()
        acknowledged = max([self.step, *told])
        tally.commits += len(told)
        try:
            outcome = self._look(acknowledged)
        except IndexFault as fault:
            outcome = "no index yet" if self._is_unmade(acknowledged) else f"DAMAGED: {fault.message}"
        if outcome[0].isupper():
            tally.faults.append(f"{self.folder} after step {acknowledged}: {outcome}")
        tally.outcomes[outcome.partition(":")[0]] += 1
        tally.seconds += time.monotonic() - started

    def _run_and_kill(self) -> list[int]:
        command = [sys.executable, str(Path(__file__).resolve()), "--child", str(self.folder)]
        command += ["--kind", self.kind, "--ids", str(self.ids)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"}) as process:
            assert process.stdout is not None
            if self.rng.random() < 0.1:
                time.sleep(self.rng.uniform(0.05, 0.3))  # while it starts, opens or makes the index
            else:
                select.select([process.stdout], [], [], _START_LIMIT_S)
                time.sleep(self.rng.uniform(0.0, self.window_s))
            process.send_signal(signal.SIGKILL)
            lines = process.stdout.read().decode().split("\n")
        # A line without its end was cut by the kill.
        return [int(line) for line in lines[:-1] if line != _READY]

    def _look(self, acknowledged: int) -> str:
        index = open_index(self.folder, spec_of(self.kind), OpenOptions())
        try:
            found = step_of(index)
            if found not in (acknowledged, acknowledged + 1):
                return f"LOST: the index is at step {found}"
            self._advance(found)
            fault = compare(index, self.expected)
            if fault:
                return f"MIXED: {fault}"
            return "the commit that was told" if found == acknowledged else "the commit under way, whole"
        finally:
            index.close()

    def _advance(self, step: int) -> None:
        while self.step < step:
            self.step += 1
            put, gone = changes(self.step, self.ids)
            for one in gone:
                self.expected.pop(one, None)
            self.expected.update(dict.fromkeys(put, self.step))

    def _is_unmade(self, acknowledged: int) -> bool:
        return acknowledged == 0 and not (self.folder / "manifest.json").exists()


def compare(index: SegmentedIndex, expected: State) -> str:
    """What is other than it should be, "" where nothing is."""
    found: State = {}
    for part in index.export():
        assert part.dates is not None and part.types is not None and part.namespaces is not None
        steps = part.dates.astype(np.int64)
        if set(found) & set(part.ids.tolist()):
            return "an id is there twice"
        found.update(zip(part.ids.tolist(), steps.tolist(), strict=True))
        if (part.types != part.ids * 31 + steps).any() or (part.namespaces != steps % 7).any():
            return "columns of other rows"
        if np.abs(part.vectors - vectors_of(part.ids, steps)).max() > 0.01:
            return "vectors of other rows"
    if found != expected:
        differing = {key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key)}
        return f"{len(differing)} rows are not of this commit"
    return ""


def run(plan: Plan, folder: Path) -> Tally:
    rng, tally = random.Random(plan.seed), Tally()
    crasher = None
    for number in range(plan.trials):
        if crasher is None or number % _TRIALS_PER_FOLDER == 0:
            if crasher is not None and not tally.faults:
                shutil.rmtree(crasher.folder, ignore_errors=True)
            crasher = Crasher(folder / f"index-{number:05d}", plan, rng)
        crasher.trial(tally)
        if sys.stderr.isatty():
            print(f"\r{number + 1}/{plan.trials}", end="", file=sys.stderr)
    return tally


def _tell(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1_000)
    parser.add_argument("--kind", default="flat")
    parser.add_argument("--ids", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--window", type=float, default=0.12, help="seconds that a child has at most")
    parser.add_argument("--folder", type=Path, help="where the indices are made; those with a fault stay")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child is not None:
        child(arguments.child, arguments.kind, arguments.ids)
    home = arguments.folder or Path(tempfile.mkdtemp(prefix="crash-index-"))
    home.mkdir(parents=True, exist_ok=True)
    plan = Plan(
        trials=arguments.trials, kind=arguments.kind, ids=arguments.ids, seed=arguments.seed, window_s=arguments.window
    )
    tally = run(plan, home)
    print(tally.table())
    if not tally.faults and arguments.folder is None:
        shutil.rmtree(home)
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
