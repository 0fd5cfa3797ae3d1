"""Build i-MedRAG's prompts: system, question, append-only history, then the instruction. Pure.

The prompt of each round extends the history of the previous one, so that an engine's prefix cache covers all before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from models.engines.base import Engine
from server.methods.i_medrag.rounds import Pair, Rounds, Sizes, plan_form
from server.methods.medrag.chain_of_thought import PromptInputs
from server.methods.medrag.options import IMedRagOptions
from server.methods.medrag.prompts import Prompts
from server.methods.medrag.question import ParsedQuestion
from server.methods.shared.choices import one_line

# Prefix of a base model's plan.
PLAN_BEGINS: Final = "JSON:\n"
_ASK_TOKENS: Final = 768
# In characters. Compiling their bounds costs seconds with a vocabulary of 130,000 tokens, so they are few and constant.
# The analysis only serves the queries after it, and each of its tokens adds latency in every round.
_ANALYSIS: Final = 240
_QUERY: Final = 160
_SUB_TOKENS: Final = 256
_LEAST_SUB: Final = 48
_NO_ANSWER: Final = {
    "nothing_found": "no passage was found",
    "not_told": "the passages do not say",
    "failed": "no answer: it failed",
    "cut_off": "no answer",
}


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
