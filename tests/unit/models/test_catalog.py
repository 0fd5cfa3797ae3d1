"""Model cards: names, what is found on disk, and what is refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from models.catalog import (
    EMBEDDED_DIR,
    EMBEDDED_NAME,
    ModelCard,
    ModelRequest,
    card_from_request,
    derive_served_name,
    has_weights,
    load_catalog,
)
from models.errors import ModelNotFound


def make_model(directory: Path, *, context: int = 2048, chat: bool = False) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps({"max_position_embeddings": context}))
    (directory / "tokenizer.json").write_text("{}")
    (directory / "model.safetensors").write_bytes(b"weights")
    if chat:
        (directory / "chat_template.jinja").write_text("{{ messages }}")
    return directory


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("meta-llama/Meta-Llama-3-8B-Instruct", "llama-3-8b"),
        ("google/gemma-2-9b-it", "gemma-2-9b"),
        ("Qwen/Qwen3-8B", "qwen3-8b"),
        ("/models/My Model:v2/", "my-model-v2"),
    ],
)
def test_friendly_name_is_short_and_can_stand_before_a_colon(source: str, name: str) -> None:
    """The served name leaves out the owner and the tuning, and holds no colon."""
    assert derive_served_name(source) == name


def test_embedded_model_is_listed_only_where_its_files_are(tmp_path: Path) -> None:
    """No files, no card; no error either."""
    assert load_catalog(embedded_dir=tmp_path / "absent") == {}
    card = load_catalog(embedded_dir=make_model(tmp_path / "tiny"))[EMBEDDED_NAME]

    assert (card.source, card.context_length, card.prompt_form) == (str(tmp_path / "tiny"), 2048, "base")


def test_embedded_card_takes_its_facts_from_the_file_beside_the_weights(tmp_path: Path) -> None:
    """Licence, description, mask and digests come from arrowhead.json."""
    directory = make_model(tmp_path / "tiny")
    (directory / "arrowhead.json").write_text(json.dumps({"licence": "MIT", "genegpt_mask": "001001"}))
    card = load_catalog(embedded_dir=directory)[EMBEDDED_NAME]

    assert (card.licence, card.genegpt_mask) == ("MIT", "001001")


def test_card_of_a_directory_reads_the_context_and_leaves_the_prompt_form_to_the_tokenizer(tmp_path: Path) -> None:
    """What the files say is taken; the form that the request names is kept."""
    directory = make_model(tmp_path / "Some-Model-Instruct", context=8192, chat=True)
    cards = load_catalog(
        [ModelRequest(source=str(directory)), ModelRequest(source=str(directory), served_name="b", prompt_form="base")],
        embedded_dir=tmp_path / "absent",
    )

    assert list(cards) == ["some-model", "b"]
    assert (cards["some-model"].context_length, cards["some-model"].prompt_form) == (8192, None)
    assert cards["b"].prompt_form == "base"


def test_hub_id_needs_no_files_and_is_not_downloaded_by_default() -> None:
    """A hub id makes a card; fetching it must be allowed explicitly, and its name does not say whether it chats."""
    sources = ("meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-8B", "microsoft/phi-4", "aaditya/OpenBioLLM-8B")
    cards = load_catalog([ModelRequest(source=source) for source in sources])
    assert {cards[name].prompt_form for name in ("llama-3.1-8b", "qwen3-8b", "phi-4", "openbiollm-8b")} == {None}
    card = cards["llama-3.1-8b"]

    assert (card.is_local, card.allow_download) == (False, False)


@pytest.mark.parametrize("source", ["/no/such/directory", "not a model", "three/part/name"])
def test_source_that_is_nothing_is_refused(source: str) -> None:
    """Neither a directory nor a hub id: ModelNotFound with the source in the text."""
    with pytest.raises(ModelNotFound, match=source):
        load_catalog([ModelRequest(source=source)])


def test_directory_without_weights_is_refused(tmp_path: Path) -> None:
    """An empty directory is not a model."""
    with pytest.raises(ModelNotFound, match="holds no model"):
        load_catalog([ModelRequest(source=str(tmp_path))])


def test_two_models_cannot_share_a_name(tmp_path: Path) -> None:
    """The second model of one name is refused, not silently dropped."""
    directory = make_model(tmp_path / "m")

    with pytest.raises(ModelNotFound, match="two models"):
        load_catalog([ModelRequest(source=str(directory)), ModelRequest(source=str(directory))])


def test_damaged_weights_are_found(tmp_path: Path) -> None:
    """A digest that does not fit names the file."""
    directory = make_model(tmp_path / "m")
    good = hashlib.sha256(b"weights").hexdigest()
    ModelCard(name="m", source=str(directory), weights_sha256={"model.safetensors": good}).verify_weights()
    (directory / "model.safetensors").write_bytes(b"weightz")

    with pytest.raises(ModelNotFound, match=r"model\.safetensors is damaged"):
        ModelCard(name="m", source=str(directory), weights_sha256={"model.safetensors": good}).verify_weights()


@pytest.mark.parametrize("mask", ["", "fulll", "0101", "012345"])
def test_impossible_mask_is_refused(mask: str) -> None:
    """A mask is full, slim or six binary digits."""
    with pytest.raises(ValueError, match="genegpt_mask"):
        ModelCard(name="m", source="x", genegpt_mask=mask)


def test_the_embedded_model_says_what_it_was_trained_for() -> None:
    """So that other methods over it can be told apart from answers."""
    if not has_weights(EMBEDDED_DIR):
        pytest.skip("the embedded model's weights are not in the checkout")
    assert load_catalog()[EMBEDDED_NAME].trained_for == ("genegpt",)


def test_a_model_directory_may_say_what_it_was_trained_for(tmp_path: Path) -> None:
    """A model without such a file can write for every method."""
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (tmp_path / name).write_text("{}")
    general = card_from_request(ModelRequest(source=str(tmp_path)))
    (tmp_path / "arrowhead.json").write_text('{"trained_for": ["medrag"]}')
    trained = card_from_request(ModelRequest(source=str(tmp_path)))
    assert general.writes("genegpt") and general.writes("medrag")
    assert trained.writes("medrag") and not trained.writes("genegpt")
    (tmp_path / "arrowhead.json").write_text('{"trained_for": "medrag"}')
    with pytest.raises(ModelNotFound, match="trained_for is a list"):
        card_from_request(ModelRequest(source=str(tmp_path)))
