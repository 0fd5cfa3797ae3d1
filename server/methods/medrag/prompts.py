"""Provide the prompts of MedRAG and i-MedRAG.

Pure; the wording is ours, the parts are those of the papers.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from server.methods.medrag.chain_of_thought import PromptInputs
from server.methods.medrag.options import Reasoning
from server.methods.medrag.question import ParsedQuestion

_PARTS: Final = (
    "system",
    "system_without",
    "open_reasoned",
    "open_direct",
    "choice_reasoned",
    "choice_direct",
    "iterated_system",
    "iterated_ask",
    "iterated_sub",
)


@dataclass(frozen=True, slots=True)
class Prompts:
    """Hold all instructions by name, read once."""

    parts: dict[str, str]

    @classmethod
    def load(cls) -> Prompts:
        return cls({name: _text(name) for name in _PARTS})

    def answering(self, question: ParsedQuestion, reasoning: Reasoning, context: str) -> PromptInputs:
        """Return the prompt of an answer; ``context`` "" means that there is none.

        Text that many questions share comes first.
        """
        head = f"Passages:\n{context}\n\n" if context else ""
        system = self.parts["system" if context else "system_without"]
        return PromptInputs(system, f"{head}{question.text}\n\n{self.how(question, reasoning)}")

    def how(self, question: ParsedQuestion, reasoning: Reasoning) -> str:
        form = "choice" if question.choices else "open"
        return self.parts[f"{form}_{'reasoned' if reasoning == 'chain_of_thought' else 'direct'}"]


def _text(name: str) -> str:
    return (files("server.methods.medrag") / "prompts" / f"{name}.txt").read_text(encoding="utf-8").strip()
