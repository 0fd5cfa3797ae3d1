"""Which engine is built, and which options it refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from models.card import ModelCard
from models.engines.base import EngineOptions, LoraAdapter
from models.engines.registry import create_engine
from models.errors import UnsupportedParam

CARD = ModelCard(name="m", source="owner/m")


@pytest.mark.parametrize(
    "given",
    [
        {"quantization": "fp8"},
        {"tensor_parallel_size": 2},
        {"gpu_memory_utilization": 0.5},
        {"hold_during_calls_s": 5.0},
    ],
)
def test_the_transformers_engine_refuses_what_vllm_alone_does(given: dict[str, Any]) -> None:
    """Serving the model as if the option were not there would be wrong without a word."""
    (name,) = given
    with pytest.raises(UnsupportedParam, match=f"^{name} is served by the vllm engine alone") as caught:
        create_engine("transformers", CARD, EngineOptions(**given))
    assert caught.value.param == name


def test_replicas_keep_no_sequence() -> None:
    """Their wire has no sessions."""
    with pytest.raises(UnsupportedParam, match="hold_during_calls_s needs vLLM in this process"):
        create_engine("remote", CARD, EngineOptions(hold_during_calls_s=5.0))


def test_the_transformers_engine_takes_one_of_several_adapters() -> None:
    """It has one set of weights, so one must be chosen."""
    options = EngineOptions(lora_adapters=(LoraAdapter("a", Path("/a")), LoraAdapter("b", Path("/b"))))
    with pytest.raises(UnsupportedParam, match=r"one adapter, merged into the weights: choose it with model\.adapter"):
        create_engine("transformers", CARD, options)
    assert create_engine("transformers", replace(CARD, adapter=Path("/a")), options).name == "m"


def test_the_slots_are_ours_where_vllm_does_not_choose() -> None:
    """32, unless a number is set."""
    assert (EngineOptions().slots, EngineOptions(max_num_seqs=5).slots) == (32, 5)


def test_devices_are_counted_from_the_chosen_one() -> None:
    assert EngineOptions(device="cuda:2", tensor_parallel_size=2).device_indices == (2, 3)
    assert EngineOptions(device="auto").device_indices == (0,)


@pytest.mark.parametrize(
    "given", [{"gpu_memory_utilization": 0.0}, {"tensor_parallel_size": 0}, {"max_num_seqs": 0}, {"draft_tokens": -1}]
)
def test_options_out_of_range_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(given))):
        EngineOptions(**given)
