"""Small engines of every kind, with one short context, for tests that hold them to one contract."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from replica_server import Behaviour, Replica

from models.card import ModelCard
from models.engines.base import Engine, EngineOptions, RemoteOptions
from models.engines.registry import create_engine
from models.engines.scripted_engine import ScriptedEngine
from scripts.benchmarks.serving.vllm_replica import vllm_replicas

CONTEXT = 512
SLOTS = 4
OPTIONS = EngineOptions(dtype="float32", device="cpu", max_model_len=CONTEXT, max_num_seqs=SLOTS)
SHORT_PROMPT = "Write three letters:"


def script(prompt: str) -> str:
    """A long text of mixed scripts that depends on nothing but the prompt; three letters where they are asked for."""
    if prompt.endswith(SHORT_PROMPT):
        return "abc"
    chooser = random.Random(prompt)
    return "".join(chooser.choice("abcdefgh 0123456789éß→基因") for _ in range(2000))


def build_engine(kind: str, directory: Path) -> Engine:
    card = ModelCard(name="tiny", source=str(directory), context_length=CONTEXT)
    return ScriptedEngine(card, OPTIONS, script) if kind == "scripted" else create_engine("transformers", card, OPTIONS)


def over(url: str, directory: Path) -> Engine:
    """The remote engine, with the tokenizer of ``directory``."""
    card = ModelCard(name="tiny", source=str(directory), context_length=CONTEXT)
    remote = RemoteOptions(url=url, start_s=300.0)
    return create_engine("remote", card, EngineOptions(max_num_seqs=SLOTS, remote=remote))


@asynccontextmanager
async def remote_engine(kind: str, directory: Path) -> AsyncIterator[Engine]:
    """The remote engine over a stand-in with a transformers engine, or over a real replica."""
    async with AsyncExitStack() as stack:
        if kind == "remote-vllm":
            options = ("--max-model-len", str(CONTEXT), "--max-num-seqs", str(SLOTS))
            real = stack.enter_context(vllm_replicas(1, directory, "tiny", options))
            yield over(real[0].url, directory)
            return
        inner = build_engine("transformers", directory)
        await inner.start()
        stack.push_async_callback(inner.close)
        vocabulary = json.loads((directory / "config.json").read_text())["vocab_size"]
        stand_in = await Replica(inner, Behaviour(vocabulary=vocabulary)).start()
        stack.push_async_callback(stand_in.stop)
        yield over(stand_in.url, directory)
