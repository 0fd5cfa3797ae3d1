"""Extract names from a question with one bounded, grammar-constrained call of a language model, parsed strictly.

The model only proposes names: each must occur in the question, and is linked like any other name.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from models.errors import ArrowheadError
from retrieval.formats.untrusted_input import whole_characters

MAX_ENTITIES: Final = 16
_MAX_NAME: Final = 200
_MAX_REPLY: Final = 16_384
_MAX_QUESTION: Final = 8_000

_INSTRUCTIONS: Final = (
    "You mark names in biomedical questions. List each disease, gene, protein, variant, drug, symptom, pathway or part "
    "of the body that the question names, once, with the very words of the question. A general word such as disease, "
    "gene or drug is no name. For each say of which kind it is: one of {kinds}. Where the question names nothing of "
    'these, the list is empty. Answer with JSON alone: {{"entities": [{{"name": "...", "kind": "..."}}]}}'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """Hold a name that the model gave; ``start``, ``end``: its first occurrence in the question."""

    name: str
    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """Hold the result of an extraction.

    ``failure`` is "" for a valid reply; ``invented``: number of names that are not in the question.
    """

    entities: tuple[Entity, ...] = ()
    invented: int = 0
    failure: str = ""


class Extractor(Protocol):
    """Call a language model on behalf of the linker; the server provides the implementation."""

    async def extract(self, system: str, user: str, schema: Mapping[str, Any]) -> str:
        """Return the model's whole reply, at temperature 0, constrained to the JSON schema.

        Raises:
            ArrowheadError: any of the engine's.
        """
        ...


def prompt(kinds: Iterable[str]) -> str:
    """Return the system prompt for a graph with these kinds of nodes."""
    return _INSTRUCTIONS.format(kinds=", ".join(kinds))


def schema(kinds: Iterable[str]) -> dict[str, Any]:
    """Return the JSON schema of the reply."""
    entity = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": _MAX_NAME},
            "kind": {"type": "string", "enum": list(kinds)},
        },
        "required": ["name", "kind"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"entities": {"type": "array", "items": entity, "maxItems": MAX_ENTITIES}},
        "required": ["entities"],
        "additionalProperties": False,
    }


async def extract(extractor: Extractor, question: str, kinds: tuple[str, ...], timeout_s: float) -> Extraction:
    """Extract the entities of a question, reporting faults of the model or its engine in ``failure``.

    Raises none of these faults; cancellation propagates.
    """
    try:
        async with asyncio.timeout(timeout_s):
            reply = await extractor.extract(prompt(kinds), question[:_MAX_QUESTION], schema(kinds))
    except TimeoutError:
        return Extraction(failure=f"the model did not answer within {timeout_s:g} s")
    except ArrowheadError as error:
        return Extraction(failure=f"the model gave no names: {error.message}")
    try:
        return locate(question, parse(reply, kinds))
    except ValueError as error:
        return Extraction(failure=f"the model's answer is not of the form asked for: {error}")


def parse(reply: str, kinds: Iterable[str]) -> list[tuple[str, str]]:
    """Parse a reply into (name, kind) of each entity.

    Raises:
        ValueError: the reply violates the schema, or has fences or prose.
    """
    if len(reply) > _MAX_REPLY:
        raise ValueError(f"it is longer than {_MAX_REPLY} characters")
    try:
        answer = json.loads(whole_characters(reply))
    except RecursionError as fault:
        raise ValueError("it is nested too deep") from fault
    violation = best_match(Draft202012Validator(schema(kinds)).iter_errors(answer))
    if violation is not None:
        raise ValueError(f"{violation.json_path} violates {violation.validator}")
    return [(entity["name"].strip(), entity["kind"]) for entity in answer["entities"]]


def locate(question: str, entities: Iterable[tuple[str, str]]) -> Extraction:
    """Return the entities that occur in the question, ignoring letter case, each name once."""
    found: dict[tuple[int, int], Entity] = {}
    invented = 0
    for name, kind in entities:
        place = re.search(re.escape(name), question, re.IGNORECASE) if name else None
        if place is None:
            invented += 1
        else:
            found.setdefault(place.span(), Entity(name=name, kind=kind, start=place.start(), end=place.end()))
    return Extraction(entities=tuple(found.values()), invented=invented)
