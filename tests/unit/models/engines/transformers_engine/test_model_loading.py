"""In which numbers a model is loaded, and on which layers it runs."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from models.card import ModelCard
from models.catalog import load_catalog
from models.engines.base import EngineOptions
from models.engines.transformers_engine.model_loading import (
    LoadedModel,
    chosen_dtype,
    held_length,
    load_model,
    merge_adapter,
)
from models.errors import EngineUnavailable
from models.torch_runtime.devices import cpu_has_bfloat16
from models.torch_runtime.layers import PackedLinear
from models.types import Dtype
from tests.tiny_models import build_adapter


@pytest.fixture(scope="module", params=["float32", "bfloat16"])
def saved(request: pytest.FixtureRequest, tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / str(request.param)
    shutil.copytree(tiny_llama, folder)
    config = json.loads((folder / "config.json").read_text())
    config.pop("torch_dtype", None)
    (folder / "config.json").write_text(json.dumps(config | {"dtype": request.param}))
    return folder


def _loaded(folder: Path, dtype: Dtype) -> LoadedModel:
    card = ModelCard(name="tiny", source=str(folder), context_length=512)
    return load_model(card, EngineOptions(dtype=dtype, device="cpu"))


@pytest.mark.parametrize(
    ("saved", "has", "expected"),
    [
        (torch.bfloat16, True, torch.bfloat16),
        (torch.bfloat16, False, torch.float32),
        (torch.float32, True, torch.float32),
        (torch.float16, True, torch.float32),
        (None, True, torch.float32),
    ],
)
def test_auto_takes_bfloat16_where_the_weights_and_the_processor_have_it(
    saved: torch.dtype | None, has: bool, expected: torch.dtype
) -> None:
    """A model of 8 billion weights then takes 16 GB instead of 32; one that was trained in float32 stays exact."""
    assert chosen_dtype("auto", torch.device("cpu"), saved, cpu_bfloat16=has) is expected


def test_auto_follows_the_files(saved: Path) -> None:
    """As config.json names their dtype."""
    half = saved.name == "bfloat16" and cpu_has_bfloat16()
    assert _loaded(saved, "auto").shape.dtype is (torch.bfloat16 if half else torch.float32)


@pytest.mark.weights
def test_the_embedded_model_computes_in_float32() -> None:
    """Its files are bfloat16, to be small; heads that look back an exact number of tokens need more digits."""
    card = load_catalog()["arrowhead-tiny"]
    assert load_model(card, EngineOptions(device="cpu")).shape.dtype is torch.float32
    assert load_model(card, EngineOptions(device="cpu", dtype="bfloat16")).shape.dtype is torch.bfloat16


def test_an_adapter_is_part_of_the_weights(tiny_llama: Path, tmp_path: Path) -> None:
    """The logits are those of the sum, in the packed layers that are served."""
    from transformers import AutoModelForCausalLM

    adapter = build_adapter(tmp_path / "adapter")
    card = ModelCard(name="tiny", source=str(tiny_llama), context_length=512)
    ids = torch.tensor([[5, 6, 7]])
    with torch.inference_mode():
        loaded = load_model(replace(card, adapter=adapter), EngineOptions(dtype="float32", device="cpu"))
        model = AutoModelForCausalLM.from_pretrained(tiny_llama, dtype=torch.float32)
        plain = model(input_ids=ids).logits[:, -1]
        merge_adapter(model, adapter)
        mask = torch.full((1, 1, 3, 3), float("-inf")).triu(1)
        found = loaded.model(input_ids=ids, attention_mask=mask).logits[:, -1]
        torch.testing.assert_close(found, model(input_ids=ids).logits[:, -1], rtol=1e-3, atol=1e-3)
    assert not torch.allclose(found, plain, atol=1e-2)


@pytest.mark.parametrize(("dtype", "expected"), [("float32", torch.float32), ("bfloat16", torch.bfloat16)])
def test_a_named_dtype_is_taken_whatever_is_saved(saved: Path, dtype: Dtype, expected: torch.dtype) -> None:
    """The setting wins."""
    assert _loaded(saved, dtype).shape.dtype is expected


def test_the_memory_bounds_the_context(caplog: pytest.LogCaptureFixture) -> None:
    """One sequence may fill it alone; the log says what is lost, and without any memory nothing is served."""
    assert held_length("phi", 131_072, 500_000) == 131_072
    assert not caplog.records
    assert held_length("phi", 131_072, 40_000) == 40_000
    assert "memory holds 40000 tokens of the context of 131072 model=phi" in caplog.text
    with pytest.raises(EngineUnavailable, match="no memory"):
        held_length("phi", 131_072, 1)


@pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(),  # type: ignore[no-untyped-call]
    reason="torch has no oneDNN here",
)
def test_on_a_processor_the_linear_layers_are_packed(tiny_llama: Path) -> None:
    """All of them, the head too: decoding reads every weight at each step."""
    model = _loaded(tiny_llama, "float32").model
    plain = [name for name, layer in model.named_modules() if type(layer) is torch.nn.Linear]
    assert not plain
    assert isinstance(model.lm_head, PackedLinear)
