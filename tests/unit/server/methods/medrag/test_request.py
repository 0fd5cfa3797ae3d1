"""Options of MedRAG and i-MedRAG: the model's defaults, below those of the request."""

from __future__ import annotations

import pytest

from models.catalog import ModelCard
from server.methods.base import OptionInvalid
from server.methods.medrag.request import parse_iterated, parse_options

GENERAL = ModelCard(name="m", source="x")
SMALL = ModelCard(name="s", source="x", context_tokens=1000)


@pytest.mark.parametrize("parse", [parse_options, parse_iterated])
def test_a_model_s_budget_of_evidence_applies_unless_the_request_has_its_own(parse: type) -> None:
    """A model without one reads as much as its context holds."""
    assert parse({}, GENERAL).context_tokens is None
    assert parse({}, SMALL).context_tokens == 1000
    assert parse({"context_tokens": 300}, SMALL).context_tokens == 300
    with pytest.raises(OptionInvalid, match=r"arrowhead\.context_tokens: must be greater than or equal to 1"):
        parse({"context_tokens": 0}, SMALL)
