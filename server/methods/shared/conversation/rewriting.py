"""Let the model make the last question stand alone, and check that it added nothing of its own."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Final

from models.catalog import ModelCard
from models.engines.base import Engine
from models.types import GenerateParams
from server.methods.base import Message, uses_chat_template
from server.methods.shared.generation import Generations, PromptFormatter
from server.methods.shared.identifiers import EvidenceIndex, identifiers_in

_MAX_TOKENS: Final = 96
_MAX_TURNS: Final = 6
_MAX_TURN_CHARS: Final = 600
_MAX_QUESTION_CHARS: Final = 500
_TIMEOUT_S: Final = 10.0
_WORD: Final = re.compile(r"[^\W\d_][\w'’-]*")
_SYSTEM: Final = (
    "You rewrite the last question of a conversation so that it can be understood without the conversation. Replace "
    "pronouns and omissions by the names that they stand for, as the conversation writes them. Keep the "
    "language of the "
    "question and every name, number and code in it. Do not answer it and add nothing else. Write one question "
    "on one "
    "line."
)
_BEGINS: Final = "Question:"
# Words that a rewritten question may have although no turn has them.
_JOINING_TEXT: Final = (
    "a an the of in on for to by with from at about and or is are was were be does do did has have can could "
    "what which "
    "who where when why how it its their this that these those gene genes protein disease drug variant "
    "associated located "
    "der die das des dem den ein eine einer von vom im in auf für mit und oder ist sind hat haben was welche welcher "
    "welches wer wo wie warum gen krankheit medikament"
)
_JOINING: Final = frozenset(_JOINING_TEXT.split())


def can_rewrite(engine: Engine, card: ModelCard) -> bool:
    """Return whether the model follows instructions, as far as is known: it chats and is not limited to methods."""
    return card.trained_for is None and uses_chat_template(engine, card)


async def rewritten(
    history: Sequence[Message], question: str, layout: PromptFormatter, calls: Generations, cache_salt: str | None
) -> str | None:
    """Return the model's version of the question, None where it wrote none that can be used.

    ``history``: the turns before the question, oldest first.
    """
    said = [turn for turn in history if turn.role in ("user", "assistant") and turn.content.strip()][-_MAX_TURNS:]
    lines = [f"{turn.role.capitalize()}: {' '.join(turn.content.split())[:_MAX_TURN_CHARS]}" for turn in said]
    user = "\n".join(["Conversation:", *lines, "", f"Last question: {question}"])
    prompt = layout.ids(_SYSTEM, user, _BEGINS)
    if len(prompt) + _MAX_TOKENS > layout.engine.max_model_len:
        return None
    params = GenerateParams(max_tokens=_MAX_TOKENS, temperature=0.0, stop=("\n",), cache_salt=cache_salt)
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            written = await calls.write(prompt, params)
    except TimeoutError:
        return None
    text = " ".join(written.text.removeprefix(_BEGINS).split()).strip('"“” ')
    # A version that the limit cut is not the whole question.
    is_whole = written.finish_reason == "stop"
    return text if is_whole and is_faithful(text, question, [turn.content for turn in said]) else None


def is_faithful(text: str, question: str, history: Sequence[str]) -> bool:
    """Return whether a rewritten question keeps all names of the question and adds only names of the conversation."""
    if not text or len(text) > _MAX_QUESTION_CHARS:
        return False
    here, said = EvidenceIndex(), EvidenceIndex()
    here.add(text)
    for turn in (*history, question):
        said.add(turn)
    keeps = all(here.has(found) for found in identifiers_in(question))
    adds = all(said.has(found) for found in identifiers_in(text))
    known = _JOINING.union(*(_words(turn) for turn in (*history, question)))
    return keeps and adds and _words(text) <= known


def _words(text: str) -> set[str]:
    return {re.sub(r"['’]s?$", "", word.casefold()) for word in _WORD.findall(text)}
