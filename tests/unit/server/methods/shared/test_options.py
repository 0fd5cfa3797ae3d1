"""The types of a method's options are what a request may set, and the refusal names the field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from server.methods.base import OptionInvalid
from server.methods.shared.options import Choices, Flag, Namespaces, validated


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    k: Annotated[int, Field(strict=True, ge=1, le=9)] = 3
    way: Literal["fast", "slow"] = "fast"
    flag: Flag = False
    choices: Choices = ()
    namespaces: Namespaces = ()


def test_what_is_valid_is_taken_and_the_rest_keeps_its_default() -> None:
    options = validated(Example, {"k": 9, "choices": [" a", "b"], "namespaces": ["notes"]})
    assert options == Example(k=9, choices=("a", "b"), namespaces=("notes",))


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"k": 10}, "arrowhead.k: must be less than or equal to 9"),
        ({"k": True}, "arrowhead.k: must be a valid integer"),
        ({"k": "3"}, "arrowhead.k: must be a valid integer"),
        ({"way": ["fast"]}, "arrowhead.way: must be 'fast' or 'slow'"),
        ({"flag": 1}, "arrowhead.flag: must be a valid boolean"),
        ({"choices": ["a"]}, "arrowhead.choices: must be 2 to 26 different lines of text"),
        ({"namespaces": ["../x"]}, "arrowhead.namespaces: must be the name of a namespace"),
        ({"namespaces": []}, "arrowhead.namespaces: the list should have at least 1 item"),
        ({"kk": 1}, "arrowhead.kk: there is no such option; options are k, way, flag, choices, namespaces"),
        ({"egress": "off"}, "arrowhead.egress: nothing leaves"),
        ({"one_paper": "7"}, "arrowhead.one_paper: send articles with this one"),
    ],
)
def test_what_is_not_is_refused_by_name(values: dict[str, Any], why: str) -> None:
    with pytest.raises(OptionInvalid) as refused:
        validated(Example, values, why_none={"egress": "nothing leaves"})
    assert str(refused.value.message).startswith(why) and refused.value.param == f"arrowhead.{next(iter(values))}"
