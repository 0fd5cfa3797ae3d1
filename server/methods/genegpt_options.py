"""Validate the ``arrowhead`` options of a GeneGPT request; unknown keys and wrong values are refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from models.catalog import ModelCard, Summaries
from server.egress_settings import EGRESS_MODES, EgressMode
from server.methods.base import OptionInvalid
from server.methods.genegpt_prompt import resolve_mask

GrammarMode = Literal["off", "calls", "grounded"]
_GRAMMARS: tuple[GrammarMode, ...] = ("off", "calls", "grounded")
_SUMMARIES: tuple[Summaries, ...] = ("lead", "full")
_MAX_ORGANISM = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneGptOptions:
    """Hold the options of a GeneGPT request.

    - ``mask``: six digits.
    - ``grammar``: ``calls`` allows only well-formed calls, ``grounded`` also only sequences that occur in the question.
    - ``organism``: "" for the organism that the question names, else human.
    - ``condense``: False inserts replies as received, cut to the reply budget.
    - ``summaries``: how much of the genes' prose summaries replies contain, where the question leaves room for prose.
    - ``cot``: None for chain of thought where the question asks for it.
    - ``egress``: None for the mode of the request's key.
    """

    mask: str
    max_calls: int
    grammar: GrammarMode = "grounded"
    condense: bool = True
    organism: str = ""
    cot: bool | None = None
    references: bool = True
    summaries: Summaries = "full"
    egress: EgressMode | None = None


def parse_options(given: Mapping[str, Any], *, card: ModelCard, max_calls: int) -> GeneGptOptions:
    """Return the validated options; defaults are the model's.

    ``max_calls`` is the server's limit and the default; a request can lower it.

    Raises:
        OptionInvalid: ``param`` names the key.
    """
    mask = resolve_mask(card.genegpt_mask) or "001001"
    checked: dict[str, Any] = {"mask": mask, "max_calls": max_calls, "summaries": card.summaries}
    for key, value in given.items():
        checked[key] = _check(key, value, max_calls)
    return GeneGptOptions(**checked)


def _check(key: str, value: Any, max_calls: int) -> Any:
    match key:
        case "mask":
            mask = resolve_mask(value) if isinstance(value, str) else None
            return _need(mask is not None, mask, key, "full, slim, none, or six digits 0/1")
        case "max_calls":
            is_number = isinstance(value, int) and not isinstance(value, bool)
            return _need(is_number and 0 <= value <= max_calls, value, key, f"a number from 0 to {max_calls}")
        case "grammar":
            return _need(value in _GRAMMARS, value, key, "one of " + ", ".join(_GRAMMARS))
        case "egress":
            return _need(value in EGRESS_MODES, value, key, "one of " + ", ".join(EGRESS_MODES))
        case "organism":
            is_name = isinstance(value, str) and 0 < len(value) <= _MAX_ORGANISM and value.isprintable()
            return _need(is_name, value, key, f"a name of at most {_MAX_ORGANISM} characters")
        case "summaries":
            return _need(value in _SUMMARIES, value, key, "one of " + ", ".join(_SUMMARIES))
        case "condense" | "cot" | "references":
            return _need(isinstance(value, bool), value, key, "true or false")
        case _:
            known = "mask, max_calls, grammar, condense, organism, cot, references, summaries, egress"
            name = f"arrowhead.{key[:40]}"
            raise OptionInvalid(f"{name}: there is no such option; options are {known}", param=name)


def _need(fine: bool, value: Any, key: str, what: str) -> Any:
    if not fine:
        raise OptionInvalid(f"arrowhead.{key}: must be {what}", param=f"arrowhead.{key}")
    return value
