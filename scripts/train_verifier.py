"""Train the verifier that ships: does the evidence answer the question, and does it say yes or no to it?

    OMP_NUM_THREADS=1 nice python -m scripts.train_verifier --data FOLDER [--work FOLDER] [--out FOLDER]
    … --start FOLDER --first 8 --cycles 2        goes on from a verifier, with the passes from that number on

``--data`` holds ``verify/``, ``trust/`` and ``qa/bioasq/``. A killed run goes on from its last checkpoint in
``--work``. The mean of the weights after each cycle, and of those that it started from, is then calibrated on the
development halves and written to ``--out``, as int8 with its card.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import Final

import torch

from models.encoders.texts import TruncatingTokenizer, load_tokenizer
from models.verifiers.cross_encoder import MAX_TOKENS, VERIFIER_DIR, base_folder, base_network, read_network
from scripts.verifier.export import write_verifier
from scripts.verifier.mixture import Mixture
from scripts.verifier.samples import Sample
from scripts.verifier.training import Plan, Run

# How often the last cycle counts more than each of the others in the mean.
_LAST: Final = 2


class Passes:
    """Draw the samples of each pass once, and keep them in the folder of the run."""

    def __init__(self, data: Path, folder: Path, plan: Plan) -> None:
        self._data, self._folder, self._seed = data, folder, plan.seed

    def samples(self, number: int) -> list[Sample]:
        file = self._folder / f"pass-{number}.jsonl"
        if not file.is_file():
            lines = [json.dumps(one) for one in self._mixture.samples(number)]
            new = file.with_suffix(".new")
            new.write_text("\n".join(lines), encoding="utf-8")
            new.replace(file)
        return [Sample(*json.loads(line)) for line in file.read_text(encoding="utf-8").split("\n")]

    @cached_property
    def _mixture(self) -> Mixture:
        return Mixture(self._data, self._seed)


def main() -> None:
    args = _arguments()
    plan = Plan(**{one.name: getattr(args, one.name) for one in fields(Plan)})
    torch.manual_seed(plan.seed)
    network = read_network(args.start, base_folder()) if args.start else base_network(base_folder())
    cutter = TruncatingTokenizer(load_tokenizer(base_folder().path), MAX_TOKENS)
    run = Run(network, cutter, plan, args.work)
    start = [args.work / "start.safetensors"] if args.start else []
    for file in start:
        run.write(file)
    run.resume()
    if run.cycle < plan.cycles:
        passes = Passes(args.data, args.work, plan)
        run.train(lambda number: passes.samples(args.first + number), args.save_every)
    cycles = [args.work / f"cycle-{number}.safetensors" for number in range(1, plan.cycles + 1)]
    # The last one decides verdicts best, the earlier ones refuse better.
    write_verifier([*start, *cycles, *cycles[-1:] * (0 if start else _LAST)], args.data, plan, args.out)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("runs/verifier"))
    parser.add_argument("--out", type=Path, default=VERIFIER_DIR)
    parser.add_argument("--start", type=Path, help="the folder of a verifier to go on from")
    parser.add_argument("--first", type=int, default=0, help="number of the first pass")
    parser.add_argument("--save-every", type=float, default=240.0, help="seconds between checkpoints")
    plan = Plan()
    for one in fields(Plan):
        value = getattr(plan, one.name)
        parser.add_argument(f"--{one.name.replace('_', '-')}", type=type(value), default=value)
    return parser.parse_args()


if __name__ == "__main__":
    main()
