"""i-MedRAG's prompts: system, question, history that only grows, then what is to be done. Pure.

Every round's prompt goes on where the last one's history ended, so that an engine's prefix cache has all before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from models.engines.base import Engine
from server.methods.choices import one_line
from server.methods.i_medrag_rounds import Pair, Rounds, Sizes, plan_form
from server.methods.medical_question import Asked
from server.methods.medrag_chain import Given
from server.methods.medrag_options import IMedRagOptions
from server.methods.medrag_prompts import Prompts

# A base model's plan begins behind this word.
PLAN_BEGINS: Final = "JSON:\n"
_ASK_TOKENS: Final = 768
# In characters. Compiling their bounds costs seconds with a vocabulary of 130,000 tokens, so they are few and the same.
# An analysis is for the queries behind it; every token of it is waited for in every round.
_ANALYSIS: Final = 240
_QUERY: Final = 160
_SUB_TOKENS: Final = 256
_LEAST_SUB: Final = 48
_NO_ANSWER: Final = {"nothing_found": "no passage was found", "failed": "no answer: it failed", "cut_off": "no answer"}


@dataclass(frozen=True, slots=True)
class Lengths:
    """How much may be written, in tokens: a plan of queries, a sub-answer, the answer; and the plan's characters."""

    ask: int
    sub: int
    answer: int
    sizes: Sizes


def plan_lengths(engine: Engine, options: IMedRagOptions, answer: int) -> Lengths:
    """From the model's context: a small one gets short plans and sub-answers. The same for all requests to an engine
    with the same options, so that grammars are compiled once."""
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
    prompts: Prompts
    asked: Asked
    options: IMedRagOptions

    def ask(self, rounds: Rounds, history: str) -> Given:
        how = self.prompts.parts["iterated_ask"].replace("{queries}", str(self.options.queries))
        return self._given(history, how.replace("{form}", plan_form(rounds)))

    def final(self, history: str) -> Given:
        return self._given(history, self.prompts.how(self.asked, self.options.reasoning))

    def sub(self, query: str, context: str) -> Given:
        """The passages first: queries of a round often share them."""
        how = self.prompts.parts["iterated_sub"]
        return Given(self.prompts.parts["system"], f"Passages:\n{context}\n\nQuestion: {query}\n\n{how}")

    def _given(self, history: str, how: str) -> Given:
        return Given(self.prompts.parts["iterated_system"], f"{self.asked.text}{history}\n\n{how}")


def history_text(pairs: Sequence[Pair], count: Callable[[str], int], room: int) -> tuple[str, int]:
    """The pairs as they stand in a prompt, and how many of the oldest had to be left out: ``room`` tokens are all."""
    entries = [_entry(number, pair) for number, pair in enumerate(pairs, 1)]
    kept, used = 0, 0
    for entry in reversed(entries):
        cost = count(entry)
        if used + cost > room:
            break
        used += cost
        kept += 1
    return "".join(entries[len(entries) - kept :]), len(entries) - kept


def _entry(number: int, pair: Pair) -> str:
    """One line each: what a model wrote, too, can begin no part of a prompt."""
    answer = one_line(pair.answer) if pair.status == "answered" else f"({_NO_ANSWER[pair.status]})"
    return f"\n\nAsked {number}: {one_line(pair.query)}\nFound {number}: {answer}"
