"""Provide the prompts of WeiseEule; the wording is ours."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Prompts:
    """Hold the instructions, read once."""

    system: str
    answer: str
    keywords_system: str
    keywords: str
    summary_system: str
    summary: str

    @classmethod
    def load(cls) -> Prompts:
        names = ("system", "answer", "keywords_system", "keywords", "summary_system", "summary")
        return cls(*map(_text, names))

    def user(self, question: str, context: str) -> str:
        """Return the user's part of an answer's prompt; text that many questions share comes first."""
        return f"Passages:\n{context}\n\nQuestion: {question}\n\n{self.answer}"

    def summary_user(self, text: str, context: str, most: int) -> str:
        """Return the user's part of the prompt for an article's summary."""
        return f"Passages:\n{context}\n\nText: {text}\n\n{self.summary.format(most=most)}"


def _text(name: str) -> str:
    return (files("server.methods.weiseeule") / "prompts" / f"{name}.txt").read_text(encoding="utf-8").strip()
