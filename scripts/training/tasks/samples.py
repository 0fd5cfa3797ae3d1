"""Build samples: prompts by the product's own functions, and what the model is to write behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from models.card import ModelCard
from models.engines.base import Engine
from models.engines.tokenizer import HfTokenizer
from scripts.training.packing import Encoded
from server.methods.shared.generation import PromptFormatter

END: Final = "<|im_end|>"
NO_STATEMENT: Final = "The statements do not say."


@dataclass(frozen=True, slots=True)
class Text:
    """Hold a part of an answer; what is not ``written`` by the model is put in by the server."""

    text: str
    written: bool = True


@dataclass(frozen=True, slots=True)
class Sample:
    """Hold a prompt and the parts of the answer to it.

    ``kind`` names the task; ``question``, ``context`` and ``answer`` are for tests and for scoring.
    """

    kind: str
    prompt: tuple[int, ...]
    parts: tuple[Text, ...]
    question: str = ""
    context: str = ""
    answer: str = ""
    weight: float = 1.0


class _PromptEngine:
    """Stand in for an engine where only prompts are made."""

    max_model_len = 8192

    def __init__(self, tokenizer: HfTokenizer) -> None:
        self.tokenizer = tokenizer


class Writer:
    """Turn prompts and answers into token ids with the model's own chat template."""

    def __init__(self, tokenizer: HfTokenizer) -> None:
        self.tokenizer = tokenizer
        self.engine = cast(Engine, _PromptEngine(tokenizer))
        self.layout = PromptFormatter(self.engine, ModelCard(name="base", source="base", prompt_form="chat"))
        end = tokenizer.special_id(END)
        if end is None:
            raise ValueError(f"the tokenizer has no {END}; training needs a ChatML model")
        self.end = end

    @classmethod
    def load(cls, folder: Path) -> Writer:
        return cls(HfTokenizer.load(str(folder)))

    def prompt(self, system: str, user: str) -> tuple[int, ...]:
        return tuple(self.layout.ids(system, user))

    def messages(self, messages: Sequence[dict[str, Any]]) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode_chat(messages))

    def count(self, text: str) -> int:
        return len(self.tokenizer.encode(text))

    def encoded(self, sample: Sample) -> Encoded:
        """Return the ids part by part, as the server joins them, and the end of the turn."""
        ids, learn = list(sample.prompt), [False] * len(sample.prompt)
        for part in sample.parts:
            new = self.tokenizer.encode(part.text)
            ids += new
            learn += [part.written] * len(new)
        return Encoded((*ids, self.end), (*learn, True), sample.weight)
