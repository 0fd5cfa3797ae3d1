"""A verifier keeps the order of its pairs, is what its card says, and refuses a folder that is not whole."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bert_models import build_bert
from safetensors.torch import save_file

from models.encoders.base import EncoderOptions
from models.encoders.model_files import ModelFolder
from models.errors import ENCODER_UNUSABLE, ModelNotFound
from models.verifiers.base import OperatingPoints, Pair
from models.verifiers.cross_encoder import (
    CARD,
    SCALE,
    WEIGHTS,
    WORDS,
    Calibration,
    CrossEncoderVerifier,
    base_network,
    probabilities,
    quantised,
    read_card,
)

OPTIONS = EncoderOptions(device="cpu", dtype="float32", threads=1)
PAIRS = [
    Pair("Does furosemide cause hypokalaemia?", "Furosemide can cause hypokalaemia."),
    Pair("Which gene is mutated in Krabbe disease?", "Whipple disease is treated with ceftriaxone. " * 30),
    Pair("", ""),
    Pair("How is scurvy treated?", "Scurvy. It is treated with ascorbic acid."),
]
POINTS = {"quote": 0.5, "answer": 0.6, "verdict": 0.7, "label": 0.4, "screen": 0.1}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    return ModelFolder(build_bert(tmp_path_factory.mktemp("base")), "tiny")


@pytest.fixture(scope="module")
def weights(base: ModelFolder) -> dict[str, torch.Tensor]:
    """As training would leave them: not the base's own."""
    network = base_network(base)
    generator = torch.Generator().manual_seed(3)
    return {
        name: one.detach() + 0.3 * torch.randn(one.shape, generator=generator)
        for name, one in network.named_parameters()
        if name != WORDS
    }


def written(folder: Path, weights: Mapping[str, torch.Tensor], **changes: Any) -> Path:
    save_file(quantised(dict(weights)), folder / WEIGHTS)
    card = {
        "name": "tiny-verifier",
        "temperatures": {"relevance": 2.0, "verdict": 0.5},
        "told": [0.5, 0.0],
        "points": {name: {"bar": bar} for name, bar in POINTS.items()},
        "weights_sha256": hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest(),
    }
    (folder / CARD).write_text(json.dumps({**card, **changes}))
    return folder


@pytest.fixture
def verifier(tmp_path: Path, base: ModelFolder, weights: Mapping[str, torch.Tensor]) -> CrossEncoderVerifier:
    return CrossEncoderVerifier(written(tmp_path, weights), OPTIONS, base)


def test_a_pair_is_judged_alike_alone_and_in_a_batch(verifier: CrossEncoderVerifier) -> None:
    """Whatever stands beside it, and in the order of the pairs."""
    together = verifier.judge(PAIRS)
    alone = [verifier.judge([pair])[0] for pair in PAIRS]
    for one, other in zip(together, alone, strict=True):
        assert one.relevance == pytest.approx(other.relevance, abs=1e-5)
        assert one.supports == pytest.approx(other.supports, abs=1e-5)
        assert one.contradicts == pytest.approx(other.contradicts, abs=1e-5)
    assert len({round(one.supports, 6) for one in together}) == len(PAIRS)


def test_probabilities_are_probabilities(verifier: CrossEncoderVerifier) -> None:
    for one in verifier.judge(PAIRS):
        assert 0 <= one.relevance <= 1
        assert min(one.supports, one.contradicts, one.neither) >= 0
        assert one.supports + one.contradicts + one.neither == pytest.approx(1)


def test_no_pairs_give_no_judgements(verifier: CrossEncoderVerifier) -> None:
    assert verifier.judge([]) == []


def test_name_and_points_are_those_of_the_card(verifier: CrossEncoderVerifier) -> None:
    assert verifier.name == "tiny-verifier"
    assert verifier.points == OperatingPoints(**POINTS)


def test_a_higher_temperature_makes_less_sure_and_keeps_the_order() -> None:
    logits = np.array([[2.0, 3.0, 0.0, -1.0], [-1.0, 0.0, 2.0, 1.0]], np.float32)
    told = (0.5, 0.0)
    sure, unsure = (probabilities(logits, Calibration(heat, heat, told)) for heat in (1.0, 3.0))
    assert sure[0].relevance > unsure[0].relevance > 0.5 > unsure[1].relevance > sure[1].relevance
    assert sure[0].supports > unsure[0].supports > unsure[0].contradicts
    assert sure[1].contradicts > unsure[1].contradicts > unsure[1].supports
    assert sure[0].neither == pytest.approx(unsure[0].neither)


def test_stored_weights_are_near_the_trained_ones(weights: Mapping[str, torch.Tensor]) -> None:
    """An eighth of a float64's bits is enough: no number is further off than half a level of its row."""
    stored = quantised(dict(weights))
    name = "bert.encoder.layer.0.intermediate.dense.weight"
    assert stored[name].dtype == torch.int8
    restored = stored[name].float() * stored[name + SCALE]
    assert bool(((restored - weights[name]).abs() <= 0.51 * stored[name + SCALE]).all())
    assert stored["heads.verdict.weight"].dtype == torch.float16


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weights_sha256": "0"}, "not the one"),
        ({"temperatures": {"relevance": 0.0, "verdict": 1.0}}, "not above 0"),
        ({"points": {"quote": {"bar": 0.5}}}, "missing"),
        ({"name": ""}, "no name"),
    ],
)
def test_a_card_that_does_not_fit_is_refused(
    tmp_path: Path, base: ModelFolder, weights: Mapping[str, torch.Tensor], changes: dict[str, Any], message: str
) -> None:
    folder = written(tmp_path, weights, **changes)
    with pytest.raises(ModelNotFound, match=message):
        CrossEncoderVerifier(folder, OPTIONS, base)


def test_weights_that_lack_a_layer_are_refused(
    tmp_path: Path, base: ModelFolder, weights: Mapping[str, torch.Tensor]
) -> None:
    fewer = {name: one for name, one in weights.items() if "layer.1." not in name}
    with pytest.raises(ModelNotFound, match=r"layer\.1"):
        CrossEncoderVerifier(written(tmp_path, fewer), OPTIONS, base)


def test_a_folder_without_a_card_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="no usable verifier"):
        read_card(tmp_path)


def test_a_base_of_another_form_is_refused(tmp_path: Path) -> None:
    folder = build_bert(tmp_path / "base")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "hidden_act": "relu"}))
    with pytest.raises(ModelNotFound, match="original form", check=ENCODER_UNUSABLE.is_of):
        base_network(ModelFolder(folder, "odd"))
