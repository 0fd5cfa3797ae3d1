"""A verifier without weights, for tests: it counts shared words, and takes a "not" on one side for a contradiction."""

from __future__ import annotations

import re
from collections.abc import Sequence

from models.verdicts import VerdictCalibration
from models.verifiers.base import Judgement, OperatingPoints, Pair
from server.methods.shared.reading.gate import Gate

_WORD = re.compile(r"\w+")
_NOT = frozenset({"not", "no", "never", "without"})

# Yes and no as the model says them, whatever the verifier says.
AS_THE_MODEL = VerdictCalibration((1.0, -3.0, 0.0, 0.0, 0.0), (-1.0, -3.0, 0.0, 0.0, 0.0), 0.4, 0.8)


class LexicalVerifier:
    """Relevance is the share of the query's words that the evidence has."""

    name = "lexical"
    points = OperatingPoints(quote=0.5, answer=0.5, verdict=0.85, label=0.9, screen=0.4, choice=0.36)

    def judge(self, pairs: Sequence[Pair]) -> list[Judgement]:
        return [_judgement(pair) for pair in pairs]


def _judgement(pair: Pair) -> Judgement:
    asked, told = (set(_WORD.findall(text.casefold())) for text in (pair.query, pair.evidence))
    content = asked - _NOT
    share = len(content & told) / len(content) if content else 0.0
    is_turned = bool(asked & _NOT) != bool(told & _NOT)
    return Judgement(share, 0.0 if is_turned else share, share if is_turned else 0.0)


class LexicalJudge:
    """Judges as ``LexicalVerifier`` does, for callers that wait."""

    points = LexicalVerifier.points

    async def judge(self, pairs: Sequence[Pair]) -> list[Judgement]:
        return LexicalVerifier().judge(pairs)


def lexical_gate() -> Gate:
    return Gate(LexicalJudge())
