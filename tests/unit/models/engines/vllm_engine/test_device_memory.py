"""The share of a GPU that vLLM may take, with a stand-in for the GPUs."""

from __future__ import annotations

import json
import types
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.card import ModelCard
from models.engines.base import EngineOptions
from models.engines.vllm_engine.launch import (
    DEFAULT_SHARE,
    FITTED,
    DeviceMemory,
    engine_arguments,
    memory_share,
    query_devices,
)
from models.errors import EngineUnavailable

GIB = 2**30
CARD = ModelCard(name="m", source="owner/m")


@dataclass(frozen=True)
class Gpus:
    """GPUs of 80 GiB, with so much of each free."""

    free: tuple[float, ...]

    def __call__(self, indices: Sequence[int]) -> Sequence[DeviceMemory]:
        return [DeviceMemory(index, int(self.free[index] * GIB), 80 * GIB) for index in indices]


def test_a_free_gpu_gives_vllms_own_share() -> None:
    """As without indices and encoders."""
    assert memory_share(CARD, EngineOptions(), Gpus((79.5,))) == DEFAULT_SHARE


def test_beside_indices_the_share_is_what_is_free_less_a_margin() -> None:
    """Also where the size of the cache is set: vLLM asks for its share all the same."""
    for options in (EngineOptions(), EngineOptions(kv_cache_bytes=4 * GIB)):
        found = engine_arguments(CARD, options, "cuda", Gpus((60.0,)))["gpu_memory_utilization"]
        assert 59 / 80 < found < 60 / 80


def test_what_encoders_allocate_at_work_stays_free() -> None:
    """Their weights are on the GPU already; their batches are not."""
    without = memory_share(CARD, EngineOptions(), Gpus((60.0,)))
    assert memory_share(CARD, EngineOptions(device_reserve_bytes=8 * GIB), Gpus((60.0,))) == pytest.approx(
        without - 0.1, abs=1e-3
    )


def test_the_fullest_gpu_decides_for_all_that_share_the_model() -> None:
    """vLLM takes one share of each; the GPUs that it does not use do not count."""
    gpus = Gpus((10.0, 79.0, 40.0, 79.0))
    options = EngineOptions(device="cuda:1", tensor_parallel_size=2)

    assert 38 / 80 <= memory_share(CARD, options, gpus) < 39 / 80
    assert memory_share(CARD, EngineOptions(device="cuda:3"), gpus) == DEFAULT_SHARE


def test_a_share_that_is_set_is_kept_where_it_is_possible() -> None:
    """Also a larger one than vLLM's default."""
    assert memory_share(CARD, EngineOptions(gpu_memory_utilization=0.3), Gpus((30.0,))) == 0.3
    assert memory_share(CARD, EngineOptions(gpu_memory_utilization=0.97), Gpus((79.0,))) == 0.97


def test_a_share_that_is_not_free_is_refused_with_one_that_is() -> None:
    """Before vLLM starts, which would say so after a minute."""
    with pytest.raises(
        EngineUnavailable, match=r"0\.9 asks for 72\.0 GiB of GPU 0.*leave 60\.0 GiB.*set it to 0\.7437"
    ):
        memory_share(CARD, EngineOptions(gpu_memory_utilization=0.9), Gpus((60.0,)))


def test_too_little_for_weights_and_cache_is_refused_with_what_can_be_done(tmp_path: Path) -> None:
    """The checkpoint's files say how much it needs, of several GPUs a part on each."""
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 30 * GIB}}))
    card = ModelCard(name="m", source=str(tmp_path))

    with pytest.raises(
        EngineUnavailable, match=r"need 30\.0 GiB.*kv_cache_gib.*tensor_parallel_size.*retrieval\.device"
    ):
        memory_share(card, EngineOptions(), Gpus((25.0,)))
    assert 0 < memory_share(card, EngineOptions(tensor_parallel_size=2), Gpus((25.0, 25.0))) < 25 / 80
    with pytest.raises(EngineUnavailable, match=r"need 30\.0 GiB and kv_cache_gib 20\.0 GiB"):
        memory_share(card, EngineOptions(kv_cache_bytes=20 * GIB), Gpus((45.0,)))
    with pytest.raises(EngineUnavailable, match="it needs more"):
        memory_share(CARD, EngineOptions(), Gpus((0.2,)))


def test_weights_that_are_loaded_in_half_the_bits_count_half(tmp_path: Path) -> None:
    """A checkpoint of float32 is not refused for its size on the disk."""
    (tmp_path / "config.json").write_text('{"torch_dtype": "float32"}')
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 30 * GIB}}))
    assert memory_share(ModelCard(name="m", source=str(tmp_path)), EngineOptions(), Gpus((25.0,))) > 0


LLAMA_8B = {
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "num_attention_heads": 32,
    "hidden_size": 4096,
    "max_position_embeddings": 131_072,
    "torch_dtype": "bfloat16",
}


def checkpoint(folder: Path, weights: int, **config: object) -> ModelCard:
    """A folder that says it holds so many bytes of weights of Llama's shape."""
    (folder / "config.json").write_text(json.dumps(LLAMA_8B | config))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": weights}}))
    return ModelCard(name="m", source=str(folder), context_length=131_072)


def test_llama_of_8b_starts_beside_an_index_with_a_length_that_vllm_fits(tmp_path: Path) -> None:
    """Its 131,072 tokens would need 16 GiB of keys and values; 20 GiB are free beside the index, 22 on a small card."""
    card = checkpoint(tmp_path, 15 * GIB)
    for gpus in (Gpus((20.0,)), lambda _: [DeviceMemory(0, 22 * GIB, 24 * GIB)]):
        assert engine_arguments(card, EngineOptions(), "cuda", gpus)["max_model_len"] == FITTED


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (EngineOptions(max_model_len=131_072), r"a sequence of 131072 tokens 16\.0 GiB.*max_model_len"),
        (EngineOptions(max_model_len=131_072, kv_cache_bytes=2 * GIB), r"set max_model_len to 16384 at most"),
        (EngineOptions(max_model_len=131_072, gpu_memory_utilization=0.24), r"set max_model_len to \d+ at most"),
        (
            EngineOptions(gpu_memory_utilization=0.1),
            r"0\.1 is 8\.0 GiB of GPU 0, but the model's weights need 15\.0 GiB",
        ),
        (EngineOptions(kv_cache_bytes=GIB // 8), r"2048 tokens needs 0\.2 GiB.*for 1024 tokens: raise kv_cache_gib"),
    ],
)
def test_a_length_that_cannot_fit_is_refused_before_the_weights_load(
    tmp_path: Path, options: EngineOptions, message: str
) -> None:
    """With the length that would fit."""
    with pytest.raises(EngineUnavailable, match=message):
        engine_arguments(checkpoint(tmp_path, 15 * GIB), options, "cuda", Gpus((20.0,)))


def test_a_processor_refuses_what_its_memory_cannot_hold(tmp_path: Path) -> None:
    """Weights in 32 bits take twice what the file has; a length beyond the KV cache would be found after loading."""
    with pytest.raises(EngineUnavailable, match=r"weights need 8000\.0 GiB.*dtype=bfloat16"):
        engine_arguments(checkpoint(tmp_path, 4000 * GIB), EngineOptions(), "cpu")
    options = EngineOptions(max_model_len=131_072, kv_cache_bytes=GIB)
    with pytest.raises(EngineUnavailable, match="set max_model_len to 4096 at most"):
        engine_arguments(checkpoint(tmp_path, 1000), options, "cpu")


@pytest.mark.vllm
@settings(deadline=None)  # the first example imports vLLM
@given(
    total=st.integers(4 * GIB, 300 * GIB),
    free=st.floats(0.0, 1.0),
    reserve=st.integers(0, 4 * GIB),
    used_since=st.integers(0, GIB // 2),
)
def test_vllm_starts_with_every_share_that_is_chosen(total: int, free: float, reserve: int, used_since: int) -> None:
    """Its own check takes it, though some memory went since; with its default it would refuse."""
    utils = pytest.importorskip("vllm.v1.worker.utils")
    left = int(total * free)
    try:
        share = memory_share(
            CARD, EngineOptions(device_reserve_bytes=reserve), lambda _: [DeviceMemory(0, left, total)]
        )
    except EngineUnavailable:
        return
    snapshot = types.SimpleNamespace(free_memory=left - used_since, total_memory=total, device_="cuda:0")
    asked = utils.request_memory(snapshot, types.SimpleNamespace(gpu_memory_utilization=share))
    assert 0 < asked <= left - used_since
    if left < total * DEFAULT_SHARE:
        with pytest.raises(ValueError, match="Free memory"):
            utils.request_memory(snapshot, types.SimpleNamespace(gpu_memory_utilization=DEFAULT_SHARE))


@pytest.mark.server
def test_a_machine_without_the_gpu_says_how_many_it_has() -> None:
    """The real query; on a machine with GPUs there are never a thousand."""
    with pytest.raises(EngineUnavailable, match=r"needs GPU 999, but \d+ are visible"):
        query_devices([999])
