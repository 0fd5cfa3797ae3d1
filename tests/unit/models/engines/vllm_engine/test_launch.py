"""What vLLM is started with; nothing here needs it installed."""

from __future__ import annotations

import dataclasses
import os
import runpy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from models.card import ModelCard
from models.engines.base import EngineOptions, LoraAdapter
from models.engines.tokenizer import HfTokenizer
from models.engines.vllm_engine import compat as vllm_compat
from models.engines.vllm_engine.launch import (
    DEFAULT_SHARE,
    FITTED,
    LORA_RANKS,
    DeviceMemory,
    draft_arguments,
    engine_arguments,
    environment,
    padding_arguments,
    reject_unsupported,
    with_reasoning_parser,
)
from models.engines.vllm_engine.names import load
from models.errors import EngineUnavailable, UnsupportedParam
from models.torch_runtime.openmp import limit_spin_count


def roomy(indices: Sequence[int]) -> Sequence[DeviceMemory]:
    """GPUs with nothing on them."""
    return [DeviceMemory(index, 80 * 2**30, 80 * 2**30) for index in indices]


@pytest.fixture
def local(tmp_path: Path) -> ModelCard:
    return ModelCard(name="tiny", source=str(tmp_path), context_length=777)


@pytest.fixture
def remote() -> ModelCard:
    return ModelCard(name="llama", source="owner/llama", allow_download=True)


@pytest.mark.parametrize("value", ["1", "true"])
def test_the_rust_frontend_is_refused(value: str) -> None:
    """With it requests would go round the engine that intercepts calls."""
    with pytest.raises(EngineUnavailable, match="VLLM_USE_RUST_FRONTEND"):
        reject_unsupported({"VLLM_USE_RUST_FRONTEND": value})


@pytest.mark.parametrize("environ", [{}, {"VLLM_USE_RUST_FRONTEND": "0"}, {"VLLM_USE_RUST_FRONTEND": ""}])
def test_without_the_rust_frontend_nothing_is_refused(environ: dict[str, str]) -> None:
    """Unset, empty and 0 all mean the Python frontend."""
    reject_unsupported(environ)


def test_no_telemetry_whatever_the_operator_has_set(local: ModelCard) -> None:
    """Usage reports are off and addresses are loopback, also against the environment."""
    found = environment(local, EngineOptions(), {"VLLM_NO_USAGE_STATS": "0", "VLLM_HOST_IP": "10.0.0.1"})

    assert found["VLLM_NO_USAGE_STATS"] == found["DO_NOT_TRACK"] == found["VLLM_DO_NOT_TRACK"] == "1"
    assert found["VLLM_HOST_IP"] == found["VLLM_LOOPBACK_IP"] == "127.0.0.1"


def test_batch_invariance_is_a_setting(local: ModelCard) -> None:
    """Of vLLM's kernels on a GPU; its CPU build has none."""
    wanted = EngineOptions(batch_invariant=True)
    assert environment(local, wanted, {})["VLLM_BATCH_INVARIANT"] == "1"
    assert "VLLM_BATCH_INVARIANT" not in environment(local, EngineOptions(), {})
    assert engine_arguments(local, wanted, "cuda", roomy)["max_model_len"] == 777
    with pytest.raises(UnsupportedParam, match="batch_invariant needs a GPU"):
        engine_arguments(local, wanted, "cpu")


def test_no_step_runs_ahead_of_a_sequence_that_is_kept(local: ModelCard) -> None:
    """A hybrid's state could not go back before a token that was computed; what drafts add could not be taken away."""
    kept = EngineOptions(hold_during_calls_s=5.0)
    assert engine_arguments(local, kept, "cuda", roomy)["async_scheduling"] is False
    assert "async_scheduling" not in engine_arguments(local, EngineOptions(), "cuda", roomy)
    with pytest.raises(UnsupportedParam, match="not beside draft_tokens"):
        engine_arguments(local, replace(kept, draft_tokens=4), "cpu")


def test_the_hub_is_offline_unless_the_card_allows_downloads(local: ModelCard, remote: ModelCard) -> None:
    """A local model never makes the hub client ask for anything."""
    assert environment(local, EngineOptions(), {})["HF_HUB_OFFLINE"] == "1"
    assert "HF_HUB_OFFLINE" not in environment(remote, EngineOptions(), {})


def test_the_operators_log_level_is_kept(local: ModelCard) -> None:
    """vLLM is quiet by default and as loud as somebody wants it."""
    assert environment(local, EngineOptions(), {})["VLLM_LOGGING_LEVEL"] == "ERROR"
    assert "VLLM_LOGGING_LEVEL" not in environment(local, EngineOptions(), {"VLLM_LOGGING_LEVEL": "DEBUG"})


def test_vllms_own_processes_wait_as_openmp_does(local: ModelCard, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its core computes alone; what somebody else has set stays."""
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.setenv(name, "")  # so that it is taken back at the end
        monkeypatch.delenv(name)
    limit_spin_count()

    assert environment(local, EngineOptions(), os.environ)["GOMP_SPINCOUNT"] == "300000"
    assert "GOMP_SPINCOUNT" not in environment(local, EngineOptions(), {"GOMP_SPINCOUNT": "7"})
    assert "GOMP_SPINCOUNT" not in environment(local, EngineOptions(), {})


@pytest.mark.parametrize("device", ["auto", "cuda", "cuda:3"])
def test_the_operators_choice_of_gpus_stays(local: ModelCard, device: str) -> None:
    """CUDA_VISIBLE_DEVICES is never written; cuda:N counts the GPUs that it leaves visible."""
    options = EngineOptions(device=device, tensor_parallel_size=2)

    assert "CUDA_VISIBLE_DEVICES" not in environment(local, options, {"CUDA_VISIBLE_DEVICES": "4,5,6,7,8"})
    found = engine_arguments(local, options, "cuda", roomy)
    assert found.get("device_ids") == ([3, 4] if device == "cuda:3" else None)
    assert found["tensor_parallel_size"] == 2


def test_cpu_runs_eagerly_in_float32_with_our_blocks_and_a_bounded_cache(local: ModelCard) -> None:
    """The CPU build gets a block size its kernels take and never most of the machine's memory."""
    found = engine_arguments(local, EngineOptions(), "cpu")
    assert found["load_format"] == "safetensors"  # pickled weights can run code when read

    assert (found["block_size"], found["enforce_eager"], found["dtype"]) == (32, True, "float32")
    assert 0 < found["kv_cache_memory_bytes"] <= 4 * 2**30
    assert engine_arguments(local, EngineOptions(kv_cache_bytes=12345), "cpu")["kv_cache_memory_bytes"] == 12345


@pytest.mark.parametrize(("cores", "binding", "is_one_process"), [(2, None, True), (2, "0", False), (32, None, False)])
def test_on_few_cores_the_model_computes_in_the_schedulers_process(
    local: ModelCard, monkeypatch: pytest.MonkeyPatch, cores: int, binding: str | None, is_one_process: bool
) -> None:
    """VLLM binds its worker to all cores but one, or to those that the operator names."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    monkeypatch.delenv("VLLM_CPU_OMP_THREADS_BIND", raising=False)
    if binding is not None:
        monkeypatch.setenv("VLLM_CPU_OMP_THREADS_BIND", binding)
    assert ("distributed_executor_backend" in engine_arguments(local, EngineOptions(), "cpu")) == is_one_process


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_cards_dtype_counts_where_the_options_say_nothing(local: ModelCard, device: str) -> None:
    """For a model whose skill hangs on it; a named one wins."""
    card = replace(local, dtype="float32")
    assert engine_arguments(card, EngineOptions(), device, roomy)["dtype"] == "float32"
    assert engine_arguments(card, EngineOptions(dtype="bfloat16"), device, roomy)["dtype"] == "bfloat16"


def test_cuda_takes_vllms_own_sizes(local: ModelCard) -> None:
    """On a GPU vLLM chooses blocks, cache, sequences and, by the checkpoint, the dtype."""
    found = engine_arguments(local, EngineOptions(), "cuda", roomy)

    assert not {"block_size", "enforce_eager", "kv_cache_memory_bytes", "max_num_seqs"} & found.keys()
    assert (found["dtype"], found["gpu_memory_utilization"]) == ("auto", DEFAULT_SHARE)
    bounded = engine_arguments(local, EngineOptions(kv_cache_bytes=2**30, max_num_seqs=7, max_queue=3), "cuda", roomy)
    assert (bounded["kv_cache_memory_bytes"], bounded["max_num_seqs"], bounded["max_num_queued_reqs"]) == (2**30, 7, 10)


def test_a_cpu_keeps_our_number_of_sequences(local: ModelCard) -> None:
    """vLLM would take 128 on a CPU; and no memory of a GPU is read."""

    def no_gpu(indices: Sequence[int]) -> Sequence[DeviceMemory]:
        raise AssertionError("a GPU was asked for its memory")

    found = engine_arguments(local, EngineOptions(), "cpu", no_gpu)
    assert found["max_num_seqs"] == 32 and "gpu_memory_utilization" not in found
    with pytest.raises(UnsupportedParam, match="tensor_parallel_size 2 needs GPUs"):
        engine_arguments(local, EngineOptions(tensor_parallel_size=2), "cpu", no_gpu)


def test_quantisation_and_adapters_reach_the_engine(local: ModelCard, tmp_path: Path) -> None:
    """A rank is rounded up to one that vLLM has buffers for; so many adapters share a batch, and all are held."""
    plain = engine_arguments(local, EngineOptions(), "cuda", roomy)
    assert not {"quantization", "enable_lora"} & plain.keys()

    (tmp_path / "adapter_config.json").write_text('{"r": 20}')
    adapters = (LoraAdapter("a", tmp_path), LoraAdapter("b", tmp_path / "without config"))
    options = EngineOptions(quantization="fp8", lora_adapters=adapters)
    found = engine_arguments(local, options, "cuda", roomy)
    assert found["quantization"] == "fp8"
    assert (found["enable_lora"], found["max_loras"], found["max_lora_rank"]) == (True, 2, 32)
    many = replace(options, lora_adapters=tuple(LoraAdapter(str(number), tmp_path) for number in range(20)))
    found = engine_arguments(local, many, "cuda", roomy)
    assert (found["max_loras"], found["max_cpu_loras"]) == (8, 20)
    (tmp_path / "adapter_config.json").write_text('{"r": 513}')
    with pytest.raises(UnsupportedParam, match="an adapter may have rank 512"):
        engine_arguments(local, options, "cuda", roomy)


@pytest.mark.vllm
def test_the_arguments_are_vllms_own(local: ModelCard, tmp_path: Path) -> None:
    """Each is a field of its engine's arguments; its default share and ranks are those that we know."""
    pytest.importorskip("vllm")
    from typing import get_args

    from vllm.config import CacheConfig
    from vllm.config.lora import MaxLoRARanks
    from vllm.engine.arg_utils import AsyncEngineArgs

    options = EngineOptions(
        device="cuda:1", tensor_parallel_size=2, quantization="fp8", lora_adapters=(LoraAdapter("a", tmp_path),)
    )
    found = engine_arguments(local, options, "cuda", roomy) | padding_arguments(100)
    fields = {one.name for one in dataclasses.fields(AsyncEngineArgs)}

    assert set(found) - fields == set()
    assert CacheConfig.gpu_memory_utilization == DEFAULT_SHARE
    assert get_args(MaxLoRARanks) == LORA_RANKS


def test_another_device_than_the_builds_own_is_refused(local: ModelCard) -> None:
    """Asking the CPU build for CUDA is said at once and not after a minute."""
    with pytest.raises(EngineUnavailable, match="cuda"):
        engine_arguments(local, EngineOptions(device="cuda:0"), "cpu")


def test_the_context_is_the_options_then_the_local_cards_then_the_models(local: ModelCard, remote: ModelCard) -> None:
    """Where only the model's config has one, vLLM fits it to the memory."""
    assert engine_arguments(local, EngineOptions(max_model_len=99), "cpu")["max_model_len"] == 99
    assert engine_arguments(local, EngineOptions(), "cpu")["max_model_len"] == 777
    assert engine_arguments(remote, EngineOptions(), "cpu")["max_model_len"] == FITTED == -1
    (Path(local.source) / "config.json").write_text('{"max_position_embeddings": 777}')
    assert engine_arguments(local, EngineOptions(), "cpu")["max_model_len"] == FITTED
    assert engine_arguments(replace(local, context_length=500), EngineOptions(), "cpu")["max_model_len"] == 500


@pytest.mark.parametrize(
    ("version", "is_tested"), [("0.32.0", True), ("0.32.1+cpu", True), ("0.26.0", False), ("0.33.0rc1", False)]
)
def test_a_range_of_releases_is_accepted(version: str, is_tested: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Any patch release and build; the log says of which the tests ran in full."""
    vllm_compat.check_version(version)
    assert ("signatures were checked" in caplog.text) is not is_tested


@pytest.mark.parametrize("version", ["0.25.1", "0.34.0", "0.320.0", "1.32.0", "dev"])
def test_another_release_is_refused_with_both_versions(version: str) -> None:
    """The message names what is installed and what is needed."""
    with pytest.raises(EngineUnavailable, match=r"vLLM .* is installed.*0\.32"):
        vllm_compat.check_version(version)


def test_no_vllm_at_all_says_how_to_get_it() -> None:
    """A machine without vLLM is told of the script and of the other engine."""
    with pytest.raises(EngineUnavailable, match="scripts/install"):
        vllm_compat.check_version(None)


@pytest.mark.parametrize(
    ("template", "given", "expected"),
    [
        (None, None, "qwen3"),
        (None, "deepseek_r1", "deepseek_r1"),
        (None, "", ""),
        ("{{ messages[0]['content'] + '<think>' }}", None, "qwen3"),
        ("{{ messages[0]['content'] }}", None, None),
    ],
)
def test_a_model_that_thinks_has_its_thoughts_read(
    tmp_path: Path, template: str | None, given: str | None, expected: str | None
) -> None:
    """By the template, which switches thinking on or opens it; the settings win, and tokens alone mean nothing."""
    families = runpy.run_path(str(Path(__file__).parents[4] / "family_models.py"))
    fast = families["build_tokenizer"](families["FAMILIES"]["qwen3"], tmp_path)
    if template is not None:
        fast.chat_template = template
    options = EngineOptions(reasoning_parser=given)

    assert with_reasoning_parser(options, HfTokenizer(fast)).reasoning_parser == expected


def test_end_tokens_are_added_to_a_request_of_vllms_own_layer() -> None:
    """To those that the client asked for, unless it ignores end tokens."""
    params = SimpleNamespace(ignore_eos=False, stop_token_ids=[9], all_stop_token_ids={9})
    ignoring = SimpleNamespace(ignore_eos=True, stop_token_ids=[9], all_stop_token_ids={9})
    for one in (params, ignoring):
        vllm_compat.add_end_tokens(one, {3, 4})

    assert (params.stop_token_ids, params.all_stop_token_ids) == ([3, 4, 9], {3, 4, 9})
    assert (ignoring.stop_token_ids, ignoring.all_stop_token_ids) == ([9], {9})


def test_drafts_are_looked_up_in_earlier_text(local: ModelCard) -> None:
    (Path(local.source) / "config.json").write_text('{"vocab_size": 300}')

    assert draft_arguments(local, 8, 300)["speculative_config"]["num_speculative_tokens"] == 8


@pytest.mark.parametrize("config", ['{"vocab_size": 320}', "{}", "no config"])
def test_drafts_are_refused_where_ids_without_a_token_could_be_sampled(local: ModelCard, config: str) -> None:
    """vLLM takes no logits processor beside drafts."""
    (Path(local.source) / "config.json").write_text(config)

    with pytest.raises(UnsupportedParam, match=r"^draft_tokens: vLLM cannot"):
        draft_arguments(local, 8, 300)


@pytest.mark.parametrize(
    ("cause", "message"),
    [
        ("ValueError: no float32 here", "the engine's process has ended: ValueError: no float32 here"),
        ("", "the engine's process has ended"),
    ],
)
def test_the_end_of_the_engines_process_is_told_with_its_cause(cause: str, message: str) -> None:
    pytest.importorskip("vllm")
    error = vllm_compat.translate(load("EngineDeadError")(), has_grammar=False, cause=cause)
    assert (type(error), error.message) == (EngineUnavailable, message)
