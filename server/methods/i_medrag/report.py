"""Build i-MedRAG's events beside the model's text: steps, stop reason and the trace record. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from server.methods.base import AnswerOutcome
from server.methods.i_medrag.rounds import Pair, Plan, Rounds, StopReason
from server.methods.i_medrag.sub_answers import NO_PASSAGE, SubAnswer
from server.methods.medrag.context import passage_record
from server.methods.medrag.options import MAX_QUERIES, IMedRagOptions
from server.methods.medrag.question import ParsedQuestion
from server.methods.medrag.report import listed
from server.methods.shared.choices import one_line
from server.methods.shared.passages import Gathered

_MAX_SHOWN: Final = 240
_WHY: Final[dict[StopReason, str]] = {
    "rounds": "all rounds are done",
    "enough": "the model has enough",
    "repeated": "the model has nothing new to ask",
    "stable": "two rounds of answers did not change the choice",
    "malformed": "no query could be read from what the model wrote",
    "time": "the time for asking is used up",
    "tokens": "no tokens are left for another round",
}


def asks(number: int, plan: Plan) -> str:
    line = f"round {number} asks: {' | '.join(_short(query) for query in plan.queries)}"
    if plan.malformed:
        line += " (read from a plan that is not whole)" if plan.queries else ""
    if plan.dropped:
        why = Counter(reason for _, reason in plan.dropped)
        line += "; not asked: " + ", ".join(f"{count} {reason}" for reason, count in why.items())
    return line


def finds(number: int, gathered: Gathered) -> str:
    hits = ", ".join(str(len(found)) for found in gathered.lists)
    return f"round {number} finds {hits} passages by {gathered.way} in {listed(gathered.namespaces)}"


def answers(pair: Pair) -> str:
    text = _short(one_line(pair.answer)) if pair.status == "answered" else f"NO ANSWER: {pair.reason}"
    return f"{_short(pair.query)} -> {text}"


def stops(reason: StopReason, rounds: Rounds) -> str:
    done = len(rounds.pairs)
    return f"after {done} round{'' if done == 1 else 's'}: {_WHY[reason]}"


def lack(names: Sequence[str], rounds: Rounds, reason: StopReason) -> str:
    """Return the reason why there is nothing to answer from, "" where there is something."""
    if not names:
        return "There is no namespace on this server that this request may read."
    if rounds.evidence:
        return ""
    if not rounds.history:
        return f"Nothing could be asked: {_WHY[reason]}."
    reasons = Counter(pair.reason for pair in rounds.history)
    why = "; ".join(f"{count} of {len(rounds.history)}: {reason}" for reason, count in reasons.items())
    return f"No query got an answer from passages ({why})."


def outcome_of_lack(names: Sequence[str], rounds: Rounds, reason: StopReason) -> AnswerOutcome:
    """Return the outcome where ``lack`` has a reason: only where every query searched in vain is nothing there."""
    if not names:
        return "abstained"
    if reason in ("time", "tokens"):
        return "cut"
    if rounds.history and all(pair.status == "nothing_found" for pair in rounds.history):
        return "not_found" if all(pair.reason == NO_PASSAGE for pair in rounds.history) else "abstained"
    return "call_failed" if any(pair.status == "failed" for pair in rounds.history) else "abstained"


def queries_without_model(question: ParsedQuestion) -> list[str]:
    """Return the queries of an extractive answer: the question, and with each of the first choices.

    Follow-up questions are written by a model.
    """
    return [question.stem, *(f"{question.stem} {choice}" for choice in question.choices[:MAX_QUERIES])]


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


def sub_record(sub: SubAnswer) -> dict[str, Any]:
    """Return the trace record of a sub-answer, with the passages by name: their texts are in the namespace."""
    context = sub.context
    pairs = zip(context.ranks, context.passages, strict=True)
    return {
        "query": sub.pair.query,
        "status": sub.pair.status,
        "answer": sub.pair.answer,
        "told": sub.pair.reason,
        **sub.record,
        "context_tokens": context.tokens,
        "left_out": context.left_out + context.too_long,
        "passages": [passage_record(one, number=n, rank=rank) for n, (rank, one) in enumerate(pairs, 1)],
    }


def details_of(question: ParsedQuestion, options: IMedRagOptions) -> dict[str, Any]:
    return {
        "method": "i-medrag",
        "synthesis": "generated",
        "options": asdict(options),
        "form": question.form,
        "choices": list(question.choices),
        "namespaces": [],
        "retriever": "",
        "rounds": [],
    }


def _short(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
