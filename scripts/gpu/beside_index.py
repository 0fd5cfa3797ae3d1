"""Start vLLM in a process that holds memory of the GPU, as the server's does with its indices.

    python -m scripts.gpu.beside_index --model DIR --gib 10

Holds at least 15 % of the GPU, so that vLLM's default share of it is not free, on a large one either.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from pathlib import Path

from models.catalog import ModelRequest, card_from_request
from models.engines.base import EngineOptions
from models.engines.vllm_engine.engine import VllmEngine
from models.engines.vllm_engine.launch import DEFAULT_SHARE, memory_share, query_devices
from models.types import GenerateParams
from scripts.gpu.serving import figure

_GIB = 2**30
_LEAST_SHARE = 0.15


def held_bytes(gib: float, total: int) -> int:
    """How much to hold of a GPU with ``total`` bytes."""
    return max(int(gib * _GIB), int(_LEAST_SHARE * total))


async def start_and_answer(model: Path) -> int:
    """Start the engine and return the number of tokens of an answer."""
    card, options = card_from_request(ModelRequest(source=str(model))), EngineOptions(device="cuda")
    (before,) = query_devices(options.device_indices)
    figure("free of the GPU", f"{before.free / _GIB:.1f} of {before.total / _GIB:.1f} GiB")
    if before.free >= DEFAULT_SHARE * before.total:
        raise RuntimeError("vLLM's default share is free: this would show nothing")
    figure("share chosen", memory_share(card, options, query_devices))
    engine, began = VllmEngine(card, options), time.monotonic()
    await engine.start()
    try:
        figure("seconds to start", f"{time.monotonic() - began:.1f}")
        figure("sequences at once", engine.slots)
        params = GenerateParams(max_tokens=16, ignore_eos=True)
        prompt = engine.tokenizer.encode("Question: What is LMP10?\n")
        return sum([len(one.token_ids) async for one in engine.generate(prompt, params, "beside-index")])
    finally:
        await engine.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--gib", type=float, default=10.0)
    args = parser.parse_args()
    import torch

    size = held_bytes(args.gib, torch.cuda.mem_get_info(0)[1])
    held = torch.ones(size, dtype=torch.uint8, device="cuda:0")
    figure("held by this process", f"{size / _GIB:.1f} GiB")
    tokens = asyncio.run(start_and_answer(args.model))
    # Still what it was: nothing of vLLM's took it.
    return 0 if tokens == 16 and bool(held[-1] == 1) else 1


if __name__ == "__main__":
    raise SystemExit(main())
