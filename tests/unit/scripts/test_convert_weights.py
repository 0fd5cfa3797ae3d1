"""Pickled weights made into safetensors once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from bert_models import build_bert
from safetensors.torch import load_file

from models.encoders.base import EncoderOptions, PassageText
from models.encoders.registry import create_cross_encoder
from models.errors import ENCODER_UNUSABLE, ModelNotFound
from scripts.convert_weights import Refused, convert, main

OPTIONS = EncoderOptions(device="cpu", dtype="float32")
PASSAGES = [PassageText("Aspirin", "in stroke"), PassageText("", "Sepsis")]


class RunsCode:
    """Unpickled carelessly, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


@pytest.fixture
def pickled(tmp_path: Path) -> Path:
    """A cross-encoder as MedCPT's is published, and its scores' weights beside it under another name."""
    folder = build_bert(tmp_path / "cross", labels=1)
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").rename(tmp_path / "original.safetensors")
    return folder


def test_a_refused_folder_gives_the_right_scores_once_converted(pickled: Path, tmp_path: Path) -> None:
    """The same tensors under the same names."""
    with pytest.raises(ModelNotFound, match="scripts/convert_weights", check=ENCODER_UNUSABLE.is_of):
        create_cross_encoder(str(pickled), OPTIONS)
    assert main([str(pickled)]) == 0

    converted = load_file(pickled / "model.safetensors")
    original = load_file(tmp_path / "original.safetensors")
    assert converted.keys() == original.keys()
    assert all(torch.equal(converted[name], original[name]) for name in original)
    assert np.isfinite(create_cross_encoder(str(pickled), OPTIONS).score("aspirin", PASSAGES)).all()


def test_code_in_the_file_is_not_run(pickled: Path, tmp_path: Path) -> None:
    """The file is refused, and nothing is written."""
    torch.save({"weight": RunsCode(tmp_path / "was-here")}, pickled / "pytorch_model.bin")

    with pytest.raises(Refused, match="not a file of plain tensors"):
        convert(pickled)
    assert not (tmp_path / "was-here").exists()
    assert {path.name for path in pickled.iterdir()}.isdisjoint({"model.safetensors", "model.part"})


def test_another_file_than_the_publishers_is_not_read(pickled: Path) -> None:
    """By its digest."""
    with pytest.raises(Refused, match="has the sha256"):
        convert(pickled, "0" * 64)


def test_existing_weights_are_kept(pickled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second run changes nothing and says so."""
    convert(pickled)

    assert main([str(pickled)]) == 1
    assert "exists already" in capsys.readouterr().err


@pytest.mark.parametrize("state", [[torch.ones(2)], {"a": torch.ones(2), "epoch": 3}])
def test_a_training_checkpoint_is_refused(pickled: Path, state: object) -> None:
    """Only named tensors are weights."""
    torch.save(state, pickled / "pytorch_model.bin")

    with pytest.raises(Refused, match="more than named tensors"):
        convert(pickled)


def test_a_cut_file_is_refused(pickled: Path) -> None:
    """A download that broke off."""
    raw = (pickled / "pytorch_model.bin").read_bytes()
    (pickled / "pytorch_model.bin").write_bytes(raw[: len(raw) // 2])

    with pytest.raises(Refused):
        convert(pickled)
