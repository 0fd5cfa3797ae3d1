"""Measure a resume after a call: tokens computed and time to the next token, against prefills of known size.

One answer makes calls whose replies have a fixed number of tokens, after a prompt of a fixed size. Printed side by
side: the resume; a plain prefill of as many new tokens behind the same cached prefix, without any loop; and the whole
sequence computed without a cache, which is the cost of every call in a loop without a prefix cache.

    python scripts/benchmarks/decoding/resume.py [--model DIR] [--prompt-tokens 3000] [--reply-tokens 164] [--repeats 7]

Without --model a random Llama of 6 layers and width 256 is built in a temporary directory.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from models.card import ModelCard
from models.decoding.call_loop import LoopRequest
from models.decoding.driver import run
from models.decoding.grammar import forced_call_grammar
from models.decoding.types import Call, CallFinished, CallReply, CallSyntax, LoopLimits, TextSampled
from models.engines.base import Engine, EngineOptions
from models.engines.transformers_engine.engine import TransformersEngine
from models.types import GenerateParams

CALLS = r"https://eutils\.ncbi\.nlm\.nih\.gov/entrez/eutils/esearch\.fcgi\?db=gene&term=[A-Z]{3}[0-9]{1,3}"
FACTS = "5699: PSMB10 | proteasome 20S subunit beta 10 | human | 16q22.1; "


@dataclass(slots=True)
class Costs:
    """One list entry per repeat."""

    seconds: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)

    def row(self, name: str) -> str:
        low, high = min(self.seconds) * 1e3, max(self.seconds) * 1e3
        median = statistics.median(self.seconds) * 1e3
        tokens = f"{min(self.tokens)}-{max(self.tokens)}"
        return f"| {name:<44} | {median:8.1f} ({low:.1f}-{high:.1f}) | {tokens:>11} |"


def build_random_llama(directory: Path) -> Path:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=2048,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<s>", "</s>"],
        show_progress=False,
    )
    backend.train_from_iterator([FACTS + CALLS], trainer)
    PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>").save_pretrained(directory)
    config = LlamaConfig(
        vocab_size=2048,
        hidden_size=256,
        intermediate_size=704,
        num_hidden_layers=6,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=8192,
        eos_token_id=1,
    )
    LlamaForCausalLM(config).save_pretrained(directory)
    return directory


def text_of(engine: Engine, num_tokens: int) -> str:
    """Text of ``num_tokens`` tokens, up to a few."""
    per_fact = len(engine.tokenizer.encode(FACTS))
    return engine.tokenizer.decode(engine.tokenizer.encode(FACTS * (num_tokens // per_fact + 1))[:num_tokens])


async def first_token_s(engine: Engine, ids: Sequence[int], salt: str, request_id: str) -> tuple[float, int]:
    """Seconds to the first token, and how many prompt tokens were computed for it."""
    params = GenerateParams(max_tokens=1, cache_salt=salt, ignore_eos=True)
    before = engine.stats().prompt_tokens_computed
    started = time.perf_counter()
    async for _ in engine.generate(ids, params, request_id):
        pass
    return time.perf_counter() - started, engine.stats().prompt_tokens_computed - before


async def measure(engine: Engine, prompt_tokens: int, reply_tokens: int, repeats: int) -> None:
    resume, plain, whole = Costs(), Costs(), Costs()
    reply = f"[{text_of(engine, reply_tokens)}]"
    for n in range(repeats):
        salt = f"repeat {n}"
        request = LoopRequest(
            prompt_ids=tuple(engine.tokenizer.encode(text_of(engine, prompt_tokens))),
            params=GenerateParams(
                max_tokens=400,
                temperature=1.0,
                seed=n,
                grammar=forced_call_grammar(CALLS, engine.tokenizer),
                cache_salt=salt,
            ),
            syntax=CallSyntax("[https://", "]->", lambda _: True),
            request_id=salt,
            limits=LoopLimits(max_calls=1),
        )
        sequence = await resume_once(engine, request, reply, resume)
        # The same number of new tokens, behind the same prefix, without a loop: the reply's ids backwards.
        num_new = len(engine.tokenizer.encode(reply + request.reply_suffix))
        other = sequence[:-num_new] + sequence[: -num_new - 1 : -1]
        for costs, ids, cache in ((plain, other, salt), (whole, sequence, f"nothing cached {n}")):
            seconds, computed = await first_token_s(engine, ids, cache, f"{cache} {len(ids)}")
            costs.seconds.append(seconds)
            costs.tokens.append(computed)
    print("| from the reply to the next token             | ms, median (min-max)   | computed    |")
    print("| -------------------------------------------- | ---------------------- | ----------- |")
    print(resume.row("resume in the loop"))
    print(plain.row("plain prefill, same prefix, as many tokens"))
    print(whole.row("whole sequence, no prefix cache"))
    budget = statistics.median(resume.seconds) / statistics.median(plain.seconds)
    print(
        f"resume / plain prefill = {budget:.2f}; reply + one block = {len(engine.tokenizer.encode(reply)) + 33} tokens"
    )


async def resume_once(engine: Engine, request: LoopRequest, reply: str, costs: Costs) -> list[int]:
    """Run one answer up to the first token behind its first reply; returns the sequence up to there."""

    started, before = 0.0, 0

    async def answer(call: Call) -> CallReply:
        nonlocal started, before
        started, before = time.perf_counter(), engine.stats().prompt_tokens_computed
        return CallReply(reply, "ok")

    sampled: list[int] = []
    async for event in run(engine, request, answer):
        if isinstance(event, CallFinished):
            sampled += engine.tokenizer.encode(event.injected)
        elif isinstance(event, TextSampled):
            if started:
                costs.seconds.append(time.perf_counter() - started)
                costs.tokens.append(engine.stats().prompt_tokens_computed - before)
                break
            sampled += event.token_ids
    return [*request.prompt_ids, *sampled]


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, help="model directory")
    parser.add_argument("--prompt-tokens", type=int, default=3000)
    parser.add_argument("--reply-tokens", type=int, default=164)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        source = arguments.model or build_random_llama(Path(scratch))
        context = arguments.prompt_tokens + 2 * arguments.reply_tokens + 1000
        card = ModelCard(name="benchmark", source=str(source), context_length=context)
        engine = TransformersEngine(card, EngineOptions(device=arguments.device))
        await engine.start()
        try:
            await measure(engine, arguments.prompt_tokens, arguments.reply_tokens, arguments.repeats)
        finally:
            await engine.close()


if __name__ == "__main__":
    asyncio.run(main())
