"""Phrase questions of each type, in the wordings of ``questions.toml``."""

from __future__ import annotations

import random
import tomllib
from functools import cache
from importlib.resources import files


@cache
def phrases(kind: str) -> tuple[str, ...]:
    return tuple(tomllib.loads((files("scripts.embedded") / "questions.toml").read_text(encoding="utf-8"))[kind])


def phrase_question(draw: random.Random, kind: str, subject: str, organism: str = "human") -> str:
    known = phrases(kind)
    text = (known[0] if draw.random() < 0.4 else draw.choice(known)).format(subject)
    if organism == "human":
        return text
    return f"{text.rstrip('?.').replace(' on human genome', '')} in {organism}?"
