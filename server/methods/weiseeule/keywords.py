"""Find the keywords of a question without marks: by the model under a JSON schema, else by names and counts."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

from models.errors import ArrowheadError
from models.types import GenerateParams, Grammar
from server.methods.shared.generation import Generations, PromptFormatter
from server.methods.weiseeule.library import AskedKeyword

MAX_WRITTEN: Final = 8
_MAX_TOKENS: Final = 200
_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "keywords": {
            "type": "array",
            "items": {"type": "string", "minLength": 1, "maxLength": 80},
            "minItems": 1,
            "maxItems": MAX_WRITTEN,
        }
    },
    "required": ["keywords"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class WrittenKeywords:
    """Hold what the model wrote; ``fault`` says why it cannot be used, "" where it can."""

    keywords: tuple[AskedKeyword, ...] = ()
    fault: str = ""


async def written_keywords(
    generations: Generations, layout: PromptFormatter, prompts: tuple[str, str], question: str, cache_salt: str | None
) -> WrittenKeywords:
    """Return the keywords that the model chooses, those alone that the question has.

    ``prompts`` are the system's part and the instruction. A model that fails, or writes something else, is reported.
    """
    system, how = prompts
    params = GenerateParams(
        max_tokens=_MAX_TOKENS,
        temperature=0.0,
        cache_salt=cache_salt,
        grammar=Grammar("json_schema", json.dumps(_SCHEMA)),
        stop_on_repetition=True,
    )
    try:
        written = await generations.write(layout.ids(system, f"Question: {question}\n\n{how}"), params)
    except ArrowheadError as error:
        return WrittenKeywords(fault=error.message)
    return read_keywords(written.text, question)


def read_keywords(written: str, question: str) -> WrittenKeywords:
    """Parse what the model wrote; nothing of it is evaluated. Keywords that the question does not have are dropped."""
    try:
        found = json.loads(written)["keywords"]
        words = [" ".join(str(one).split()) for one in found if isinstance(one, str)]
    except (ValueError, KeyError, TypeError):
        return WrittenKeywords(fault="it wrote no list of keywords")
    asked = _bare(question)
    kept = tuple(AskedKeyword(one) for one in dict.fromkeys(words) if one and _bare(one) in asked)[:MAX_WRITTEN]
    return WrittenKeywords(kept) if kept else WrittenKeywords(fault="it wrote no keyword of the question")


def _bare(text: str) -> str:
    words = re.findall(r"[^\W_]+", text.casefold())
    return f" {' '.join(words)} "
