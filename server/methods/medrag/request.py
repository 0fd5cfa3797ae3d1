"""Read MedRAG and i-MedRAG requests: their ``arrowhead`` options, and the question, open or with lettered choices.

Unknown keys and wrong values are refused by name. There is no ``egress`` option: retrieval is local, and no part of a
question leaves the machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import AfterValidator, Field

from models.types import Grammar
from retrieval.corpus.search.ranking import MAX_K, RANKERS, Retriever, is_retriever
from server.methods.shared.choices import listed_choices, one_line
from server.methods.shared.options import Choices, Flag, Namespaces, NumSentences, checked, refuse, validated
from server.methods.shared.passages import PassageQuery
from server.methods.shared.reading.gate import DEFAULT_SENTENCES
from server.methods.shared.synthesis import Synthesis

_Options = TypeVar("_Options", bound="MedRagOptions")
Form = Literal["open", "multiple_choice"]
Reasoning = Literal["chain_of_thought", "direct"]
Stop = Literal["adaptive", "fixed"]
MAX_ROUNDS: Final = 10
MAX_QUERIES: Final = 10
_LOCAL: Final = {"egress": "retrieval is local, so nothing leaves and there is nothing to set"}
_RETRIEVERS: Final = f"one of {', '.join(RANKERS)}, dense:ENCODER, or a list such as bm25+dense+pes2"
MARK: Final = "Answer:"
# A letter that is not a word: "A" and "I" may begin a sentence.
_LETTER: Final = r"[\s*_(]*([A-Z])(?=[\s*_]*(?:[).:]|\n|$))"
_FIRST: Final = re.compile(_LETTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class MedRagOptions:
    """Hold the options of a MedRAG request.

    - ``choices``: () reads them from the question.
    - ``k``: number of passages to retrieve; with ``rerank``, that many of them are retained.
    - ``synthesis``: how the answer is made; None for the default of method and model.
    - ``sentences``: at most so many in an extractive answer.
    """

    choices: Choices = ()
    namespaces: Namespaces = ()
    retriever: Annotated[Retriever, AfterValidator(checked(is_retriever, _RETRIEVERS))] | None = None
    k: Annotated[int, Field(strict=True, ge=1, le=MAX_K)] = 32
    rerank: Annotated[int, Field(strict=True, ge=0, le=MAX_K)] = 0
    reasoning: Reasoning = "chain_of_thought"
    references: Flag = True
    synthesis: Synthesis | None = None
    sentences: NumSentences = DEFAULT_SENTENCES

    @property
    def passage_query(self) -> PassageQuery:
        return PassageQuery(namespaces=self.namespaces, retriever=self.retriever, k=self.k, rerank=self.rerank)


@dataclass(frozen=True, slots=True, kw_only=True)
class IMedRagOptions(MedRagOptions):
    """Hold the options of an i-MedRAG request.

    There are at most ``rounds`` rounds of ``queries`` queries. ``stop`` "adaptive" ends them early when further rounds
    add nothing. ``max_seconds`` is for the whole answer.
    """

    rounds: Annotated[int, Field(strict=True, ge=1, le=MAX_ROUNDS)] = 4
    queries: Annotated[int, Field(strict=True, ge=1, le=MAX_QUERIES)] = 3
    stop: Stop = "adaptive"
    max_seconds: Annotated[float, Field(strict=True, ge=1, le=86_400)] = 600.0


def parse_options(values: Mapping[str, Any]) -> MedRagOptions:
    """Return the validated options of a MedRAG request.

    Raises:
        OptionInvalid: ``param`` names the key.
    """
    return _consistent(validated(MedRagOptions, values, why_none=_LOCAL))


def parse_iterated(values: Mapping[str, Any]) -> IMedRagOptions:
    """Return the validated options of an i-MedRAG request.

    Raises:
        OptionInvalid: ``param`` names the key.
    """
    return _consistent(validated(IMedRagOptions, values, why_none=_LOCAL))


def _consistent(options: _Options) -> _Options:
    if options.rerank > options.k:
        refuse("rerank", "keeps some of the k passages found, so it cannot be more")
    return options


_VERDICTS: Final = frozenset({"yes", "no", "maybe", "unknown", "uncertain", "unclear"})


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
    def verdict_letters(self) -> dict[str, str]:
        """Return the letters of "yes" and "no" where they are the choices, with or without a third; {} for others."""
        letters = {choice.strip(" .").casefold(): one for choice, one in zip(self.choices, self.letters, strict=True)}
        return letters if {"yes", "no"} <= set(letters) <= _VERDICTS else {}

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


def read_question(text: str, options: MedRagOptions) -> ParsedQuestion:
    """Parse a question, with the choices of the options or those that it lists."""
    found, stem = listed_choices(text.strip(), with_repeats=True)
    choices = options.choices or found
    if not choices:
        return ParsedQuestion(one_line(text), "open")
    # A question may consist of its choices alone.
    return ParsedQuestion(one_line(stem) or one_line(text), "multiple_choice", choices)
