"""Validate the ``arrowhead`` options of a request against the dataclass of a method's options: its types are the rules.

@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleOptions:
    k: Annotated[int, Field(strict=True, ge=1, le=100)] = 32

options = validated(ExampleOptions, {"k": 8})
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Annotated, Any, Final, NoReturn, TypeVar, cast

from pydantic import AfterValidator, Field, StrictBool, TypeAdapter, ValidationError

from retrieval.passages import is_namespace_name
from server.methods.base import AnswerRequest, OptionInvalid
from server.methods.shared.choices import MAX_CHOICES, are_choices
from server.methods.shared.reading.gate import MAX_SENTENCES

_MAX_NAMESPACES: Final = 64
# What serves in place of options of earlier versions.
_INSTEAD: Final = {
    "context_tokens": "the card of the model says how much it reads",
    "condense": "replies are always inserted as records",
    "expand": "POST /v1/search searches for synonyms too; send a question with them",
    "fixed": "mark the keywords in the question: # … **keyword** …",
    "max_tokens_total": "rounds, queries and max_seconds bound an answer",
    "without_types": "types names those to search",
    "cot": "end the question with: Let's decompose the question to sub-questions and solve them step by step.",
    "form": "choices in the question, or the option choices, make a question one of multiple choice",
    "journals": "send queries with JOURNAL[ta]",
    "one_paper": "send articles with this one",
    "organism": "name it in the question",
    "only_fixed": "begin the question with ##",
    "order": "passages are always in the library's order, for the prefix cache",
    "retrieval": "the plain model answers without passages",
    "samples": "send the question several times with temperature and seed, and count the letters",
    "summaries": "the card of the model says how much of a gene's summary it reads",
    "species": "send queries with SPECIES[mh]",
    "without_context": "the plain model answers without the graph",
    "without_passages": "the plain model answers without passages",
}
_T = TypeVar("_T")


def checked(fits: Callable[[Any], bool], rule: str) -> Callable[[Any], Any]:
    """Return a validator that lets a value pass that fits, and tells the rule otherwise."""

    def check(value: Any) -> Any:
        if not fits(value):
            raise ValueError(f"must be {rule}")
        return value

    return check


def _choices(value: tuple[str, ...]) -> tuple[str, ...]:
    checked(are_choices, f"2 to {MAX_CHOICES} different lines of text")(list(value))
    return tuple(choice.strip() for choice in value)


Flag = StrictBool
Choices = Annotated[tuple[str, ...], AfterValidator(_choices)]
NumSentences = Annotated[int, Field(strict=True, ge=1, le=MAX_SENTENCES)]
NamespaceName = Annotated[str, AfterValidator(checked(is_namespace_name, "the name of a namespace"))]
Namespaces = Annotated[tuple[NamespaceName, ...], Field(min_length=1, max_length=_MAX_NAMESPACES)]


def validated(kind: type[_T], values: Mapping[str, Any], *, why_none: Mapping[str, str] | None = None) -> _T:
    """Return the options that the values make; ``why_none`` says of what is no option why there is none.

    Raises:
        OptionInvalid: ``param`` names the key.
    """
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    for key in values:
        if key not in known:
            usual = f"there is no such option; options are {', '.join(known)}"
            refuse(key[:40], {**_INSTEAD, **(why_none or {})}.get(key, usual))
    try:
        options: _T = _adapter(cast(Hashable, kind)).validate_python(dict(values))
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)[0]
        why = wrong["msg"].removeprefix("Value error, ").replace("Input should", "must").replace("Tuple", "the list")
        refuse(str(wrong["loc"][0]), why)
    return options


def refuse(key: str, why: str) -> NoReturn:
    raise OptionInvalid(f"arrowhead.{key}: {why}", param=f"arrowhead.{key}")


def refuse_logprobs(ask: AnswerRequest) -> None:
    if ask.sampling.logprobs is not None:
        raise OptionInvalid("logprobs: an answer that is written in several pieces has none", param="logprobs")


@lru_cache(maxsize=16)
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)
