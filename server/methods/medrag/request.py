"""Read MedRAG and i-MedRAG requests: their ``arrowhead`` options, and the question, open or with lettered choices.

Unknown keys and wrong values are refused by name. There is no ``egress`` option: retrieval is local, and no part of a
question leaves the machine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

from models.catalog import ModelCard
from models.types import Grammar
from retrieval.corpus.search.ranking import MAX_K, RANKERS, Retriever, is_retriever
from retrieval.corpus.store.base import is_name
from server.methods.base import OptionInvalid
from server.methods.medrag.context import ORDERS, PassageOrder
from server.methods.shared.choices import MAX_CHOICES, are_choices, listed_choices, one_line
from server.methods.shared.passages import PassageQuery
from server.methods.shared.reading.gate import DEFAULT_SENTENCES, MAX_SENTENCES
from server.methods.shared.synthesis import SYNTHESES, Synthesis

Form = Literal["open", "multiple_choice"]
Reasoning = Literal["chain_of_thought", "direct"]
Without = Literal["abstain", "answer"]
Stop = Literal["adaptive", "fixed"]
MAX_CONTEXT_TOKENS: Final = 1_000_000
MAX_SAMPLES: Final = 32
MAX_ROUNDS: Final = 10
MAX_QUERIES: Final = 10
_MAX_NAMESPACES: Final = 64
_Options = TypeVar("_Options", bound="MedRagOptions")
# A predicate for valid values, and its description.
_Rule = tuple[Callable[[Any], bool], str]
_FLAG: Final = (lambda value: isinstance(value, bool), "true or false")
# i-MedRAG has neither voting chains nor a baseline without retrieval.
_NOT_ITERATED: Final = ("retrieval", "samples")
MARK: Final = "Answer:"
# A letter that is not a word: "A" and "I" may begin a sentence.
_LETTER: Final = r"[\s*_(]*([A-Z])(?=[\s*_]*(?:[).:]|\n|$))"
_MARKED: Final = re.compile(f"Answer:{_LETTER}")
_FIRST: Final = re.compile(_LETTER)
_REASON: Final = re.compile(r"[,;.:(–—]|(?:because|since|as|due)\b")
_DOUBT: Final = re.compile(r"\b(?:not|less|unlikely|wrong|incorrect|excluded|however|but|though|although)\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class MedRagOptions:
    """Hold the options of a MedRAG request.

    - ``form``: "auto" for multiple choice where the question lists choices.
    - ``choices``: () reads them from the question.
    - ``k``: number of passages to retrieve; with ``rerank``, that many of them are retained.
    - ``expand``: also search for the synonyms of genes and diseases named in the question.
    - ``context_tokens``: None for the model's own budget or, without one, as many as fit its context length.
    - ``order``: that of the passages in the context.
    - ``retrieval``: False for no passages (the paper's baselines).
    - ``samples``: number of voting chains.
    - ``without_passages``: what to do where no passage is found.
    - ``synthesis``: how the answer is made; None for the default of method and model.
    - ``sentences``: at most so many in an extractive answer.
    """

    form: Form | Literal["auto"] = "auto"
    choices: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    retriever: Retriever | None = None
    k: int = 32
    rerank: int = 0
    expand: bool = False
    context_tokens: int | None = None
    order: PassageOrder = "library"
    reasoning: Reasoning = "chain_of_thought"
    retrieval: bool = True
    samples: int = 1
    without_passages: Without = "abstain"
    references: bool = True
    synthesis: Synthesis | None = None
    sentences: int = DEFAULT_SENTENCES

    @property
    def passage_query(self) -> PassageQuery:
        return PassageQuery(
            namespaces=self.namespaces, retriever=self.retriever, k=self.k, rerank=self.rerank, expand=self.expand
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class IMedRagOptions(MedRagOptions):
    """Hold the options of an i-MedRAG request.

    There are at most ``rounds`` rounds of ``queries`` queries. ``stop`` "adaptive" ends them early when further rounds
    add nothing. ``max_tokens_total`` covers all prompts and all generated text, ``max_seconds`` the whole answer.
    """

    rounds: int = 4
    queries: int = 3
    stop: Stop = "adaptive"
    max_seconds: float = 600.0
    max_tokens_total: int = 400_000


def _number(least: int, most: int) -> _Rule:
    fits = lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= most  # noqa: E731
    return fits, f"a number from {least} to {most}"


def _one_of(*words: str) -> _Rule:
    return lambda value: isinstance(value, str) and value in words, "one of " + ", ".join(words)


_MEDRAG: Final[dict[str, _Rule]] = {
    "form": _one_of("auto", "open", "multiple_choice"),
    "choices": (lambda value: are_choices(value), f"2 to {MAX_CHOICES} different lines of text"),
    "namespaces": (lambda value: are_names(value), f"a list of 1 to {_MAX_NAMESPACES} names"),
    "retriever": (is_retriever, f"one of {', '.join(RANKERS)}, dense:ENCODER, or a list such as bm25+dense+pes2"),
    "k": _number(1, MAX_K),
    "rerank": _number(0, MAX_K),
    "expand": _FLAG,
    "context_tokens": _number(1, MAX_CONTEXT_TOKENS),
    "order": _one_of(*ORDERS),
    "reasoning": _one_of("chain_of_thought", "direct"),
    "retrieval": _FLAG,
    "samples": _number(1, MAX_SAMPLES),
    "without_passages": _one_of("abstain", "answer"),
    "references": _FLAG,
    "synthesis": _one_of(*SYNTHESES),
    "sentences": _number(1, MAX_SENTENCES),
}
_ROUNDS: Final[dict[str, _Rule]] = {
    "rounds": _number(1, MAX_ROUNDS),
    "queries": _number(1, MAX_QUERIES),
    "stop": _one_of("adaptive", "fixed"),
    "max_seconds": (lambda value: _is_seconds(value), "a number of seconds from 1 to 86400"),
    "max_tokens_total": _number(1_000, 100_000_000),
}


def parse_options(values: Mapping[str, Any], card: ModelCard) -> MedRagOptions:
    """Return the validated options of a MedRAG request, with the model's defaults.

    Raises:
        OptionInvalid: ``param`` names the key.
    """
    return _parsed(MedRagOptions, _MEDRAG, _defaults(card) | dict(values))


def parse_iterated(values: Mapping[str, Any], card: ModelCard) -> IMedRagOptions:
    """Return the validated options of an i-MedRAG request, with the model's defaults.

    Raises:
        OptionInvalid: ``param`` names the key.
    """
    known = {key: rule for key, rule in _MEDRAG.items() if key not in _NOT_ITERATED} | _ROUNDS
    return _parsed(IMedRagOptions, known, _defaults(card) | dict(values))


def _defaults(card: ModelCard) -> dict[str, Any]:
    return {} if card.context_tokens is None else {"context_tokens": card.context_tokens}


def _parsed(kind: type[_Options], known: Mapping[str, _Rule], values: Mapping[str, Any]) -> _Options:
    for key, value in values.items():
        if key == "egress":
            _refuse(key, "retrieval is local, so nothing leaves and there is nothing to set")
        if key not in known:
            _refuse(key[:40], f"there is no such option; options are {', '.join(known)}")
        fits, rule = known[key]
        if not fits(value):
            _refuse(key, f"must be {rule}")
    options = kind(**{key: _frozen(value) for key, value in values.items()})
    if options.choices and options.form == "open":
        _refuse("choices", "belong to a multiple_choice question")
    if options.rerank > options.k:
        _refuse("rerank", "keeps some of the k passages found, so it cannot be more")
    return options


def refuse_unread(options: MedRagOptions) -> None:
    """Refuse options of an extractive answer that only a written one can have.

    Raises:
        OptionInvalid: ``param`` names the key.
    """
    if not options.retrieval:
        _refuse("retrieval", "an extractive answer is read from passages, so it cannot be false")
    if options.without_passages == "answer":
        _refuse("without_passages", "an extractive answer is read from passages; without any it can only abstain")
    if options.samples > 1:
        _refuse("samples", "an extractive answer has no chains that could vote")


def _refuse(key: str, why: str) -> None:
    raise OptionInvalid(f"arrowhead.{key}: {why}", param=f"arrowhead.{key}")


def _frozen(value: Any) -> Any:
    return tuple(str(one).strip() for one in value) if isinstance(value, list) else value


def are_names(value: Any) -> bool:
    if not isinstance(value, list) or not 1 <= len(value) <= _MAX_NAMESPACES:
        return False
    return all(isinstance(name, str) and is_name(name) for name in value)


def _is_seconds(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= 86_400


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
