"""The ways in which answers are made follow from the method and the model's card."""

from __future__ import annotations

import pytest

from models.catalog import ModelCard
from server.methods.base import OptionInvalid
from server.methods.shared.synthesis import choose_synthesis, served_syntheses

GENERAL = ModelCard(name="large", source="large")
TINY = ModelCard(name="tiny", source="tiny", trained_for=("genegpt",))


def test_a_general_model_generates_and_a_trained_one_does_what_it_learned() -> None:
    """The default comes first; () means that the method cannot be served."""
    assert served_syntheses("medrag", GENERAL) == ("generated", "extractive")
    assert served_syntheses("medrag", TINY) == ("extractive",)
    assert served_syntheses("genegpt", TINY) == ("generated",)
    assert served_syntheses("genegpt", ModelCard(name="x", source="x", trained_for=("medrag",))) == ()


def test_the_default_and_what_is_asked_for() -> None:
    """Whatever is served may be asked for."""
    assert choose_synthesis(None, "kg-rag", GENERAL) == "generated"
    assert choose_synthesis(None, "kg-rag", TINY) == "extractive"
    assert choose_synthesis("extractive", "kg-rag", GENERAL) == "extractive"


@pytest.mark.parametrize(
    ("asked", "card", "why"),
    [
        ("generated", TINY, "tiny was not trained to write answers of medrag.*--model.*; ask for extractive"),
        ("quoted", GENERAL, "medrag does not serve 'quoted' yet; ask for generated or extractive"),
    ],
)
def test_what_does_not_work_is_refused_with_the_remedy(asked: str, card: ModelCard, why: str) -> None:
    """The field is named."""
    with pytest.raises(OptionInvalid, match=why) as refused:
        choose_synthesis(asked, "medrag", card)  # type: ignore[arg-type]
    assert refused.value.param == "arrowhead.synthesis"
