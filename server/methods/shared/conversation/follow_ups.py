"""Make the last question of a conversation stand alone: written by the model, or with the names of an earlier turn.

A model that follows instructions writes the question. Behind the question of any other model stand the names that the
user gave last, where it has none of its own: "is it inherited (about: CFTR)?".
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

from models.card import ModelCard
from models.engines.base import Engine
from models.errors import ModelError
from models.function_words import FUNCTION_WORDS
from models.types import GenerateParams
from server.methods.base import Message, uses_chat_template
from server.methods.shared.generation import Generations, PromptFormatter

_MAX_TOKENS: Final = 96
_MAX_TURNS: Final = 6
_MAX_TURN_CHARS: Final = 600
_MAX_QUESTION_CHARS: Final = 500
_MAX_NAMES: Final = 3
# What stands before names that were not in the question.
ABOUT: Final = "(about: "
_TIMEOUT_S: Final = 10.0
_SYSTEM: Final = (
    "You rewrite the last question of a conversation so that it can be understood without the conversation. Replace "
    "pronouns and omissions by the names that they stand for, as the conversation writes them. Keep the language of "
    "the question and every name, number and code in it; a question that needs nothing of the conversation stays as it "
    "is. Do not answer it and add nothing else. Write one question on one line."
)
_BEGINS: Final = "Question:"
_UNIT: Final = r"(?:%|[kmcdnpµμ]?(?:g|l|m|mol)|mcg|iu|kda|bp|kb|mb|h|min|s)(?:/(?:kg|dl|ml|l|h|d|day|m2))?(?!\w)"
_WORD: Final = re.compile(r"[^\W_]+")
_CODE: Final = re.compile(rf"\d+(?:[.,]\d+)*\s?{_UNIT}|[^\W_]+(?:[-.:/>*][^\W_]+)*", re.IGNORECASE)
_SYMBOL: Final = re.compile(r"(?<![\w-])[^\W\d_][\w*.>:-]+[^\W_]")
_CAPITALS: Final = re.compile(r"[^\W\d_a-zß-ÿ].*[^\W\d_a-zß-ÿ]")


class NameFinder(Protocol):
    """Find what a text names: diseases, drugs, genes."""

    async def names_in(self, text: str) -> Sequence[str]:
        """Return the names as the text writes them, in order; () where names cannot be looked up."""
        ...


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
    prompt = await layout.prompt(_SYSTEM, user, _BEGINS)
    if len(prompt) + _MAX_TOKENS > layout.engine.max_model_len:
        return None
    params = GenerateParams(max_tokens=_MAX_TOKENS, temperature=0.0, stop=("\n",), cache_salt=cache_salt)
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            written = await calls.write(prompt, params)
    except (TimeoutError, ModelError):
        return None
    text = " ".join(written.text.removeprefix(_BEGINS).split()).strip('"“” ')
    # A version that the limit cut is not the whole question.
    is_whole = written.finish_reason == "stop" and 0 < len(text) <= _MAX_QUESTION_CHARS
    return text if is_whole and keeps_codes(text, question, [turn.content for turn in said]) else None


def keeps_codes(text: str, question: str, history: Iterable[str]) -> bool:
    """Return whether a version of a question has all of its numbers and codes, and none that nobody wrote."""
    asked, known = codes_in(question), codes_in(question).union(*map(codes_in, history))
    return asked <= codes_in(text) <= known


def codes_in(text: str) -> frozenset[str]:
    """Return numbers with their units, and words with a digit or two capitals (TP53, rs334, HbA1c), in one form."""
    found = (code[0] for code in _CODE.finditer(text))
    codes = (code for code in found if any(map(str.isdigit, code)) or _CAPITALS.search(code))
    return frozenset(re.sub(r"[\s-]", "", code).casefold() for code in codes)


def symbols_in(text: str) -> Iterator[re.Match[str]]:
    """Yield the words with a letter first that have a digit or three capitals, as symbols of genes and variants do."""
    return (word for word in _SYMBOL.finditer(text) if any(map(str.isdigit, word[0])) or word[0].isupper())


async def with_names(question: str, earlier: Sequence[str], finder: NameFinder) -> str:
    """Return the question with the names of the latest turn that has some, unless it has one itself.

    ``earlier``: the user's turns before it, oldest first. The words of the question stay as they are. "And BRCA2?" asks
    nothing beside its name: it is the question before it with this name.
    """
    if named := await finder.names_in(question):
        return question if _asks(question, named) else await _asked_again(question, named, earlier, finder)
    for turn in reversed(earlier[-_MAX_TURNS:]):
        if names := await finder.names_in(turn):
            return about(question, names)
    return question


def _asks(question: str, names: Sequence[str]) -> bool:
    """Return whether a question has words beside its names that are no English function words."""
    bare = re.sub("|".join(map(re.escape, names)), " ", question)
    return any(word.casefold() not in FUNCTION_WORDS for word in _WORD.findall(bare))


async def _asked_again(question: str, names: Sequence[str], earlier: Sequence[str], finder: NameFinder) -> str:
    """Return the latest turn that asks something with the one name in place of its own; as it is where these differ."""
    for turn in reversed(earlier[-_MAX_TURNS:]):
        before = await finder.names_in(turn)
        if before and _asks(turn, before):
            return turn.replace(before[0], names[0]) if len(names) == len(before) == 1 else question
    return question


def about(question: str, names: Sequence[str]) -> str:
    """Return a question with names behind its words, as terms to search for; as it is where there are none."""
    text = question.strip()
    if not names:
        return text
    words = text.rstrip("?!. ")
    # Whoever looks for the sentence that asks has to find the names in it.
    return f"{words} {ABOUT}{', '.join(dict.fromkeys(names[:_MAX_NAMES]))}){text[len(words) :].strip()}"
