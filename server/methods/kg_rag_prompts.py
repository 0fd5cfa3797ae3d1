"""KG-RAG's questions and prompts: which form a question has, what may be answered, and how it is asked. Pure.

The three forms are those of Soman et al. 2024: questions, true-or-false statements, multiple choice. The wording is
ours.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from models.types import Grammar
from server.methods.base import OptionInvalid
from server.methods.choices import listed_choices, one_line, regex_of
from server.methods.kg_rag_options import Form, KgRagOptions

NONE_OF_THESE: Final = "none of these"
UNKNOWN: Final = "unknown"
# Choices that say the same in other words, without a full stop.
_NONE: Final = frozenset({NONE_OF_THESE, "none of the above", "none of them"})
# A question may be long: neither of these looks at a stretch of it more than once.
_ASKS_FIRST: Final = re.compile(
    r"\s*(?:true\s+or\s+false|true/false|t/f|is\s+(?:it|this|the\s+following(?:\s+\w+)?)\s+true)\b[\s:?.,-]*",
    re.IGNORECASE,
)
_ASKS_LAST: Final = re.compile(r"\b(?:true\s+or\s+false|true/false)$", re.IGNORECASE)
_LONGEST_LAST: Final = 64
_PARTS: Final = ("general", "true_false", "multiple_choice", "without_context")


@dataclass(frozen=True, slots=True)
class Asked:
    """``stem``: the question without its list of choices; its characters are the question's first ones. ``answers``:
    what may be answered, () for free text."""

    question: str
    form: Form
    choices: tuple[str, ...] = ()
    stem: str = ""

    @property
    def words(self) -> str:
        """All that names things: the question, and choices that came beside it."""
        beside = [choice for choice in self.choices if not _stands_in(choice, self.question)]
        return "\n".join([self.question, *beside])

    @property
    def answers(self) -> tuple[str, ...]:
        match self.form:
            case "true_false":
                return ("True", "False", UNKNOWN)
            case "multiple_choice":
                return self.choices if self._own_none else (*self.choices, NONE_OF_THESE)
        return ()

    @property
    def abstention(self) -> str:
        """The answer that says that the graph does not tell."""
        return {"true_false": UNKNOWN, "multiple_choice": self._own_none or NONE_OF_THESE}.get(self.form, "")

    @property
    def _own_none(self) -> str:
        return next((choice for choice in self.choices if choice.rstrip(".").casefold() in _NONE), "")

    def grammar(self) -> Grammar | None:
        """The whole output is one of the answers; the blank is what the first token of a base model begins with."""
        if not self.answers:
            return None
        return Grammar("regex", " ?(" + "|".join(regex_of(answer) for answer in self.answers) + ")")

    def answer_in(self, written: str) -> str:
        """The answer that was written, "" for none: an engine without grammars may write anything."""
        bare = written.strip()
        # Names of two organisms may differ in case alone.
        exact = next((answer for answer in self.answers if answer in (bare, bare.rstrip("."))), "")
        return exact or next((answer for answer in self.answers if _folded(answer) == _folded(bare)), "")


def read_question(text: str, options: KgRagOptions) -> Asked:
    """The form is the option's or, for ``auto``, what the question says of itself.

    Raises:
        OptionInvalid: a multiple-choice question is wanted and no choices are found.
    """
    form, question = options.form, text.strip()
    statement = _statement(question)
    if form == "true_false" or (form == "auto" and not options.choices and statement is not None):
        bare = one_line(statement or question)
        return Asked(bare, "true_false", stem=bare)
    found, stem = listed_choices(question)
    choices = options.choices or found
    question, stem = one_line(question), one_line(stem)
    if form == "multiple_choice" and not choices:
        raise OptionInvalid("arrowhead.choices: the question lists none that can be read", param="arrowhead.choices")
    if form == "general" or not choices:
        return Asked(question, "general", stem=question)
    return Asked(question, "multiple_choice", choices, stem)


def _statement(question: str) -> str | None:
    """The question without its "true or false", None where it has none; "" where it has nothing else."""
    first = _ASKS_FIRST.match(question)
    rest = question[first.end() :] if first else question
    bare = rest.rstrip(" \t\r\n?.)")
    last = _ASKS_LAST.search(bare, max(0, len(bare) - _LONGEST_LAST))
    if last:
        rest = bare[: last.start()].rstrip(" \t\r\n(,.;-")
    return rest.strip() if first or last else None


def _stands_in(choice: str, question: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(choice)}(?![\w-])", question) is not None


def _folded(answer: str) -> str:
    return answer.strip().rstrip(".").casefold()


@dataclass(frozen=True, slots=True)
class Prompts:
    """All instructions, read once, by form."""

    parts: dict[str, str]

    @classmethod
    def load(cls) -> Prompts:
        return cls({name: _text(name) for name in _PARTS})

    def base_form(self, asked: Asked, context: str) -> str:
        """For a model that continues text."""
        return f"{self.instruction(asked, context)}\n\n{_given(asked, context)}\nAnswer:"

    def chat_form(self, asked: Asked, context: str) -> list[dict[str, str]]:
        """For a model with a chat template."""
        return [
            {"role": "system", "content": self.instruction(asked, context)},
            {"role": "user", "content": _given(asked, context)},
        ]

    def instruction(self, asked: Asked, context: str) -> str:
        """``context`` "": there is none, and the question is put without it."""
        if context:
            return self.parts[asked.form]
        closed = "Answer with one of the words or choices given and nothing else." if asked.answers else ""
        return f"{self.parts['without_context']} {closed}".strip()


def _given(asked: Asked, context: str) -> str:
    head = f"Context:\n{context}\n\n" if context else ""
    answers = f"\nChoices: {'; '.join(asked.answers)}" if asked.answers else ""
    return f"{head}Question: {asked.question}{answers}"


def _text(name: str) -> str:
    return (files("server.methods") / "prompts" / "kg_rag" / f"{name}.txt").read_text(encoding="utf-8").strip()
