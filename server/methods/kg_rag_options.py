"""Validate the ``arrowhead`` options of a KG-RAG request; unknown keys and wrong values are refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from retrieval.graph.context import DEFAULT_TOKENS, Pruning
from server.egress_settings import EGRESS_MODES, EgressMode
from server.methods.base import OptionInvalid
from server.methods.choices import MAX_CHOICES, are_choices

Form = Literal["general", "true_false", "multiple_choice"]
WithoutContext = Literal["abstain", "answer"]
Linking = Literal["dictionary", "model"]
_FORMS = ("auto", "general", "true_false", "multiple_choice")
_PRUNINGS: tuple[Pruning, ...] = ("budget", "paper")
_WITHOUT: tuple[WithoutContext, ...] = ("abstain", "answer")
_LINKINGS: tuple[Linking, ...] = ("dictionary", "model")
_KNOWN = "form, choices, linking, evidence, pruning, context_tokens, without_context, references, egress"
MAX_CONTEXT_TOKENS = 16_384


@dataclass(frozen=True, slots=True, kw_only=True)
class KgRagOptions:
    """Hold the options of a KG-RAG request.

    - ``form``: "auto" to derive it from the question.
    - ``choices``: those of a multiple-choice question; () reads them from it.
    - ``linking``: "model" extracts names with the served model, "dictionary" finds them by spellings and vectors.
    - ``evidence``: add the attributes of statements to the context.
    - ``pruning``: how statements are chosen.
    - ``context_tokens``: limit of the context, which the model's context length may lower; ``paper`` has no other
      limit.
    - ``without_context``: what to do where the graph has nothing.
    - ``egress``: None for the mode of the key.
    """

    form: Form | Literal["auto"] = "auto"
    choices: tuple[str, ...] = ()
    linking: Linking = "dictionary"
    evidence: bool = False
    pruning: Pruning = "budget"
    context_tokens: int | None = None
    without_context: WithoutContext = "abstain"
    references: bool = True
    egress: EgressMode | None = None

    @property
    def tokens(self) -> int:
        fixed = DEFAULT_TOKENS if self.pruning == "budget" else MAX_CONTEXT_TOKENS
        return fixed if self.context_tokens is None else self.context_tokens


def parse_options(given: Mapping[str, Any]) -> KgRagOptions:
    """Return the validated options.

    Raises:
        OptionInvalid: ``param`` names the key.
    """
    options = KgRagOptions(**{key: _check(key, value) for key, value in given.items()})
    if options.choices and options.form not in ("auto", "multiple_choice"):
        raise OptionInvalid("arrowhead.choices: belong to a multiple_choice question", param="arrowhead.choices")
    return options


def _check(key: str, value: Any) -> Any:
    match key:
        case "form":
            return _need(value in _FORMS, value, key, "one of " + ", ".join(_FORMS))
        case "choices":
            return _need(are_choices(value), _as_tuple(value), key, f"2 to {MAX_CHOICES} different lines of text")
        case "linking":
            return _need(value in _LINKINGS, value, key, "one of " + ", ".join(_LINKINGS))
        case "pruning":
            return _need(value in _PRUNINGS, value, key, "one of " + ", ".join(_PRUNINGS))
        case "without_context":
            return _need(value in _WITHOUT, value, key, "one of " + ", ".join(_WITHOUT))
        case "context_tokens":
            is_number = isinstance(value, int) and not isinstance(value, bool)
            fine = is_number and 1 <= value <= MAX_CONTEXT_TOKENS
            return _need(fine, value, key, f"a number from 1 to {MAX_CONTEXT_TOKENS}")
        case "egress":
            return _need(value in EGRESS_MODES, value, key, "one of " + ", ".join(EGRESS_MODES))
        case "evidence" | "references":
            return _need(isinstance(value, bool), value, key, "true or false")
        case _:
            name = f"arrowhead.{key[:40]}"
            raise OptionInvalid(f"{name}: there is no such option; options are {_KNOWN}", param=name)


def _as_tuple(value: Any) -> Any:
    return tuple(str(choice).strip() for choice in value) if isinstance(value, list) else ()


def _need(fine: bool, value: Any, key: str, what: str) -> Any:
    if not fine:
        raise OptionInvalid(f"arrowhead.{key}: must be {what}", param=f"arrowhead.{key}")
    return value
