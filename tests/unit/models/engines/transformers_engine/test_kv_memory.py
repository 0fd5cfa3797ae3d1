"""What happens to requests when the memory for keys and values is scarce."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from models.engines.tokenizer import HfTokenizer
from models.engines.transformers_engine.continuous_batching import BatchDecoder, BatchLimits, Output
from models.engines.transformers_engine.kv_cache import KvCache, KvShape, PrefixCache
from models.engines.transformers_engine.sequences import RunningSequence
from models.errors import CONTEXT_TOO_LONG, ModelError
from models.torch_runtime.layers import NAME, register
from models.types import Delta, GenerateParams

SHAPE = KvShape(num_layers=2, num_heads=1, head_dim=32, dtype=torch.float32, device=torch.device("cpu"))
CONTEXT = 131_072


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Helpers cost layers of this size more than they save."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def model(tiny_llama: Path) -> Any:
    register()
    loaded = AutoModelForCausalLM.from_pretrained(tiny_llama, dtype=torch.float32, attn_implementation="sdpa").eval()
    loaded.set_attn_implementation(NAME)
    return loaded


@pytest.fixture(scope="module")
def tokenizer(tiny_llama: Path) -> HfTokenizer:
    return HfTokenizer.load(str(tiny_llama), revision=None, local_only=True)


@dataclass
class Bench:
    """A decoder with memory for this many tokens, and what each request has got so far."""

    model: Any
    tokenizer: HfTokenizer
    tokens: int
    prefix_tokens: int = 0
    max_num_seqs: int = 64
    patience: int = 20
    got: dict[str, list[int]] = field(default_factory=dict)
    results: dict[str, str | Exception] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.slots = KvCache(
            SHAPE, max_bytes=self.tokens * SHAPE.bytes_per_token, max_rows=self.max_num_seqs, max_columns=CONTEXT
        )
        limits = BatchLimits(max_num_seqs=self.max_num_seqs, block_size=32, patience=self.patience)
        prefixes = PrefixCache(self.prefix_tokens * SHAPE.bytes_per_token)
        self.decoder = BatchDecoder(self.model, self.tokenizer, self.slots, prefixes, limits)

    def add(self, name: str, prompt: int, max_tokens: int, **params: Any) -> None:
        wanted = GenerateParams(max_tokens=max_tokens, ignore_eos=True, **params)
        ids = [10 + (sum(name.encode()) + 7 * i) % 350 for i in range(prompt)]
        self.take(self.decoder.add(RunningSequence(name, ids, wanted, seed=name, max_tokens=max_tokens)))

    def take(self, outputs: list[Output]) -> None:
        for output in outputs:
            if isinstance(output.result, Delta):
                self.got.setdefault(output.request_id, []).extend(output.result.token_ids)
                if output.result.finish_reason:
                    self.results[output.request_id] = output.result.finish_reason
            else:
                self.results[output.request_id] = output.result

    def steps(self, most: int = 5000) -> Iterator[int]:
        """Step while there is work; the memory is within its bound after each step."""
        for number in range(most):
            if not self.decoder.has_work:
                return
            self.take(self.decoder.step())
            assert self.slots.num_bytes <= self.tokens * SHAPE.bytes_per_token
            yield number
        raise AssertionError(f"not finished after {most} steps: {self.decoder.stats()}")

    def run(self) -> dict[str, list[int]]:
        for _ in self.steps():
            pass
        assert self.slots.free_columns == self.tokens
        return self.got


def alone(bench: Bench, name: str, prompt: int, max_tokens: int, **params: Any) -> list[int]:
    one = Bench(bench.model, bench.tokenizer, tokens=100_000)
    one.add(name, prompt, max_tokens, **params)
    return one.run()[name]


def test_chats_without_a_limit_share_the_memory(model: Any, tokenizer: HfTokenizer) -> None:
    """Each may use the whole context of 131,072 tokens; eight of them run at once, though there is room for one."""
    bench = Bench(model, tokenizer, tokens=CONTEXT)
    for i in range(8):
        bench.add(f"{i}", 50, CONTEXT - 50)
    for number in bench.steps():
        if number == 3:
            break

    assert bench.decoder.stats().running == 8
    assert bench.results == {}
    for i in range(8):
        bench.take(bench.decoder.abort(f"{i}"))
    assert bench.slots.free_columns == CONTEXT


def test_requests_that_outgrow_the_memory_end_as_if_alone(model: Any, tokenizer: HfTokenizer) -> None:
    """Three that start together and need more than the memory in the end: the later wait, and all answers are right."""
    bench = Bench(model, tokenizer, tokens=1024)
    wanted = {f"r{i}": (240 - 20 * i, 50 + 10 * i) for i in range(3)}
    for name, (prompt, most) in wanted.items():
        bench.add(name, prompt, most, temperature=1.0)
    waited = 0
    for _ in bench.steps():
        waited += bench.decoder.stats().waiting > 0
    got = bench.got

    assert waited
    assert set(bench.results.values()) == {"length"}
    assert {name: len(ids) for name, ids in got.items()} == {name: most for name, (_, most) in wanted.items()}
    for name, (prompt, most) in wanted.items():
        assert got[name] == alone(bench, name, prompt, most, temperature=1.0)


def test_a_request_that_goes_on_uses_the_prefix_cache(model: Any, tokenizer: HfTokenizer) -> None:
    """What it had computed before it was set back is computed once; its usage tells of the first look-up alone."""
    computed = []
    for prefix_tokens in (0, 4000):
        bench = Bench(model, tokenizer, tokens=1024, prefix_tokens=prefix_tokens)
        bench.add("first", 490, 60)
        bench.add("second", 490, 60)
        assert [len(ids) for ids in bench.run().values()] == [60, 60]
        stats = bench.decoder.stats()
        assert stats.prompt_tokens_cached == 0
        computed.append(stats.prompt_tokens_computed)

    assert computed[0] > 3 * 490  # the second was computed twice
    assert computed[1] <= 2 * 490 + 2 * 32


def test_a_long_request_is_served_after_a_burst_of_short_ones(model: Any, tokenizer: HfTokenizer) -> None:
    """64 rows lie idle afterwards; their memory is the long one's, at once."""
    bench = Bench(model, tokenizer, tokens=64 * 256, max_num_seqs=64)
    for i in range(64):
        bench.add(f"{i}", 20, 4)
    bench.run()
    assert bench.slots.num_bytes > 0
    bench.add("long", 9000, 3)
    bench.take(bench.decoder.step())

    assert bench.decoder.stats().running == 1
    assert bench.slots.num_bytes <= 64 * 256 * SHAPE.bytes_per_token
    assert len(bench.run()["long"]) == 3


def test_what_no_memory_can_hold_is_refused(model: Any, tokenizer: HfTokenizer) -> None:
    """The error names the field and both numbers; the largest that fits is served."""
    bench = Bench(model, tokenizer, tokens=1000)
    bench.add("large", 990, 11)
    bench.add("fits", 990, 10)
    bench.run()
    error = bench.results["large"]

    assert isinstance(error, ModelError) and CONTEXT_TOO_LONG.is_of(error)
    assert error.param == "max_tokens"
    assert "1001" in error.message
    assert "1000" in error.message
    assert bench.results["fits"] == "length"


def test_short_requests_pass_a_long_one_and_it_is_not_starved(model: Any, tokenizer: HfTokenizer) -> None:
    """A short request arrives at every other step; both it and the long one behind it are served."""
    bench = Bench(model, tokenizer, tokens=3072, patience=20, prefix_tokens=3072)
    bench.add("running", 1000, 40)
    for number in bench.steps():
        if number == 3:
            bench.add("long", 2000, 5)
        if number % 2 == 0 and number < 100:
            bench.add(f"short {number}", 20, 30)
        if number == 20:
            assert "long" not in bench.got
            assert len(bench.got["short 4"]) > 5
        if number == 80:
            assert bench.results["long"] == "length"

    assert set(bench.results.values()) == {"length"}
    assert len(bench.results) == 52


def test_an_abort_frees_the_memory_before_the_next_step(model: Any, tokenizer: HfTokenizer) -> None:
    """Of a running and of a set-back request; what waited for it runs in that step."""
    bench = Bench(model, tokenizer, tokens=1024)
    bench.add("a", 480, 500)
    bench.add("b", 480, 500)
    for _ in bench.steps():
        if bench.decoder.stats().waiting:
            break
    bench.add("c", 500, 4)
    bench.take(bench.decoder.abort("b"))
    assert bench.decoder.stats().waiting == 1
    bench.take(bench.decoder.abort("a"))
    assert bench.slots.free_columns == 1024
    bench.take(bench.decoder.step())

    assert bench.results == {"a": "abort", "b": "abort"}
    assert len(bench.got["c"]) == 1


class Deaf(torch.nn.Module):
    """A model that hands no further arguments on to its attention."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *, row_batches: object = None, **inputs: Any) -> Any:
        return self.inner(**inputs)


@pytest.mark.parametrize("passes_on", [True, False])
def test_sequences_of_very_different_length_decode_together(
    model: Any, tokenizer: HfTokenizer, passes_on: bool
) -> None:
    """The answers are those of each alone, whether or not the model lets its attention see them apart."""
    bench = Bench(model if passes_on else Deaf(model), tokenizer, tokens=20_000)
    wanted = {"short": 10, "middle": 300, "other short": 30, "long": 3000}
    for name, prompt in wanted.items():
        bench.add(name, prompt, 30, logprobs=1)
    got = bench.run()
    bench.model = model

    assert got == {name: alone(bench, name, prompt, 30) for name, prompt in wanted.items()}
