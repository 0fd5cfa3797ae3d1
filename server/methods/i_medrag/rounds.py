"""Run the rounds of i-MedRAG as a state machine: their prompts, the queries read from generated text, when to stop.

Pure. The prompt of each round extends the history of the previous one, so that an engine's prefix cache covers all
before it. Generated text is evaluated, searched for or shown as an answer only if it parses in the requested form. Text
that does not parse costs a round its queries, never the run.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from models.engines.base import Engine
from models.types import Grammar
from retrieval.formats.untrusted_input import whole_characters
from server.methods.base import AnswerOutcome
from server.methods.medrag.chain_of_thought import PromptInputs, Prompts
from server.methods.medrag.request import IMedRagOptions, ParsedQuestion
from server.methods.shared.choices import one_line
from server.methods.shared.empty_states import NO_COLLECTION

PairStatus = Literal["answered", "nothing_found", "failed", "cut_off"]
_SETTLED: Final[frozenset[PairStatus]] = frozenset({"answered", "nothing_found"})
StopReason = Literal["", "rounds", "enough", "repeated", "stable", "malformed", "time"]
MAX_QUERY: Final = 400
_LISTED: Final = re.compile(r"^\s*(?:[-*•]|\(?\d{1,2}[.):])\s*")
# A character of a JSON string in a grammar. Escapes are excluded: a repeated alternation of characters and escapes
# costs an engine 58 ms per token, a repeated character class 0.04 ms.
_CHARACTER: Final = r'[^"\\\x00-\x1f]'
_WORDS: Final = re.compile(r"\w+")
# Of a query or an answer in a step, in characters.
_MAX_SHOWN: Final = 240
_WHY: Final[dict[StopReason, str]] = {
    "rounds": "all rounds are done",
    "enough": "the model has enough",
    "repeated": "the model has nothing new to ask",
    "stable": "two rounds of answers did not change the choice",
    "malformed": "no query could be read from what the model wrote",
    "time": "the time for asking is used up",
}
NO_PASSAGE: Final = "no passage was found"
# Prefix of a base model's plan.
PLAN_BEGINS: Final = "JSON:\n"
_ASK_TOKENS: Final = 768
# In characters. Compiling their bounds costs seconds with a vocabulary of 130,000 tokens, so they are few and constant.
# The analysis only serves the queries after it, and each of its tokens adds latency in every round.
_ANALYSIS: Final = 240
_QUERY: Final = 160
_SUB_TOKENS: Final = 256
_LEAST_SUB: Final = 48
_NO_ANSWER: Final = {"nothing_found": "no passage was found", "failed": "no answer: it failed", "cut_off": "no answer"}


@dataclass(frozen=True, slots=True)
class Bounds:
    """Hold the limits of the rounds of one answer; ``letters`` are those of the choices, "" for an open question."""

    rounds: int
    queries: int
    adaptive: bool
    letters: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """Hold the queries of one round, normalized and new.

    ``dropped`` lists the other queries, each with the reason. ``letter`` is the choice that the model currently
    favours.
    """

    analysis: str = ""
    queries: tuple[str, ...] = ()
    dropped: tuple[tuple[str, str], ...] = ()
    enough: bool = False
    letter: str = ""
    malformed: bool = False


@dataclass(frozen=True, slots=True)
class Pair:
    """Hold a query and its answer, which cites passages by the run's numbers.

    ``reason`` states why there is no answer, for the user.
    """

    query: str
    status: PairStatus
    answer: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Rounds:
    """Hold the history of rounds.

    ``plans`` is one longer than ``pairs`` while a round is in progress, and after a stop.
    """

    bounds: Bounds
    question: str
    plans: tuple[Plan, ...] = ()
    pairs: tuple[tuple[Pair, ...], ...] = ()

    @property
    def number(self) -> int:
        """Return the number of the current or next round, from 1."""
        return len(self.pairs) + 1

    @property
    def history(self) -> tuple[Pair, ...]:
        return tuple(pair for round_pairs in self.pairs for pair in round_pairs)

    @property
    def evidence(self) -> tuple[Pair, ...]:
        return tuple(pair for pair in self.history if pair.status == "answered")

    def planned(self, written: str) -> Rounds:
        """Return the rounds with the plan that the model wrote for the next round.

        Without a usable plan, the first round uses the question itself as its query.
        """
        plan = self._clean(_read(written, self.bounds.letters))
        if not plan.queries and not self.pairs:
            plan = replace(plan, queries=(self.question,), enough=False)
        return replace(self, plans=(*self.plans, plan))

    def answered(self, pairs: Sequence[Pair]) -> Rounds:
        return replace(self, pairs=(*self.pairs, tuple(pairs)))

    @property
    def stop(self) -> StopReason:
        """Return the reason why no further query is asked, "" while there is one to ask."""
        if len(self.plans) == len(self.pairs):
            return "rounds" if len(self.pairs) >= self.bounds.rounds else ""
        plan = self.plans[-1]
        if self.pairs and self.bounds.adaptive and plan.enough:
            return "enough"
        if self.bounds.adaptive and self._is_stable:
            return "stable"
        if not plan.queries:
            return "malformed" if plan.malformed else "repeated"
        return ""

    @property
    def _is_stable(self) -> bool:
        """Return whether two consecutive rounds of answers left the choice unchanged.

        The choice of the first plan does not count, since it rests on no passages.
        """
        letters = [plan.letter for plan in self.plans[1:]]
        return len(letters) >= 2 and letters[-1] != "" and letters[-1] == letters[-2]

    def _clean(self, plan: Plan) -> Plan:
        # Failed queries may be asked again; with a fixed number of rounds any may, as in the paper.
        asked = self.history if self.bounds.adaptive else ()
        previous = {normal_form(pair.query) for pair in asked if pair.status in _SETTLED}
        queries: list[str] = []
        dropped: list[tuple[str, str]] = []
        for raw in plan.queries:
            query = one_line(_LISTED.sub("", raw))
            form = normal_form(query)
            if not form:
                dropped.append((query, "empty"))
            elif len(query) > MAX_QUERY:
                dropped.append((query[:MAX_QUERY], "too long"))
            elif form in previous:
                dropped.append((query, "asked before"))
            elif len(queries) >= self.bounds.queries:
                dropped.append((query, "one too many"))
            else:
                previous.add(form)
                queries.append(query)
        return replace(plan, queries=tuple(queries), dropped=tuple(dropped))


def normal_form(query: str) -> str:
    """Return a form that is equal for queries that differ only in case, punctuation and white space."""
    return " ".join(_WORDS.findall(query.casefold()))


@dataclass(frozen=True, slots=True)
class Sizes:
    """Hold the maximum lengths of an analysis and of a query, in characters."""

    analysis: int
    query: int


def plan_grammar(rounds: Rounds, sizes: Sizes) -> Grammar:
    """Return the grammar of a plan: one line of JSON with an analysis first. The first round must have queries.

    Without ``adaptive`` each round has exactly as many queries as its bound.

    A JSON schema would allow free white space between its parts, which small models fill up to their limit. Hence a
    regular expression that accepts one form of JSON only.
    """
    bounds, further = rounds.bounds, ""
    if bounds.adaptive and rounds.pairs:
        further = f', "choice": "[{bounds.letters}]"' if bounds.letters else ""
        further += ', "enough": (true|false)'
    query = f'"{_CHARACTER}{{1,{sizes.query}}}"'
    further_queries = bounds.queries - 1
    queries = f"{query}(, {query}){{{0 if bounds.adaptive else further_queries},{further_queries}}}"
    if further:
        queries = f"({queries})?"
    return Grammar(
        "regex", f'\\{{"analysis": "{_CHARACTER}{{0,{sizes.analysis}}}"{further}, "queries": \\[{queries}\\]\\}}'
    )


def plan_form(rounds: Rounds) -> str:
    """Return the requested JSON form, as the prompt describes it."""
    fields = ['"analysis": "…"']
    if rounds.bounds.adaptive and rounds.pairs:
        fields += ['"choice": "the letter that is best by now"'] if rounds.bounds.letters else []
        fields += ['"enough": true where nothing more needs to be asked, else false']
    return "{" + ", ".join([*fields, '"queries": ["…"]']) + "}"


def _read(written: str, letters: str) -> Plan:
    """Parse a plan, also one that other text surrounds; ``malformed`` marks an unexpected form."""
    written = whole_characters(written)
    start = written.find("{")
    try:
        found, _ = json.JSONDecoder().raw_decode(written, start) if start >= 0 else (None, 0)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        return Plan(malformed=True)
    queries, letter = found.get("queries"), found.get("choice")
    fine = isinstance(queries, list) and all(isinstance(query, str) for query in queries)
    return Plan(
        analysis=one_line(found["analysis"]) if isinstance(found.get("analysis"), str) else "",
        queries=tuple(query for query in queries if isinstance(query, str)) if isinstance(queries, list) else (),
        enough=found.get("enough") is True,
        letter=letter if isinstance(letter, str) and len(letter) == 1 and letter in letters else "",
        malformed=not fine,
    )


@dataclass(frozen=True, slots=True)
class Lengths:
    """Hold the length limits of a plan of queries, a sub-answer and the answer.

    All are in tokens, except ``sizes``, which limits the parts of a plan in characters.
    """

    ask: int
    sub: int
    answer: int
    sizes: Sizes


def plan_lengths(engine: Engine, options: IMedRagOptions, answer: int) -> Lengths:
    """Derive the lengths from the model's context length: a short one gets short plans and sub-answers.

    The lengths are the same for all requests to an engine with the same options, so that grammars are compiled once.
    """
    length = engine.max_model_len
    sample = "A patient with chest pain and dyspnoea is given aspirin and heparin."
    chars_per_token = len(sample) / max(1, len(engine.tokenizer.encode(sample)))
    ask = min(_ASK_TOKENS, length // 6)
    sub = max(_LEAST_SUB, min(_SUB_TOKENS, length // (3 * options.rounds * options.queries)))
    chars = int(ask * chars_per_token)
    query = max(24, min(_QUERY, int(0.35 * chars / options.queries)))
    sizes = Sizes(analysis=max(40, min(_ANALYSIS, int(0.4 * chars))), query=query)
    return Lengths(ask, min(sub, length // 4), answer, sizes)


@dataclass(frozen=True, slots=True)
class IteratedPrompts:
    """Build the prompts of one question."""

    prompts: Prompts
    question: ParsedQuestion
    options: IMedRagOptions

    def ask(self, rounds: Rounds, history: str) -> PromptInputs:
        how = self.prompts.parts["iterated_ask"].replace("{queries}", str(self.options.queries))
        return self._inputs(history, how.replace("{form}", plan_form(rounds)))

    def final(self, history: str) -> PromptInputs:
        return self._inputs(history, self.prompts.how(self.question, self.options.reasoning))

    def sub(self, query: str, context: str) -> PromptInputs:
        """Return the prompt of a sub-answer, passages first: the queries of a round often share them."""
        how = self.prompts.parts["iterated_sub"]
        return PromptInputs(self.prompts.parts["system"], f"Passages:\n{context}\n\nQuestion: {query}\n\n{how}")

    def _inputs(self, history: str, how: str) -> PromptInputs:
        return PromptInputs(self.prompts.parts["iterated_system"], f"{self.question.text}{history}\n\n{how}")


def history_text(pairs: Sequence[Pair], count: Callable[[str], int], room: int) -> tuple[str, int]:
    """Return the pairs as prompt text of at most ``room`` tokens, and the number of oldest pairs left out."""
    entries = [_entry(number, pair) for number, pair in enumerate(pairs, 1)]
    num_entries, used = 0, 0
    for entry in reversed(entries):
        cost = count(entry)
        if used + cost > room:
            break
        used += cost
        num_entries += 1
    return "".join(entries[len(entries) - num_entries :]), len(entries) - num_entries


def _entry(number: int, pair: Pair) -> str:
    """Return a pair with query and answer on one line each, so that generated text cannot begin a part of a prompt."""
    answer = one_line(pair.answer) if pair.status == "answered" else f"({_NO_ANSWER[pair.status]})"
    return f"\n\nAsked {number}: {one_line(pair.query)}\nFound {number}: {answer}"


def plan_step(number: int, plan: Plan) -> str:
    line = f"round {number} asks: {' | '.join(_short(query) for query in plan.queries)}"
    if plan.malformed:
        line += " (read from a plan that is not whole)" if plan.queries else ""
    if plan.dropped:
        why = Counter(reason for _, reason in plan.dropped)
        line += "; not asked: " + ", ".join(f"{count} {reason}" for reason, count in why.items())
    return line


def answer_step(pair: Pair) -> str:
    text = _short(one_line(pair.answer)) if pair.status == "answered" else f"NO ANSWER: {pair.reason}"
    return f"{_short(pair.query)} -> {text}"


def stop_step(reason: StopReason, rounds: Rounds) -> str:
    done = len(rounds.pairs)
    return f"after {done} round{'' if done == 1 else 's'}: {_WHY[reason]}"


def lack_of(names: Sequence[str], rounds: Rounds, reason: StopReason) -> tuple[str, AnswerOutcome]:
    """Return the reason why there is nothing to answer from, "" where there is something, and how the answer ends.

    It is ``not_found`` only where every query searched in vain.
    """
    if not names:
        return NO_COLLECTION, "abstained"
    if rounds.evidence:
        return "", "answered"
    reasons = Counter(pair.reason for pair in rounds.history)
    why = "; ".join(f"{count} of {len(rounds.history)}: {reason}" for reason, count in reasons.items())
    lack = f"No query got an answer from passages ({why})." if why else f"Nothing could be asked: {_WHY[reason]}."
    if reason == "time":
        return lack, "cut"
    if [*reasons] == [NO_PASSAGE]:
        return lack, "not_found"
    return lack, "call_failed" if any(pair.status == "failed" for pair in rounds.history) else "abstained"


def plan_record(number: int, plan: Plan, written: str, prompt_tokens: int) -> dict[str, Any]:
    """Return the trace record of a plan, with the generated text where it is malformed."""
    return {
        "round": number,
        "analysis": plan.analysis,
        "queries": list(plan.queries),
        "dropped": [list(entry) for entry in plan.dropped],
        "enough": plan.enough,
        "choice": plan.letter,
        "malformed": plan.malformed,
        "written": written if plan.malformed else "",
        "prompt_tokens": prompt_tokens,
        "answers": [],
    }


def _short(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
