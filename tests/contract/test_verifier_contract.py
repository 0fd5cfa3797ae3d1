"""What every verifier promises: the shipped one, a model of Hugging Face's form, and the double of other tests."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest
from bert_models import build_bert
from lexical_verifier import LexicalVerifier

from models.encoders.base import EncoderOptions
from models.encoders.model_files import ModelFolder
from models.verifiers.base import Judgement, Pair, Verifier
from server.evidence.verifier import load_shipped

CLAIM = "Aspirin lowers the risk of stroke."
PAIRS = (
    Pair(CLAIM, "Aspirin lowered the risk of stroke by a fifth."),
    Pair(CLAIM, "Aspirin did not lower the risk of stroke."),
    Pair("Does aspirin lower the risk of stroke?", "The heart pumps blood."),
    Pair(
        "Senkt Aspirin das Risiko für einen Schlaganfall?",
        "Ｆｕｌｌ ｗｉｄｔｈ, β-Blocker, 糖尿病, e\u0301, \U0001f9ec, \u202eright",
    ),
    Pair("?", "\u00a0"),
    Pair("", ""),
    Pair(CLAIM, "Aspirin lowers the risk of stroke. " * 500),
    Pair("long " * 2000, "short"),
)
_SHIPPED = pytest.param(
    "shipped",
    marks=[
        pytest.mark.weights,
        pytest.mark.skipif(
            find_spec("models.verifiers.cross_encoder") is None, reason="this checkout ships no verifier"
        ),
    ],
)


@pytest.fixture(scope="module", params=["lexical", pytest.param("hub", marks=pytest.mark.weights), _SHIPPED])
def verifier(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Verifier]:
    match request.param:
        case "hub":
            from models.verifiers.hub_model import HubVerifier

            labels = ("contradiction", "entailment", "neutral")
            folder = build_bert(tmp_path_factory.mktemp("nli") / "model", names=labels)
            yield HubVerifier(ModelFolder(folder), "nli", EncoderOptions(device="cpu", dtype="float32"))
        case "shipped":
            yield load_shipped("cpu")
        case _:
            yield LexicalVerifier()


def numbers(judgement: Judgement) -> tuple[float, float, float]:
    return judgement.relevance, judgement.supports, judgement.contradicts


def test_each_pair_has_a_judgement_in_its_place(verifier: Verifier) -> None:
    """The same alone, in a batch, and in a batch in another order."""
    together = verifier.judge(PAIRS)
    turned = verifier.judge(PAIRS[::-1])[::-1]
    alone = [verifier.judge([pair])[0] for pair in PAIRS]

    assert len(together) == len(PAIRS)
    for judgements in (turned, alone):
        assert [numbers(one) for one in judgements] == [pytest.approx(numbers(one), abs=1e-2) for one in together]


def test_judgements_are_probabilities(verifier: Verifier) -> None:
    """Of long, empty and foreign texts too; supports, contradicts and neither make one."""
    for one in verifier.judge(PAIRS):
        assert all(0.0 <= number <= 1.0 for number in (*numbers(one), one.neither))
        assert one.supports + one.contradicts <= 1.0 + 1e-6
        assert one.supports + one.contradicts + one.neither == pytest.approx(1.0)


def test_no_pairs_have_no_judgements(verifier: Verifier) -> None:
    assert verifier.judge([]) == []


def test_it_has_a_name_and_bars(verifier: Verifier) -> None:
    """A bar that nothing or everything reaches would decide nothing."""
    points = verifier.points
    assert verifier.name
    assert all(0.0 < bar < 1.0 for bar in (points.quote, points.answer, points.verdict, points.label, points.screen))
