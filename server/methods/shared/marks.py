"""Read and write the marks ``[n]`` by which a text cites its sources, and keep a source's own marks apart. Pure."""

from __future__ import annotations

import re
from typing import Final

from server.methods.shared.sentences import plain_marks

MARK: Final = re.compile(r"\[\s*(\d{1,4}(?:\s*[,;–-]\s*\d{1,4})*)\s*\]")
_PART: Final = re.compile(r"(\d+)(?:\s*[–-]\s*(\d+))?")
# A longer range of numbers is not a citation.
_MAX_SPAN: Final = 100
# Passages must not contain the syntax of our prompts: passage numbers, and words that begin a part.
_PARTS: Final = re.compile(
    r"(?im)^([ \t>*#_-]*(?:final answer|answer|question|query|choices|options|passages|reasoning|"
    r"instructions?|system|user|assistant)[ \t*_]*):"
)


def numbers_in(text: str) -> tuple[int, ...]:
    """Return the numbers in "[2]", "[1, 3]" and "[2-4]", each once, in order of appearance."""
    numbers: dict[int, None] = {}
    for mark in MARK.finditer(text):
        for part in _PART.finditer(mark[1]):
            first, last = int(part[1]), int(part[2] or part[1])
            if first <= last <= first + _MAX_SPAN:
                numbers.update(dict.fromkeys(range(first, last + 1)))
    return tuple(numbers)


def renumbered(text: str, numbers: dict[int, int]) -> str:
    """Replace the numbers of each mark by those of ``numbers``; remove numbers without an entry."""

    def mark(found: re.Match[str]) -> str:
        new = [numbers[old] for old in numbers_in(found[0]) if old in numbers]
        return f"[{', '.join(map(str, new))}]" if new else ""

    return re.sub(r" +(?=[.,;:]|$)", "", MARK.sub(mark, text))


def sanitize(text: str) -> str:
    """Return a passage's text without anything that reads as part of a prompt; its lines are preserved and indented."""
    text = plain_marks(_PARTS.sub(r"\1 –", text))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return "\n   ".join(line for line in lines if line)
