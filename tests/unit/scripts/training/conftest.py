"""A ChatML tokenizer and a tiny random Llama with an adapter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.training.lora import LoraShape, add_adapter
from scripts.training.tasks.samples import Writer
from tests.family_models import FAMILIES, build_tokenizer


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Compute as the command does: threads that wait for each other at each of many small operations are slow."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="package")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Writer:
    folder = tmp_path_factory.mktemp("chatml")
    family = next(one for one in FAMILIES.values() if "<|im_end|>" in one.special)
    build_tokenizer(family, folder)
    return Writer.load(folder)


@pytest.fixture
def tiny_model() -> Callable[[], Any]:
    """Return a maker of equal models, float32."""

    def make() -> Any:
        import torch
        from transformers import LlamaConfig, LlamaForCausalLM

        config = LlamaConfig(
            vocab_size=97,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            initializer_range=0.4,
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            model = LlamaForCausalLM(config).eval()
        add_adapter(model, LoraShape(rank=4, alpha=4), seed=3)
        return model

    return make


BIOASQ = Path(__file__).parents[4].parent / "shared" / "data" / "qa" / "bioasq"


@pytest.fixture
def bioasq() -> Path:
    if not (BIOASQ / "questions_dev.jsonl.gz").is_file():
        pytest.skip(f"no {BIOASQ}")
    return BIOASQ
