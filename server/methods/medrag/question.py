"""Parse a medical question for MedRAG and i-MedRAG: open, or with lettered choices. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from models.types import Grammar
from server.methods.base import OptionInvalid
from server.methods.medrag.options import Form, MedRagOptions
from server.methods.shared.choices import listed_choices, one_line

MARK: Final = "Answer:"
# A letter that is not a word: "A" and "I" may begin a sentence.
_LETTER: Final = r"[\s*_(]*([A-Z])(?=[\s*_]*(?:[).:]|\n|$))"
_MARKED: Final = re.compile(f"Answer:{_LETTER}")
_FIRST: Final = re.compile(_LETTER)
_REASON: Final = re.compile(r"[,;.:(–—]|(?:because|since|as|due)\b")
_DOUBT: Final = re.compile(r"\b(?:not|less|unlikely|wrong|incorrect|excluded|however|but|though|although)\b")


@dataclass(frozen=True, slots=True)
class ParsedQuestion:
    """Hold a parsed question.

    ``stem`` is the question without its choices, which serves as the query (MIRAGE's rule: choices are no part of a
    query).
    """

    stem: str
    form: Form
    choices: tuple[str, ...] = ()

    @property
    def letters(self) -> str:
        return "".join(chr(65 + place) for place in range(len(self.choices)))

    @property
    def text(self) -> str:
        """Return the question as it appears in a prompt."""
        lines = [f"{letter}. {choice}" for letter, choice in zip(self.letters, self.choices, strict=True)]
        return "\n".join([f"Question: {self.stem}", *(["Choices:", *lines] if lines else [])])

    def shown(self, letter: str) -> str:
        """Return a letter with its choice: ``B. aspirin``."""
        return f"{letter}. {self.choices[self.letters.index(letter)]}"

    def grammar(self) -> Grammar:
        """Return the grammar of one letter, after an optional blank, with which a base model's first token begins."""
        return Grammar("regex", f" ?[{self.letters}]")

    def letter_in(self, written: str) -> str:
        """Return the letter of a written answer, "" where it has none.

        An engine without grammars may write anything.
        """
        found = _FIRST.match(written)
        if found is not None and found[1] in self.letters:
            return found[1]
        bare = one_line(written).strip(" .*").casefold()
        return next((x for x, choice in zip(self.letters, self.choices, strict=True) if choice.casefold() == bare), "")

    def letter_after_mark(self, reasoning: str) -> str:
        """Return the letter that ends a chain of thought, "" where it is ambiguous.

        "Answer: A" may begin a sentence, and so may "Answer: A." ("A. is less likely", "A. Aspirin is less likely"):
        nothing but the choice may follow on its line.
        """
        found = list(_MARKED.finditer(reasoning))
        if not found or MARK in reasoning[found[-1].end() :] or found[-1][1] not in self.letters:
            return ""
        letter = found[-1][1]
        after = reasoning[found[-1].end() :].partition("\n")[0].strip(" .):*_").casefold()
        choice = one_line(self.choices[self.letters.index(letter)]).strip(" .").casefold()
        return letter if not after or _is_choice(after, choice) else ""


def _is_choice(written: str, choice: str) -> bool:
    """Return whether a line is a choice, alone or with a reason after it.

    "Vitamin K, as it …" is one, "Vitamin K is less likely" is not.
    """
    rest = written.removeprefix(choice).lstrip() if written.startswith(choice) else None
    return rest is not None and (not rest or (_REASON.match(rest) is not None and not _DOUBT.search(rest)))


def read_question(text: str, options: MedRagOptions) -> ParsedQuestion:
    """Parse a question, with the choices of the options or those that it lists.

    Raises:
        OptionInvalid: a multiple-choice question is requested and no choices are found.
    """
    found, stem = listed_choices(text.strip(), with_repeats=True)
    choices = options.choices or found
    if options.form == "multiple_choice" and not choices:
        raise OptionInvalid("arrowhead.choices: the question lists none that can be read", param="arrowhead.choices")
    if options.form == "open" or not choices:
        return ParsedQuestion(one_line(text), "open")
    # A question may consist of its choices alone.
    return ParsedQuestion(one_line(stem) or one_line(text), "multiple_choice", choices)
