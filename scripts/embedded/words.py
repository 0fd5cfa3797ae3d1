"""List words of synthetic names, titles and summaries. Any text works: the model learns to copy, not facts."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files


@cache
def _words(kind: str) -> list[str]:
    read = tomllib.loads((files("scripts.embedded") / "words.toml").read_text(encoding="utf-8"))
    return str(read[kind]).split()


def prose_words() -> list[str]:
    return sorted(set(_words("prose")))


def common_words() -> list[str]:
    return sorted({*_words("prose"), *(word.lower() for word in _words("common"))})


def affixes() -> tuple[list[str], list[str], list[str]]:
    return _words("prefixes"), _words("stems"), _words("suffixes")
