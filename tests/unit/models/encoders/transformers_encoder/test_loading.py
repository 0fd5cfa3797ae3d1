"""The own reading of BERT's files: the same bits as transformers, and the folders that it leaves to transformers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from models.encoders.base import EncoderOptions
from models.encoders.model_files import ModelFolder
from models.encoders.resolve import resolve_encoder
from models.encoders.texts import load_plain_tokenizer
from models.encoders.transformers_encoder.loading import load_plain_bert


def _folder() -> Path:
    return resolve_encoder("minilm", EncoderOptions()).query.path


def _copy(tmp_path: Path) -> Path:
    copy = tmp_path / "model"
    shutil.copytree(_folder(), copy)
    return copy


def _set(path: Path, **values: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("lengths", [(12, 12), (12, 5, 1)])
def test_vectors_are_those_of_transformers(dtype: torch.dtype, lengths: tuple[int, ...]) -> None:
    """Every bit is equal, with padding and without."""
    from transformers import AutoModel

    theirs = AutoModel.from_pretrained(_folder(), dtype=dtype, attn_implementation="sdpa").eval()
    ours = load_plain_bert(ModelFolder(_folder()), dtype)
    assert ours is not None
    width = max(lengths)
    ids = torch.randint(1000, 30_000, (len(lengths), width), generator=torch.Generator().manual_seed(1))
    mask = torch.tensor([[1] * length + [0] * (width - length) for length in lengths])
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": (ids % 2) * mask}

    with torch.inference_mode():
        assert torch.equal(ours.eval()(**inputs).last_hidden_state, theirs(**inputs).last_hidden_state)


def test_the_tokenizer_is_that_of_transformers() -> None:
    """The same steps, padding token and number of tokens."""
    from transformers import AutoTokenizer

    theirs, ours = AutoTokenizer.from_pretrained(_folder()), load_plain_tokenizer(_folder())

    assert ours is not None
    assert json.loads(ours.backend_tokenizer.to_str()) == json.loads(theirs.backend_tokenizer.to_str())
    assert (ours.pad_token_id, len(ours)) == (theirs.pad_token_id, len(theirs))
    assert list(ours.model_input_names) == list(theirs.model_input_names)


@pytest.mark.parametrize(
    "values", [{"hidden_act": "relu"}, {"model_type": "roberta"}, {"is_decoder": True}, {"num_hidden_layers": 7}]
)
@pytest.mark.weights
def test_another_form_is_left_to_transformers(tmp_path: Path, values: dict[str, object]) -> None:
    """Another activation, model, direction, or a layer that has no weights."""
    copy = _copy(tmp_path)
    _set(copy / "config.json", **values)

    assert load_plain_bert(ModelFolder(copy), torch.float32) is None


@pytest.mark.parametrize("values", [{"do_lower_case": False}, {"tokenizer_class": "RobertaTokenizer"}])
@pytest.mark.weights
def test_a_tokenizer_whose_files_differ_is_left_to_transformers(tmp_path: Path, values: dict[str, object]) -> None:
    """tokenizer_config.json says other than tokenizer.json."""
    copy = _copy(tmp_path)
    _set(copy / "tokenizer_config.json", **values)

    assert load_plain_tokenizer(copy) is None
