"""Start vLLM for a part of first_light, and measure what it writes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from string import ascii_letters
from typing import Any, Final, TypeVar

from models.catalog import ModelRequest, card_from_request
from models.engines.base import EngineOptions
from models.engines.vllm_engine import compat, names
from models.engines.vllm_engine.engine import VllmEngine
from scripts.gpu.figures import figure

Kind = TypeVar("Kind", bound=VllmEngine)
LLAMA_8B: Final = {
    "hidden_size": 4096,
    "intermediate_size": 14_336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128_256,
    "max_position_embeddings": 131_072,
}
SMALL: Final = {
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 2048,
    "max_position_embeddings": 4096,
}


class DummyWeights(VllmEngine):
    """The engine over a folder without weights: vLLM makes numbers up."""

    def _arguments(self, vocabulary: int) -> dict[str, Any]:
        return super()._arguments(vocabulary) | {"load_format": "dummy"}

    async def written_bare(self, prompt_ids: Sequence[int], tokens: int, request_id: str) -> int:
        """Let ``AsyncLLM`` itself write, with nothing of ours; return how many tokens it wrote."""
        kind = names.load("RequestOutputKind").DELTA
        params = names.load("SamplingParams")(max_tokens=tokens, ignore_eos=True, temperature=0.0, output_kind=kind)
        outputs = self._client.generate(compat.tokens_input(list(prompt_ids), request_id), params, request_id)
        return sum([len(one.outputs[0].token_ids) async for one in outputs])


@asynccontextmanager
async def started(engine: Kind) -> AsyncIterator[Kind]:
    began = time.monotonic()
    await engine.start()
    figure("seconds to start", f"{time.monotonic() - began:.1f}")
    figure("context", engine.max_model_len)
    try:
        yield engine
    finally:
        await engine.close()


def write_shape(folder: Path, shape: dict[str, int]) -> Path:
    """Write config and tokenizer of a Llama with as many ids; most tokens stand for letters that nobody writes so."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    texts = [*alphabet, "]->", *("".join(letters) for letters in product(ascii_letters, repeat=3))]
    vocabulary = {text: number for number, text in enumerate(texts[: shape["vocab_size"] - 2])}
    for text in product("0123456789", ascii_letters, ascii_letters):
        if len(vocabulary) == shape["vocab_size"] - 2:
            break
        vocabulary["".join(text)] = len(vocabulary)
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>")
    made.save_pretrained(folder)
    config = shape | {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": "bfloat16",
        "bos_token_id": made.bos_token_id,
        "eos_token_id": made.eos_token_id,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500_000.0,
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def engine_over(folder: Path, *, dry: bool) -> DummyWeights:
    card = card_from_request(ModelRequest(source=str(folder), has_weights=False))
    options = EngineOptions(device="cpu", kv_cache_bytes=2**28) if dry else EngineOptions(device="cuda")
    return DummyWeights(card, options)


async def tokens_per_s(write: Callable[[int], Awaitable[int]], streams: int) -> float:
    """Tokens a second of so many answers at once, each written by ``write`` with its own number."""
    began = time.perf_counter()
    tokens = sum(await asyncio.gather(*(write(number) for number in range(streams))))
    return tokens / (time.perf_counter() - began)
