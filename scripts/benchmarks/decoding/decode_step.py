"""Measure a decode step of the transformers engine on a processor, with and without packed layers and idle helpers.

    python scripts/benchmarks/decoding/decode_step.py [--shape 8x512 | --model arrowhead-tiny] [--dtype float32]
        [--prompt 400]

Milliseconds for one token of 1, 3 and 8 sequences of --prompt tokens each, medians of --steps steps, greedy, without
HTTP. "as loaded": the model as transformers loads it; "packed": the layout of this engine
(models/torch_runtime/layers.py). "beside an idle thread": another thread of the process has computed once and is still
alive, like a search's or an executor's.

--busy starts this many other programs that use the processor continuously; the figures are then means, because steps
vary more. GOMP_SPINCOUNT=20000 before the command is what the arrowhead command sets (models/torch_runtime/openmp.py).
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from models.catalog import load_catalog
from models.engines.base import EngineOptions
from models.engines.transformers_engine.continuous_batching import BatchDecoder, BatchLimits
from models.engines.transformers_engine.kv_cache import KvCache, PrefixCache
from models.engines.transformers_engine.model_loading import LoadedModel, load_model
from models.engines.transformers_engine.sequences import RunningSequence
from models.torch_runtime.layers import NAME
from models.torch_runtime.openmp import run_in_new_thread
from models.types import GenerateParams
from scripts.benchmarks.decoding.random_models import build_model

_BATCHES = (1, 3, 8)


@contextmanager
def idle_thread(*, wanted: bool) -> Iterator[None]:
    """A thread that multiplies two matrices and then waits, with the helpers that OpenMP gave it."""
    computed, over = threading.Event(), threading.Event()

    def compute() -> None:
        _ = torch.randn(1000, 1000) @ torch.randn(1000, 1000)
        computed.set()
        over.wait()

    thread = threading.Thread(target=compute)
    if wanted:
        thread.start()
        computed.wait()
    try:
        yield
    finally:
        over.set()
        if wanted:
            thread.join()


@contextmanager
def neighbours(number: int) -> Iterator[None]:
    programs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(number)]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


def step_ms(loaded: LoadedModel, sequences: int, args: argparse.Namespace) -> float:
    slots = KvCache(loaded.shape, max_bytes=loaded.slot_bytes, max_rows=32, max_columns=loaded.max_model_len)
    limits = BatchLimits(max_num_seqs=32, block_size=32)
    decoder = BatchDecoder(loaded.model, loaded.tokenizer, slots, PrefixCache(loaded.prefix_bytes), limits)
    reading = sequences * args.prompt // limits.prefill_tokens + 3
    params = GenerateParams(max_tokens=args.steps + reading, ignore_eos=True, temperature=0.0)
    for number in range(sequences):
        prompt = [10 + (number + place) % 4000 for place in range(args.prompt)]
        decoder.add(RunningSequence(str(number), prompt, params, seed="1", max_tokens=params.max_tokens))
    for _ in range(reading):
        decoder.step()
    times = []
    for _ in range(args.steps):
        began = time.perf_counter()
        decoder.step()
        times.append(time.perf_counter() - began)
    return 1000 * (statistics.fmean if args.busy else statistics.median)(times)


def row(loaded: LoadedModel, args: argparse.Namespace, *, beside: bool) -> list[float]:
    # The engine decodes in a thread of its own; so does this.
    with idle_thread(wanted=beside), neighbours(args.busy):
        return run_in_new_thread(lambda: [step_ms(loaded, number, args) for number in _BATCHES])


def as_loaded(folder: Path, packed: LoadedModel) -> LoadedModel:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=packed.shape.dtype, attn_implementation="sdpa").eval()
    model.set_attn_implementation(NAME)
    return replace(packed, model=model)


def measure(args: argparse.Namespace) -> None:
    print("| layers | beside an idle thread | " + " | ".join(f"{n} sequences, ms" for n in _BATCHES) + " |")
    print("| --- " * (2 + len(_BATCHES)) + "|")
    with tempfile.TemporaryDirectory() as name:
        made = partial(build_model, Path(name), args.shape)
        card = load_catalog()[args.model] if args.model else run_in_new_thread(made)
        packed = run_in_new_thread(lambda: load_model(card, EngineOptions(device="cpu", dtype=args.dtype)))
        plain = run_in_new_thread(lambda: as_loaded(Path(card.source), packed))
    for told, loaded in (("as loaded", plain), ("packed", packed)):
        for beside in (True, False):
            cells = " | ".join(f"{ms:.2f}" for ms in row(loaded, args, beside=beside))
            print(f"| {told} | {'yes' if beside else 'no'} | {cells} |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="8x512", help="LAYERSxWIDTH of a random Llama")
    parser.add_argument("--model", help="of the catalog, instead of random weights")
    parser.add_argument("--prompt", type=int, default=400, help="tokens of each sequence before the first step")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--busy", type=int, default=0, help="other programs that never rest")
    measure(parser.parse_args())
    return 0


if __name__ == "__main__":
    sys.exit(main())
