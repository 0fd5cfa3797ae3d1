"""Write the prompts of MedRAG and i-MedRAG, and generate one chain of thought and its answer.

The wording is ours, the parts are those of the papers. Reasoning is free text of bounded length; a choice's letter is
generated under a grammar.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Final

from models.decoding.types import LoopFinish
from models.types import REPETITION, Delta, GenerateParams
from server.methods.base import Event, TextDelta, TranscriptDelta
from server.methods.medrag.request import MARK, ParsedQuestion, Reasoning
from server.methods.shared.generation import Generations, PromptFormatter, prompt_text

# Prompts a base model to reason; a chat model needs no prefix.
_REASONING: Final = "Reasoning:"
# Tokens for the text between reasoning and answer, and for differences of separate token counts.
_BETWEEN: Final = 16
_PARTS: Final = (
    "system",
    "open_reasoned",
    "open_direct",
    "choice_reasoned",
    "choice_direct",
    "iterated_system",
    "iterated_ask",
    "iterated_sub",
)


@dataclass(frozen=True, slots=True)
class PromptInputs:
    """Hold the system and user parts of a prompt."""

    system: str
    user: str


@dataclass(frozen=True, slots=True)
class Prompts:
    """Hold all instructions by name, read once."""

    parts: dict[str, str]

    @classmethod
    def load(cls) -> Prompts:
        return cls({name: prompt_text("medrag", f"{name}.txt") for name in _PARTS})

    def answering(self, question: ParsedQuestion, reasoning: Reasoning, context: str) -> PromptInputs:
        """Return the prompt of an answer; text that many questions share comes first."""
        user = f"Passages:\n{context}\n\n{question.text}\n\n{self.how(question, reasoning)}"
        return PromptInputs(self.parts["system"], user)

    def how(self, question: ParsedQuestion, reasoning: Reasoning) -> str:
        form = "choice" if question.choices else "open"
        return self.parts[f"{form}_{'reasoned' if reasoning == 'chain_of_thought' else 'direct'}"]


@dataclass(frozen=True, slots=True)
class Chain:
    """Hold one chain: ``answer`` as it was written, ``letter`` "" where it matches none of the choices."""

    reasoning: str
    answer: str
    letter: str
    finish_reason: LoopFinish
    stop_reason: str | int | None


@dataclass(frozen=True, slots=True)
class Chains:
    """Generate chains for one question.

    ``params`` sets all but the bound and the stops of each generation: its ``max_tokens`` is that of reasoning and
    answer together, its stop strings are those of the answer.
    """

    generations: Generations
    layout: PromptFormatter
    question: ParsedQuestion
    params: GenerateParams
    reasoned: bool

    async def events(self, inputs: PromptInputs) -> AsyncGenerator[Event | Chain, None]:
        """Yield the text as it is generated, then the chain; an answer that is a letter is not shown here."""
        reasoning = ""
        prompt = await self.layout.prompt(inputs.system, inputs.user, self.opening)
        bound = self._reasoning_bound(len(prompt))
        last = Delta(finish_reason="stop")
        if bound > 0:
            # What stands behind the mark of a choice belongs to the reasoning: the letter is written again.
            mark = () if self.question.choices else (MARK,)
            params = replace(self.params, max_tokens=bound, stop=(*mark, *self.layout.stops))
            async with aclosing(self.generations.stream(prompt, params)) as deltas:
                async for delta in deltas:
                    if delta.reasoning:
                        yield TextDelta(delta.reasoning, "reasoning")
                    text = delta.text if reasoning else delta.text.lstrip()
                    reasoning += text
                    if text:
                        yield TranscriptDelta(text)
                        yield TextDelta(text, "reasoning")
                    last = delta
            if reasoning:
                yield TextDelta("\n", "reasoning")
            if last.stop_reason == REPETITION and last.finish_reason == "length":
                # An answer from it would be as good as a guess.
                yield Chain(reasoning, "", "", "length", REPETITION)
                return
        async with aclosing(self.answered(inputs, reasoning)) as rest:
            async for event in rest:
                yield event

    async def answered(self, inputs: PromptInputs, reasoning: str) -> AsyncGenerator[Event | Chain, None]:
        """Yield the answer that follows the reasoning, then the chain."""
        prompt = await self.answer_prompt(inputs, reasoning)
        yield TranscriptDelta(f"\n{MARK}" if reasoning.strip() else MARK, "injected")
        answer, last = "", Delta(finish_reason="abort")
        async with aclosing(self.generations.stream(prompt, self._answer_params(reasoning))) as deltas:
            async for delta in deltas:
                if delta.reasoning:
                    yield TextDelta(delta.reasoning, "reasoning")
                text = delta.text if answer else delta.text.lstrip()
                answer += text
                yield TranscriptDelta(delta.text)
                if text and not self.question.choices:
                    yield TextDelta(text)
                last = delta
        letter = self.question.letter_in(answer) if self.question.choices else ""
        yield Chain(reasoning, answer, letter, last.finish_reason or "stop", last.stop_reason)

    async def answer_prompt(self, inputs: PromptInputs, reasoning: str) -> list[int]:
        """Return the prompt's tokens up to the mark of the answer."""
        before = f"{self.opening} {reasoning.strip()}\n".lstrip() if reasoning.strip() else ""
        return await self.layout.prompt(inputs.system, inputs.user, f"{before}{MARK}")

    @property
    def opening(self) -> str:
        """Return how reasoning begins in the prompt, "" where the model needs no prefix."""
        return "" if self.layout.is_chat or not self.reasoned else _REASONING

    def _reasoning_bound(self, prompt: int) -> int:
        """Return the maximum number of reasoning tokens.

        0 means that no reasoning is requested, or that there is no room for it beside an answer.
        """
        if not self.reasoned:
            return 0
        limit = self.params.max_tokens
        answer = self._letter_tokens if self.question.choices else max(1, limit // 4)
        room = self.generations.engine.max_model_len - prompt
        return max(0, min(limit, room) - answer - _BETWEEN)

    def _answer_params(self, reasoning: str) -> GenerateParams:
        if self.question.choices:
            # Reasoning is complete, so the most likely letter is the answer.
            letters = self.question.grammar()
            return replace(self.params, max_tokens=self._letter_tokens, stop=(), grammar=letters, temperature=0.0)
        used = len(self.generations.engine.tokenizer.encode(reasoning)) if reasoning else 0
        limit = max(self.params.max_tokens - used, max(1, self.params.max_tokens // 4))
        return replace(self.params, max_tokens=limit, stop=(*self.params.stop, *self.layout.stops))

    @property
    def _letter_tokens(self) -> int:
        encode = self.generations.engine.tokenizer.encode
        return max(len(encode(f" {letter}")) for letter in self.question.letters) + 1
