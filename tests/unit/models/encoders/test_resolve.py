"""What a sentence-transformers folder says of its vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bert_models import TEXTS, build_sentence_folder, minilm_folder, write_json

from models.catalog import disable_hub_access
from models.encoders.base import EncoderOptions, PassageText
from models.encoders.model_files import ModelFolder
from models.encoders.registry import create_encoder
from models.encoders.resolve import max_tokens, read_modules, spec_from_folder
from models.encoders.specs import EncoderSpec
from models.errors import ENCODER_UNUSABLE, ModelNotFound

EXACT = EncoderOptions(device="cpu", dtype="float32", batch_tokens=600)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return build_sentence_folder(tmp_path / "sentence-bert", "cls", prompts={"query": "q: ", "passage": "p: "})


def spec_of(folder: Path) -> EncoderSpec:
    return spec_from_folder(str(folder), ModelFolder(folder))


def test_everything_is_read_from_the_folders_own_files(folder: Path) -> None:
    """Pooling, length, prompts; cosine, the library's own default, is the inner product of unit vectors."""
    spec = spec_of(folder)

    assert (spec.pooling, spec.normalise, spec.metric) == ("cls", True, "inner_product")
    assert (spec.max_query, spec.max_passage) == (128, 128)
    assert spec.prefixes == ("q: ", "p: ")
    assert spec.name == "sentence-bert"


def test_the_known_default_agrees_with_its_own_files() -> None:
    """The table's entry for all-MiniLM-L6-v2 is what its package says."""
    modules = read_modules(minilm_folder())

    assert modules is not None
    assert (modules.pooling, modules.normalise) == ("mean", True)
    assert max_tokens(minilm_folder()) == 256


@pytest.mark.parametrize(
    ("pooling", "said"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}, "mean"),
        ({"pooling_mode": ["mean"]}, "mean"),
    ],
)
def test_older_and_newer_poolings_are_read(folder: Path, pooling: dict[str, Any], said: str) -> None:
    """One switch per kind, or one name."""
    write_json(folder / "1_Pooling" / "config.json", pooling)

    assert spec_of(folder).pooling == said


@pytest.mark.parametrize(
    "pooling", [{}, {"pooling_mode": "max"}, {"pooling_mode": ["cls", "mean"]}, {"pooling_mode_lasttoken": True}]
)
def test_other_poolings_are_refused(folder: Path, pooling: dict[str, Any]) -> None:
    """Also none and two of them."""
    write_json(folder / "1_Pooling" / "config.json", pooling)

    with pytest.raises(ModelNotFound, match="only cls or mean", check=ENCODER_UNUSABLE.is_of):
        spec_of(folder)


@pytest.mark.parametrize(
    ("similarity", "metric", "normalise"),
    [("cosine", "inner_product", True), ("dot", "inner_product", False), ("euclidean", "l2", False)],
)
def test_the_comparison_decides_metric_and_length(folder: Path, similarity: str, metric: str, normalise: bool) -> None:
    """Of a folder without a Normalize step."""
    write_json(folder / "config_sentence_transformers.json", {"similarity_fn_name": similarity})

    assert (spec_of(folder).metric, spec_of(folder).normalise) == (metric, normalise)


def test_a_comparison_that_no_index_does_is_refused(folder: Path) -> None:
    """Manhattan distance."""
    write_json(folder / "config_sentence_transformers.json", {"similarity_fn_name": "manhattan"})

    with pytest.raises(ModelNotFound, match="manhattan", check=ENCODER_UNUSABLE.is_of):
        spec_of(folder)


@pytest.mark.parametrize("kinds", [["Transformer"], ["Transformer", "Pooling", "Dense"], ["StaticEmbedding"]])
def test_other_steps_are_refused_by_name(folder: Path, kinds: list[str]) -> None:
    """A dense layer left out would give vectors of the right shape and no meaning."""
    steps = [{"idx": i, "path": f"{i}", "type": f"sentence_transformers.models.{kind}"} for i, kind in enumerate(kinds)]
    write_json(folder / "modules.json", steps)

    with pytest.raises(ModelNotFound, match=kinds[-1], check=ENCODER_UNUSABLE.is_of):
        spec_of(folder)


def test_steps_outside_the_folder_are_refused(folder: Path) -> None:
    """A path is data of whoever made the folder."""
    write_json(folder / "modules.json", [{"idx": 0, "path": "../other", "type": "a.Transformer"}])

    with pytest.raises(ModelNotFound, match="points outside", check=ENCODER_UNUSABLE.is_of):
        spec_of(folder)


def test_prompts_left_out_of_the_pooling_are_refused(folder: Path) -> None:
    """INSTRUCTOR does so; averaging them in would be another vector."""
    write_json(folder / "1_Pooling" / "config.json", {"pooling_mode": "mean", "include_prompt": False})

    with pytest.raises(ModelNotFound, match="prompts", check=ENCODER_UNUSABLE.is_of):
        spec_of(folder)


def test_a_missing_pooling_file_is_named(folder: Path) -> None:
    """Not taken for the mean."""
    (folder / "1_Pooling" / "config.json").unlink()

    with pytest.raises(ModelNotFound, match="1_Pooling"):
        spec_of(folder)


@pytest.mark.parametrize(
    ("config", "own", "tokenizer", "expected"),
    [
        ({"max_position_embeddings": 512}, {"max_seq_length": 350}, {}, 350),
        ({"max_position_embeddings": 512}, {"max_seq_length": None}, {"model_max_length": 100}, 100),
        ({"max_position_embeddings": 512}, {}, {"model_max_length": 1e30}, 512),
        ({"max_position_embeddings": 512}, {"max_seq_length": 1024}, {}, 512),
        ({"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1}, {}, {}, 512),
    ],
)
def test_the_length_is_the_least_of_what_is_said(
    tmp_path: Path, config: dict[str, Any], own: dict[str, Any], tokenizer: dict[str, Any], expected: int
) -> None:
    """RoBERTa's table has two places that no token gets."""
    write_json(tmp_path / "config.json", config)
    write_json(tmp_path / "sentence_bert_config.json", own)
    write_json(tmp_path / "tokenizer_config.json", tokenizer)

    assert max_tokens(tmp_path) == expected


def test_a_folder_without_any_length_is_refused(tmp_path: Path) -> None:
    """Relative positions have no end, and texts would have none."""
    write_json(tmp_path / "config.json", {})

    with pytest.raises(ModelNotFound, match="how many tokens", check=ENCODER_UNUSABLE.is_of):
        max_tokens(tmp_path)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_vectors_equal_those_of_sentence_transformers(tmp_path: Path, pooling: str) -> None:
    """For a folder that the library itself wrote, with prompts for queries and passages."""
    # The library looks its model card's base up at the hub, unless another test of this process has put it offline.
    disable_hub_access()
    from sentence_transformers import SentenceTransformer

    settings = {"prompts": {"query": "query: ", "document": "passage: "}, "similarity_fn_name": "dot"}
    SentenceTransformer(str(build_sentence_folder(tmp_path / "old", pooling, **settings)), device="cpu").save(
        str(tmp_path / "new")
    )
    theirs = SentenceTransformer(str(tmp_path / "new"), device="cpu")
    ours = create_encoder(str(tmp_path / "new"), EXACT)

    np.testing.assert_allclose(ours.encode_queries(TEXTS), theirs.encode_query(list(TEXTS)), atol=1e-5)
    passages = [PassageText("", text) for text in TEXTS]
    np.testing.assert_allclose(ours.encode_passages(passages), theirs.encode_document(list(TEXTS)), atol=1e-4)
    assert ours.fingerprint.max_passage == 128


def test_texts_are_put_in_small_letters_where_the_folder_says_so(folder: Path) -> None:
    """And the file that says so is part of the fingerprint."""
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 128, "do_lower_case": True})

    assert spec_of(folder).lower
    assert "sentence_bert_config.json" in dict(create_encoder(str(folder), EXACT).fingerprint.sha256)
