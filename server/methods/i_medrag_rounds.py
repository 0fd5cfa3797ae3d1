"""The rounds of i-MedRAG as a state machine: how a model's text becomes queries, and when they are enough. Pure.

No text of a model is evaluated, searched for with or shown as an answer unless it came out of the form that was asked
for; what is no such form costs a round its queries, never the run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from models.types import Grammar
from server.methods.choices import one_line

PairStatus = Literal["answered", "nothing_found", "failed", "cut_off"]
StopReason = Literal["", "rounds", "enough", "repeated", "stable", "malformed", "time", "tokens"]
MAX_QUERY: Final = 400
_LISTED: Final = re.compile(r"^\s*(?:[-*•]|\(?\d{1,2}[.):])\s*")
_QUERIES: Final = re.compile(r'"queries"\s*:\s*\[')
_STRING: Final = re.compile(r'\s*,?\s*("(?:[^"\\\x00-\x1f]|\\.)*")')
# Of a JSON string, in a grammar. Escapes are left out: a repeated choice between characters and escapes costs an engine
# 58 ms a token, a repeated class of characters 0.04 ms.
_CHARACTER: Final = r'[^"\\\x00-\x1f]'
_WORDS: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of the rounds of one answer. ``letters``: of the choices, "" for an open question."""

    rounds: int
    queries: int
    adaptive: bool
    letters: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """One round's queries, clean and new. ``dropped``: the others, each with the reason. ``letter``: the choice that
    the model takes for the best by now."""

    analysis: str = ""
    queries: tuple[str, ...] = ()
    dropped: tuple[tuple[str, str], ...] = ()
    enough: bool = False
    letter: str = ""
    malformed: bool = False


@dataclass(frozen=True, slots=True)
class Pair:
    """A query and its answer, which cites by the numbers of the run. ``told``: why there is none, for the reader."""

    query: str
    status: PairStatus
    answer: str = ""
    told: str = ""


@dataclass(frozen=True, slots=True)
class Rounds:
    """What has been asked so far. ``plans`` is one longer than ``pairs`` while a round goes on, and at a stop."""

    bounds: Bounds
    question: str
    plans: tuple[Plan, ...] = ()
    pairs: tuple[tuple[Pair, ...], ...] = ()

    @property
    def number(self) -> int:
        """Of the round that is next, or goes on; from 1."""
        return len(self.pairs) + 1

    @property
    def history(self) -> tuple[Pair, ...]:
        return tuple(pair for round_pairs in self.pairs for pair in round_pairs)

    @property
    def evidence(self) -> tuple[Pair, ...]:
        return tuple(pair for pair in self.history if pair.status == "answered")

    def planned(self, written: str) -> Rounds:
        """With the plan that a model wrote for the next round. Without a usable one, the first round asks the question
        itself."""
        plan = self._clean(_read(written, self.bounds.letters))
        if not plan.queries and not self.pairs:
            plan = replace(plan, queries=(self.question,), enough=False)
        return replace(self, plans=(*self.plans, plan))

    def answered(self, pairs: Sequence[Pair]) -> Rounds:
        return replace(self, pairs=(*self.pairs, tuple(pairs)))

    @property
    def stop(self) -> StopReason:
        """Why no (further) query is asked, "" while there is something to ask."""
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
        """Two rounds of answers on end left the choice what it was; that of the first plan rests on nothing."""
        letters = [plan.letter for plan in self.plans[1:]]
        return len(letters) >= 2 and letters[-1] != "" and letters[-1] == letters[-2]

    def _clean(self, plan: Plan) -> Plan:
        # What failed may be asked again.
        asked = {normal_form(pair.query) for pair in self.history if pair.status in ("answered", "nothing_found")}
        kept: list[str] = []
        dropped: list[tuple[str, str]] = []
        for raw in plan.queries:
            query = one_line(_LISTED.sub("", raw))
            form = normal_form(query)
            if not form:
                dropped.append((query, "empty"))
            elif len(query) > MAX_QUERY:
                dropped.append((query[:MAX_QUERY], "too long"))
            elif form in asked:
                dropped.append((query, "asked before"))
            elif len(kept) >= self.bounds.queries:
                dropped.append((query, "one too many"))
            else:
                asked.add(form)
                kept.append(query)
        return replace(plan, queries=tuple(kept), dropped=tuple(dropped))


def normal_form(query: str) -> str:
    """Equal for queries that differ in case, punctuation and blanks alone."""
    return " ".join(_WORDS.findall(query.casefold()))


@dataclass(frozen=True, slots=True)
class Sizes:
    """Most characters of an analysis and of a query."""

    analysis: int
    query: int


def plan_grammar(rounds: Rounds, sizes: Sizes) -> Grammar:
    """One line of JSON: an analysis first, then what it comes to. The first round must ask.

    A schema would leave white space between its parts free, and small models fill it until their bound: hence an
    expression that has JSON of one form alone.
    """
    bounds, further = rounds.bounds, ""
    if bounds.adaptive and rounds.pairs:
        further = f', "choice": "[{bounds.letters}]"' if bounds.letters else ""
        further += ', "enough": (true|false)'
    query = f'"{_CHARACTER}{{1,{sizes.query}}}"'
    queries = f"{query}(, {query}){{0,{bounds.queries - 1}}}"
    if further:
        queries = f"({queries})?"
    return Grammar(
        "regex", f'\\{{"analysis": "{_CHARACTER}{{0,{sizes.analysis}}}"{further}, "queries": \\[{queries}\\]\\}}'
    )


def plan_form(rounds: Rounds) -> str:
    """The JSON that is asked for, as the model is told of it."""
    fields = ['"analysis": "…"']
    if rounds.bounds.adaptive and rounds.pairs:
        fields += ['"choice": "the letter that is best by now"'] if rounds.bounds.letters else []
        fields += ['"enough": true where nothing more needs to be asked, else false']
    return "{" + ", ".join([*fields, '"queries": ["…"]']) + "}"


def _read(written: str, letters: str) -> Plan:
    """Also of JSON that was cut off, or stands in other text; ``malformed`` where it is not what was asked for."""
    start = written.find("{")
    try:
        found, _ = json.JSONDecoder().raw_decode(written, start) if start >= 0 else (None, 0)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        return Plan(queries=_cut_off(written), malformed=True)
    queries, letter = found.get("queries"), found.get("choice")
    fine = isinstance(queries, list) and all(isinstance(query, str) for query in queries)
    return Plan(
        analysis=one_line(found["analysis"]) if isinstance(found.get("analysis"), str) else "",
        queries=tuple(query for query in queries if isinstance(query, str)) if isinstance(queries, list) else (),
        enough=found.get("enough") is True,
        letter=letter if isinstance(letter, str) and len(letter) == 1 and letter in letters else "",
        malformed=not fine,
    )


def _cut_off(written: str) -> tuple[str, ...]:
    """The whole strings of a list of queries whose end is missing."""
    opened = _QUERIES.search(written)
    queries: list[str] = []
    place = opened.end() if opened else len(written)
    while found := _STRING.match(written, place):
        place = found.end()
        try:
            queries.append(json.loads(found[1]))
        except ValueError:
            break
    return tuple(queries)
