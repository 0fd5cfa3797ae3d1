"""Make samples of what stands around an answer: follow-ups as questions that stand alone, and i-MedRAG's rounds."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Final, cast

from models.engines.base import Engine
from models.types import Delta, GenerateParams
from scripts.embedded.values import Values
from scripts.training.tasks.frames import Frame, read_frames
from scripts.training.tasks.names import Names
from scripts.training.tasks.reading import NO_PASSAGE
from scripts.training.tasks.samples import Sample, Text, Writer
from scripts.training.tasks.statement_tasks import filled, random_slots
from server.methods.base import Message
from server.methods.i_medrag.rounds import Bounds, IteratedPrompts, Pair, Rounds, history_text
from server.methods.medrag.chain_of_thought import PromptInputs, Prompts
from server.methods.medrag.request import MARK, IMedRagOptions, read_question
from server.methods.shared.conversation.follow_ups import rewritten
from server.methods.shared.generation import Generations, PromptFormatter

# What is asked next about a name of the conversation, and the question that stands alone.
_FOLLOW_UPS: Final = {
    "gene": (("Where is it expressed?", "Where is {} expressed?"), ("And what does it do?", "What does {} do?"),
             ("Is it associated with a disease?", "Is {} associated with a disease?")),
    "drug": (("What are its side effects?", "What are the side effects of {}?"),
             ("Is it safe in pregnancy?", "Is {} safe in pregnancy?"), ("How does it work?", "How does {} work?")),
    "disease": (("How is it treated?", "How is {} treated?"), ("Is it inherited?", "Is {} inherited?"),
                ("Which genes cause it?", "Which genes cause {}?")),
}  # fmt: skip
_ROOM: Final = 1000


class DialogueTasks:
    """Draw conversations and rounds about random names."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._prompts = Prompts.load()

    def group(self, seed: str) -> list[Sample]:
        """Return samples of one kind, which share an instruction."""
        draw = random.Random(seed)
        if draw.random() < 0.4:
            return [self.follow_up(draw) for _ in range(4)]
        return self.rounds(draw)

    def follow_up(self, draw: random.Random) -> Sample:
        slots = random_slots(Names(Values(draw)), draw)
        frame, kind = _drawn(draw, _FOLLOW_UPS)
        answer = filled(draw.choice(frame.states), slots)
        history = [Message("user", filled(draw.choice(frame.asks), slots)), Message("assistant", answer)]
        asked, alone = draw.choice(_FOLLOW_UPS[kind])
        target = alone.format(slots[kind])
        prompt = _recorded_rewriting(self._writer, history, asked, target)
        return Sample("rewriting", prompt, (Text(f" {target}"),), question=asked, context=answer, answer=target)

    def rounds(self, draw: random.Random) -> list[Sample]:
        """Return the plans before and after a sub-answer, and the final answer from it."""
        slots = random_slots(Names(Values(draw)), draw)
        frame, kind = _drawn(draw, _FOLLOW_UPS)
        text = filled(draw.choice(frame.asks), slots)
        options = IMedRagOptions()
        prompts = IteratedPrompts(self._prompts, read_question(text, options), options)
        others = [filled(one, slots) for one in frame.asks if filled(one, slots) != text]
        queries = [text, *others[:1], f"What is known about {slots[kind]}?"]
        bounds = Bounds(options.rounds, options.queries, adaptive=True)
        first = Rounds(bounds, text)
        known = draw.random() < 0.75
        is_so = not frame.denies or draw.random() < 0.5
        said = filled(draw.choice(frame.states if is_so else frame.denies), slots).rstrip(".")
        found = f"{said} [1]." if known else NO_PASSAGE
        pairs = (Pair(queries[0], "answered", found),)
        history, _ = history_text(pairs, self._writer.count, _ROOM)
        second = Rounds(bounds, text, pairs=(pairs,))
        names = " and ".join(value for value in (slots[k] for k in ("drug", "gene", "disease")) if value in text)
        missing = f"What is known about {names} is missing."
        plans = [
            (prompts.ask(first, ""), _plan(missing, queries)),
            (prompts.ask(second, history), _plan("The question is answered.", [], enough=True) if known
             else _plan(missing, queries[1:], enough=False)),
        ]  # fmt: skip
        answer = f"{'Yes' if is_so else 'No'} [1]." if known else NO_PASSAGE
        thought = f"Found 1 says: {said}." if known else "Nothing was found."
        final = (Text(f"{thought}\n{MARK}"), Text(f" {answer}"))
        told: list[tuple[str, PromptInputs, tuple[Text, ...], str]] = [
            ("i-medrag plan", inputs, (Text(plan),), plan) for inputs, plan in plans
        ]
        told.append(("i-medrag answer", prompts.final(history), final, answer))
        return [
            Sample(kind, self._writer.prompt(inputs.system, inputs.user), parts, text, history, right)
            for kind, inputs, parts, right in told
        ]


def _plan(analysis: str, queries: Sequence[str], *, enough: bool | None = None) -> str:
    """Return a plan in the form of the grammar of plans."""
    plan: dict[str, object] = {"analysis": analysis}
    if enough is not None:
        plan["enough"] = enough
    return json.dumps({**plan, "queries": list(queries)}, ensure_ascii=False)


def _drawn(draw: random.Random, kinds: Mapping[str, tuple[tuple[str, str], ...]]) -> tuple[Frame, str]:
    """Return a frame with a question about one of these kinds of names."""
    every = read_frames().frames
    return draw.choice([(one, kind) for one in every for kind in kinds if one.asks and f"{{{kind}}}" in one.asks[0]])


class _RecordingEngine:
    """Keep the prompt of a generation, and answer with a fixed text."""

    max_model_len = 8192

    def __init__(self, writer: Writer, text: str) -> None:
        self.tokenizer = writer.tokenizer
        self.prompt: tuple[int, ...] = ()
        self._text = text

    async def generate(
        self, prompt_ids: Sequence[int], params: GenerateParams, request_id: str
    ) -> AsyncGenerator[Delta, None]:
        self.prompt = tuple(prompt_ids)
        yield Delta(text=self._text, finish_reason="stop")


def _recorded_rewriting(writer: Writer, history: Sequence[Message], question: str, target: str) -> tuple[int, ...]:
    """Return the prompt with which the server asks for the question that stands alone.

    Raises:
        ValueError: the server would not take the target for an answer.
    """
    engine = _RecordingEngine(writer, f" {target}")
    layout = PromptFormatter(cast(Engine, engine), writer.layout.card)
    calls = Generations(cast(Engine, engine), "recorded")
    if asyncio.run(rewritten(history, question, layout, calls, None)) != target:
        raise ValueError(f"{target!r} is no faithful version of {question!r}")
    return engine.prompt
