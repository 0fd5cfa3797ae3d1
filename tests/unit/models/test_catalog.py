"""Model cards: names, what is found on disk, and what is refused."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path

import pytest

from models.card import ModelCard
from models.catalog import (
    EMBEDDED_DIR,
    EMBEDDED_NAME,
    ModelRequest,
    card_from_request,
    derive_served_name,
    has_weights,
    load_catalog,
    verify_weights,
    vocabulary_size,
    with_adapter,
)
from models.errors import ModelNotFound
from models.verdicts import VerdictCalibration


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
        ("/models/SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2-135m"),
        ("Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf", "llama-3.1-8b"),
        ("qwen2.5-7b-instruct-fp16.gguf", "qwen2.5-7b"),
        ("Qwen3-8B-IQ2_XS.gguf", "qwen3-8b"),
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
    verify_weights(ModelCard(name="m", source=str(directory), weights_sha256={"model.safetensors": good}))
    (directory / "model.safetensors").write_bytes(b"weightz")

    with pytest.raises(ModelNotFound, match=r"model\.safetensors is damaged"):
        verify_weights(ModelCard(name="m", source=str(directory), weights_sha256={"model.safetensors": good}))


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


def _adapter(folder: Path, **facts: object) -> Path:
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text("{}")
    (folder / "adapter_model.safetensors").write_bytes(b"lora")
    if facts:
        (folder / "arrowhead.json").write_text(json.dumps(facts))
    return folder


def test_an_adapter_says_what_the_model_can_do_with_it(tmp_path: Path) -> None:
    """Its own facts replace the model's; without any, the model is taken for what it was."""
    card = ModelCard(name="m", source="x", gguf_sha256="a" * 64, trained_for=(), genegpt_mask="full")
    told = with_adapter(card, _adapter(tmp_path / "told", trained_for=["medrag"], genegpt_mask="000000"))
    assert (told.trained_for, told.genegpt_mask, told.adapter) == (("medrag",), "000000", tmp_path / "told")
    silent = with_adapter(card, _adapter(tmp_path / "silent"))
    assert (silent.trained_for, silent.genegpt_mask) == ((), "full") and "silent" in silent.description
    with pytest.raises(ModelNotFound, match="trained over other weights than those of m"):
        with_adapter(card, _adapter(tmp_path / "other", base_gguf_sha256="b" * 64))
    with pytest.raises(ModelNotFound, match=r"holds no LoRA adapter: it needs adapter_config\.json and"):
        with_adapter(card, tmp_path)


def test_an_adapter_says_how_the_model_reasons(tmp_path: Path) -> None:
    """An adapter that does not say it leaves what the model's card says; a wrong value is refused by name."""
    own = VerdictCalibration((1.0,) * 5, (-1.0,) * 5, 0.4, 0.8)
    card = ModelCard(name="m", source="x", verdicts=own)
    assert with_adapter(card, _adapter(tmp_path / "silent", trained_for=[])).verdicts == own
    assert with_adapter(card, _adapter(tmp_path / "not", verdicts=None)).verdicts is None
    other = {"yes": [2, 0, 0, 0, 1], "no": [0, 0, 0, 0, 0], "given": 0.5, "sure": 0.9}
    stated = with_adapter(card, _adapter(tmp_path / "other", verdicts=other)).verdicts
    assert stated == VerdictCalibration((2.0, 0.0, 0.0, 0.0, 1.0), (0.0,) * 5, 0.5, 0.9)
    for number, wrong in enumerate([True, {"yes": [1]}, {**other, "no": [1]}, {**other, "given": 0.95}]):
        with pytest.raises(ModelNotFound, match=r"verdicts is \{\"yes\": \[5 numbers\]"):
            with_adapter(card, _adapter(tmp_path / f"wrong-{number}", verdicts=wrong))


def test_a_damaged_adapter_is_found(tmp_path: Path) -> None:
    good = hashlib.sha256(b"lora").hexdigest()
    folder = _adapter(tmp_path / "a", weights_sha256={"adapter_model.safetensors": good})
    card = with_adapter(ModelCard(name="m", source="x"), folder)
    verify_weights(card)
    (folder / "adapter_model.safetensors").write_bytes(b"lorb")
    with pytest.raises(ModelNotFound, match=r"adapter_model\.safetensors is damaged"):
        verify_weights(card)


def test_a_shipped_adapter_is_loaded_where_it_is_present(tmp_path: Path) -> None:
    """The first one that is; a model without one is served as it is."""
    tiny = make_model(tmp_path / "tiny")
    folders = (tmp_path / "absent", _adapter(tmp_path / "here", trained_for=["medrag"]))
    card = load_catalog(embedded_dir=tiny, adapters={EMBEDDED_NAME: folders})[EMBEDDED_NAME]
    assert (card.adapter, card.trained_for) == (folders[1], ("medrag",))
    assert load_catalog(embedded_dir=tiny, adapters={})[EMBEDDED_NAME].adapter is None


def test_a_shipped_adapter_that_suffices_for_no_method_is_left_out(tmp_path: Path) -> None:
    """It can still be named; one that does not say what it was trained for is loaded."""
    tiny = make_model(tmp_path / "tiny")
    unready = _adapter(tmp_path / "unready", trained_for=[])
    silent = _adapter(tmp_path / "silent", description="says nothing")
    for folders, loaded in (((unready,), None), ((unready, silent), silent)):
        card = load_catalog(embedded_dir=tiny, adapters={EMBEDDED_NAME: folders})[EMBEDDED_NAME]
        assert card.adapter == loaded


@pytest.mark.parametrize("name", ["pytorch_model.bin", "pytorch_model-00001-of-00002.bin", "model.pt", "weights.pkl"])
def test_pickled_weights_are_refused_by_name(tmp_path: Path, name: str) -> None:
    """Before anything opens them: the file is a pipe, which would hold whoever reads it."""
    for other in ("config.json", "tokenizer.json"):
        (tmp_path / other).write_text("{}")
    os.mkfifo(tmp_path / name)

    with pytest.raises(ModelNotFound, match=rf"only as {re.escape(name)}.*scripts/convert_weights") as refused:
        card_from_request(ModelRequest(source=str(tmp_path)))
    assert not has_weights(tmp_path) and "can run code" in refused.value.message
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    assert card_from_request(ModelRequest(source=str(tmp_path))).source == str(tmp_path)


def test_a_config_of_endless_depth_is_refused(tmp_path: Path) -> None:
    """With a reason, not with the end of the server."""
    (tmp_path / "config.json").write_text('{"a":' * 20_000 + "1" + "}" * 20_000)
    for other in ("tokenizer.json", "model.safetensors"):
        (tmp_path / other).write_text("{}")

    with pytest.raises(ModelNotFound, match=r"config\.json cannot be read"):
        card_from_request(ModelRequest(source=str(tmp_path)))


def test_the_vocabulary_of_a_folder_without_config_is_unknown(tmp_path: Path) -> None:
    assert vocabulary_size(str(tmp_path)) is None
    for config, size in (('{"text_config": {"vocab_size": 7}}', 7), ('{"vocab_size": 8}', 8), ("{}", None)):
        (tmp_path / "config.json").write_text(config)
        assert vocabulary_size(str(tmp_path)) == size
