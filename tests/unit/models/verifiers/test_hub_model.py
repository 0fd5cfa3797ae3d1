"""Classifiers of Hugging Face's form as verifiers: what their labels mean, and which folders are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bert_models import build_bert
from safetensors.numpy import load_file, save_file

from models.encoders.base import EncoderOptions
from models.encoders.model_files import ModelFolder
from models.errors import ENCODER_UNUSABLE, ModelNotFound
from models.verifiers.base import Judgement, Pair
from models.verifiers.hub_model import DEFAULT_BAR, HubVerifier, LabelPlaces, label_places

OPTIONS = EncoderOptions(device="cpu", dtype="float32")
PAIR = Pair("Aspirin lowers the risk of stroke.", "In the trial aspirin lowered the risk of stroke.")


@pytest.mark.parametrize(
    ("names", "places"),
    [
        (["contradiction", "entailment", "neutral"], LabelPlaces(1, 0)),
        (["ENTAILMENT", "NEUTRAL", "CONTRADICTION"], LabelPlaces(0, 2)),
        (["SUPPORTS", "REFUTES", "NOT ENOUGH INFO"], LabelPlaces(0, 1)),
        (["entailment", "not_entailment"], LabelPlaces(0)),
        (["supported", "hallucinated"], LabelPlaces(0)),
        (["LABEL_0", "LABEL_1"], LabelPlaces(1)),
        (["LABEL_0"], LabelPlaces(0)),
    ],
)
def test_labels_mean_what_their_names_say(names: list[str], places: LabelPlaces) -> None:
    """MiniCheck has two without names, the second for supported; some models have one number."""
    assert label_places(dict(enumerate(names))) == places


@pytest.mark.parametrize("names", [["LABEL_0", "LABEL_1", "LABEL_2"], ["a", "contradiction"], ["entails", "entailed"]])
def test_labels_that_leave_it_open_are_refused(names: list[str]) -> None:
    with pytest.raises(ModelNotFound, match="id2label", check=ENCODER_UNUSABLE.is_of):
        label_places(dict(enumerate(names)))


def load(folder: Path, bar: float = DEFAULT_BAR) -> HubVerifier:
    return HubVerifier(ModelFolder(folder), folder.name, OPTIONS, bar)


def judged(folder: Path) -> Judgement:
    return load(folder).judge([PAIR])[0]


@pytest.mark.weights
def test_the_order_of_the_labels_changes_nothing(tmp_path: Path) -> None:
    """The same weights with the names of two labels exchanged give the two numbers exchanged."""
    one = judged(build_bert(tmp_path / "one", names=("contradiction", "entailment", "neutral")))
    other = judged(build_bert(tmp_path / "other", names=("entailment", "contradiction", "neutral")))

    assert (one.supports, one.contradicts) == pytest.approx((other.contradicts, other.supports))
    assert one.relevance == pytest.approx(one.supports + one.contradicts)
    assert abs(one.supports - one.contradicts) > 1e-3


@pytest.mark.weights
@pytest.mark.parametrize("labels", [1, 2])
def test_a_model_that_only_supports_never_contradicts(tmp_path: Path, labels: int) -> None:
    one = judged(build_bert(tmp_path / "model", labels=labels))

    assert (one.contradicts, one.relevance) == (0.0, one.supports)
    assert 0.0 < one.supports < 1.0


@pytest.mark.weights
def test_premise_and_claim_are_read_in_the_order_of_an_nli(tmp_path: Path) -> None:
    """So that exchanging them gives other numbers; the bar is that of the settings."""
    folder = build_bert(tmp_path / "model", names=("contradiction", "entailment", "neutral"))
    verifier = load(folder, bar=0.8)
    there, back = verifier.judge([PAIR, Pair(PAIR.evidence, PAIR.query)])

    assert there.supports != pytest.approx(back.supports, abs=1e-6)
    assert (verifier.name, verifier.points.verdict, verifier.points.label) == ("model", 0.8, 0.8)


@pytest.mark.weights
def test_folders_that_would_judge_at_random_are_refused(tmp_path: Path) -> None:
    """An encoder without a classifier, one that labels tokens, and one whose classifier is not in its files."""
    plain = build_bert(tmp_path / "plain")
    with pytest.raises(ModelNotFound, match="architecture BertModel", check=ENCODER_UNUSABLE.is_of):
        load(plain)

    headless = build_bert(tmp_path / "headless", names=("contradiction", "entailment", "neutral"))
    weights = headless / "model.safetensors"
    kept = {name: tensor for name, tensor in load_file(weights).items() if not name.startswith("classifier")}
    save_file(kept, weights, metadata={"format": "pt"})
    with pytest.raises(ModelNotFound, match=r"not in its files: classifier\.bias", check=ENCODER_UNUSABLE.is_of):
        load(headless)

    config = json.loads((headless / "config.json").read_text())
    (headless / "config.json").write_text(json.dumps(config | {"architectures": ["BertForTokenClassification"]}))
    with pytest.raises(ModelNotFound, match="BertForTokenClassification", check=ENCODER_UNUSABLE.is_of):
        load(headless)


def test_only_safetensors_are_loaded(tmp_path: Path) -> None:
    """A pickle could run code."""
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    (tmp_path / "config.json").write_text('{"architectures": ["BertForSequenceClassification"]}')
    with pytest.raises(ModelNotFound, match=r"scripts/convert_weights\.py", check=ENCODER_UNUSABLE.is_of):
        load(tmp_path)
