"""Read what generated passages can state: sentences, their negations, and questions about them.

Names in braces are drawn at random: {drug}, {gene}, {disease}, {tissue}, {symptom}, {bacterium}, {number}, {year} and
second ones ({drug2}). A sentence of ``denies`` contradicts the frame, ``inverts`` asks for the opposite of ``asks``.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Frame:
    """Hold one kind of statement.

    ``states``: sentences that say it; ``denies``: sentences that say it is not so; ``asks``: questions whose answer is
    yes where it is so; ``inverts``: questions whose answer is no where it is so and yes where it is denied by
    ``inverse``; ``facts``: questions with the slot that answers them, asked of ``states`` only; ``german``: yes/no
    questions in German.
    """

    states: tuple[str, ...]
    denies: tuple[str, ...]
    asks: tuple[str, ...]
    inverse: tuple[str, ...] = ()
    inverts: tuple[str, ...] = ()
    facts: Pairs = ()
    german: tuple[str, ...] = ()
    german_facts: Pairs = ()


@dataclass(frozen=True, slots=True)
class FrameFile:
    """Hold frames with sentences that stand beside what they state, and titles of passages."""

    frames: tuple[Frame, ...]
    openers: tuple[str, ...] = ()
    titles: tuple[str, ...] = ()


@cache
def read_frames(name: str = "frames.toml") -> FrameFile:
    read = tomllib.loads((files("scripts.training.tasks") / name).read_text(encoding="utf-8"))
    frames = tuple(Frame(**{key: _frozen(value) for key, value in row.items()}) for row in read["frame"])
    return FrameFile(frames, _frozen(read.get("openers", [])), _frozen(read.get("titles", [])))


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
