"""Parse KG-RAG's questions and build its prompts: form, permitted answers and wording. Pure.

The three forms are those of Soman et al. 2024: questions, true-or-false statements, multiple choice. The wording is
ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from models.types import Grammar
from retrieval.graph.context.select import DEFAULT_TOKENS, Pruning
from server.methods.shared.choices import listed_choices, one_line, regex_of
from server.methods.shared.generation import prompt_text, with_instruction
from server.methods.shared.options import Choices, Flag, validated
from server.methods.shared.synthesis import Synthesis
from server.types import EgressMode

Form = Literal["general", "true_false", "multiple_choice"]
Linking = Literal["dictionary", "model"]
MAX_CONTEXT_TOKENS = 16_384
_INSTEAD: Final = {
    "form": "a statement begins with True or false: and choices make a question one of multiple choice",
    "sentences": "an answer of statements has at most eight, the best first",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KgRagOptions:
    """Hold the options of a KG-RAG request.

    - ``choices``: those of a multiple-choice question; () reads them from it.
    - ``linking``: "model" extracts names with the served model, "dictionary" finds them by spellings and vectors.
    - ``evidence``: add the attributes of statements to the context.
    - ``pruning``: how statements are chosen.
    - ``synthesis``: how the answer is made; None for the default of the model.
    - ``egress``: None for the mode of the key.
    """

    choices: Choices = ()
    linking: Linking = "dictionary"
    evidence: Flag = False
    pruning: Pruning = "budget"
    references: Flag = True
    synthesis: Synthesis | None = None
    egress: EgressMode | None = None

    @property
    def tokens(self) -> int:
        """Return the limit of the context, which the model's context length may lower."""
        return DEFAULT_TOKENS if self.pruning == "budget" else MAX_CONTEXT_TOKENS


def parse_options(values: Mapping[str, Any]) -> KgRagOptions:
    """Return the validated options.

    Raises:
        OptionInvalid: ``param`` names the key.
    """
    return validated(KgRagOptions, values, why_none=_INSTEAD)


NONE_OF_THESE: Final = "none of these"
UNKNOWN: Final = "unknown"
# Synonyms of it among choices, without a full stop.
_NONE: Final = frozenset({NONE_OF_THESE, "none of the above", "none of them"})
# Questions may be long: both patterns match in linear time.
_ASKS_FIRST: Final = re.compile(
    r"\s*(?:true\s+or\s+false|true/false|t/f|is\s+(?:it|this|the\s+following(?:\s+\w+)?)\s+true)\b[\s:?.,-]*",
    re.IGNORECASE,
)
_ASKS_LAST: Final = re.compile(r"\b(?:true\s+or\s+false|true/false)$", re.IGNORECASE)
_LONGEST_LAST: Final = 64
_PARTS: Final = ("general", "true_false", "multiple_choice")


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """Hold a parsed question.

    ``stem`` is the question without its list of choices; its characters are the first ones of the question. ``answers``
    are the permitted answers, () for free text.
    """

    text: str
    form: Form
    choices: tuple[str, ...] = ()
    stem: str = ""

    @property
    def words(self) -> str:
        """Return all text that may name entities: the question, and the choices that were sent separately."""
        beside = [choice for choice in self.choices if not _stands_in(choice, self.text)]
        return "\n".join([self.text, *beside])

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
        """Return the answer that states that the graph has no answer, "" for free text."""
        return {"true_false": UNKNOWN, "multiple_choice": self._own_none or NONE_OF_THESE}.get(self.form, "")

    def shown(self, answer: str) -> str:
        """Return an answer with the letter that the question gives it, if any: ``B. aspirin``."""
        for place, choice in enumerate(self.choices):
            letter = chr(65 + place)
            lettered = rf"(?<!\w)\(?{letter}[.):]\s+{re.escape(choice)}(?!\w)"
            if choice == answer and re.search(lettered, self.text, re.IGNORECASE):
                return f"{letter}. {choice}"
        return answer

    @property
    def _own_none(self) -> str:
        return next((choice for choice in self.choices if choice.rstrip(".").casefold() in _NONE), "")

    def grammar(self) -> Grammar | None:
        """Return the grammar of the permitted answers, None for free text.

        An optional blank precedes them, with which a base model's first token begins.
        """
        if not self.answers:
            return None
        return Grammar("regex", " ?(" + "|".join(regex_of(answer) for answer in self.answers) + ")")

    def answer_in(self, written: str) -> str:
        """Return the permitted answer that was written, "" for none.

        An engine without grammars may write anything.
        """
        bare = written.strip()
        # Names of two organisms may differ in case alone.
        exact = next((answer for answer in self.answers if answer in (bare, bare.rstrip("."))), "")
        return exact or next((answer for answer in self.answers if _folded(answer) == _folded(bare)), "")


def read_question(text: str, options: KgRagOptions) -> ParsedQuestion:
    """Parse a question, whose form its text and the option ``choices`` tell."""
    question = text.strip()
    statement = _statement(question)
    if not options.choices and statement is not None:
        bare = one_line(statement or question)
        return ParsedQuestion(bare, "true_false", stem=bare)
    found, stem = listed_choices(question)
    choices = options.choices or found
    question, stem = one_line(question), one_line(stem)
    if not choices:
        return ParsedQuestion(question, "general", stem=question)
    return ParsedQuestion(question, "multiple_choice", choices, stem)


def _statement(question: str) -> str | None:
    """Return the question without its "true or false", None where it has none, "" where nothing else is left."""
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
    """Hold all instructions by form, read once."""

    parts: dict[str, str]

    @classmethod
    def load(cls) -> Prompts:
        return cls({name: prompt_text("kg_rag", f"{name}.txt") for name in _PARTS})

    def base_form(self, question: ParsedQuestion, context: str) -> str:
        """Return the prompt for a model that continues text."""
        return f"{self.parts[question.form]}\n\n{_user_text(question, context)}\nAnswer:"

    def chat_form(self, question: ParsedQuestion, context: str, client_instruction: str = "") -> list[dict[str, str]]:
        """Return the messages for a model with a chat template."""
        return [
            {"role": "system", "content": with_instruction(self.parts[question.form], client_instruction)},
            {"role": "user", "content": _user_text(question, context)},
        ]


def _user_text(question: ParsedQuestion, context: str) -> str:
    answers = f"\nChoices: {'; '.join(question.answers)}" if question.answers else ""
    return f"Context:\n{context}\n\nQuestion: {question.text}{answers}"
