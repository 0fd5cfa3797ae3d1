"""The ways in which answers are made follow from the method and the model's card."""

from __future__ import annotations

import pytest
from lexical_verifier import AS_THE_MODEL

from models.card import ModelCard
from server.methods.base import OptionInvalid
from server.methods.shared.synthesis import choose_synthesis, served_syntheses, unable

GENERAL = ModelCard(name="large", source="large")
TINY = ModelCard(name="tiny", source="tiny", trained_for=("genegpt",))


def test_a_general_model_generates_and_a_trained_one_does_what_it_learned() -> None:
    """The default comes first; () means that the method cannot be served."""
    assert served_syntheses("medrag", GENERAL) == ("generated", "extractive")
    assert served_syntheses("kg-rag", GENERAL) == ("generated", "extractive")
    assert served_syntheses("medrag", TINY) == ("extractive",)
    assert served_syntheses("genegpt", TINY) == ("generated",)
    assert served_syntheses("genegpt", ModelCard(name="x", source="x", trained_for=("medrag",))) == ()


def test_a_model_that_reads_verdicts_has_its_quotes_chosen() -> None:
    """The verifier chooses them, and the model says yes or no."""
    reads = ModelCard(name="m", source="x", trained_for=("genegpt", "medrag"), verdicts=AS_THE_MODEL)
    for method in ("medrag", "i-medrag", "clinfo", "weiseeule", "kg-rag"):
        assert served_syntheses(method, reads) == ("extractive",)
    assert served_syntheses("genegpt", reads) == ("generated",)


def test_the_default_and_what_is_asked_for() -> None:
    """Whatever is served may be asked for."""
    assert choose_synthesis(None, "kg-rag", GENERAL) == "generated"
    assert choose_synthesis(None, "kg-rag", TINY) == "extractive"
    assert choose_synthesis("extractive", "kg-rag", GENERAL) == "extractive"


@pytest.mark.parametrize(
    ("asked", "method", "card", "why"),
    [
        ("generated", "medrag", TINY, "tiny was not trained to write answers of medrag.*--model.*; ask for extractive"),
        ("extractive", "genegpt", GENERAL, "genegpt does not serve 'extractive'; ask for generated"),
    ],
)
def test_what_does_not_work_is_refused_with_the_remedy(asked: str, method: str, card: ModelCard, why: str) -> None:
    """The field is named."""
    with pytest.raises(OptionInvalid, match=why) as refused:
        choose_synthesis(asked, method, card)  # type: ignore[arg-type]
    assert refused.value.param == "arrowhead.synthesis"


def test_a_model_that_was_trained_for_no_method_writes_none() -> None:
    """Extracts need no model; what needs one is refused without a list of methods that is empty."""
    card = ModelCard(name="small", source="small", trained_for=())
    assert [served_syntheses(method, card) for method in ("medrag", "genegpt")] == [("extractive",), ()]
    assert unable("genegpt", card).startswith("small was not trained to write answers of genegpt; serve a model")
