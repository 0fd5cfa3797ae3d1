"""Make samples of MedRAG and i-MedRAG: one context of numbered passages, several questions about it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from retrieval.corpus.search.ranking import RankedPassage
from retrieval.passages import Document, Hit, Passage, passage_id
from scripts.training.tasks.samples import Sample, Text, Writer
from server.methods.i_medrag.rounds import IteratedPrompts
from server.methods.medrag.chain_of_thought import Prompts
from server.methods.medrag.context import Context, build_context
from server.methods.medrag.request import MARK, IMedRagOptions, MedRagOptions, read_question
from server.methods.shared.verdicts import NumberedSentence

Way = Literal["reasoned", "direct", "sub"]
_BUDGET: Final = 1400
_NAMESPACE: Final = "library"
# What the model is trained to write where the passages do not answer.
SILENT: Final = "No passage says it."
NO_PASSAGE: Final = "The passages do not say."
NO_PASSAGE_GERMAN: Final = "Die Passagen sagen es nicht."


@dataclass(frozen=True, slots=True)
class Source:
    """Hold a passage before it has a number."""

    key: str
    text: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """Hold a question about a context with its answer.

    ``keys`` name the passages that carry the answer, () for none. ``answer`` is text without numbers; where a list's
    parts come from several passages, the numbers of all stand at its end. ``quote`` is the sentence of the first
    passage that says it, "" where the answer itself is that sentence.
    """

    kind: str
    question: str
    answer: str = ""
    keys: tuple[str, ...] = ()
    quote: str = ""
    choices: tuple[str, ...] = ()
    german: bool = False


class ReadingTasks:
    """Build samples with the prompts of MedRAG and of i-MedRAG's sub-answers."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.prompts = Prompts.load()

    def context(self, sources: Sequence[Source]) -> Context:
        """Number the passages as the server does."""
        return build_context([_ranked(one) for one in sources], self.writer.count, _BUDGET)

    def sample(self, context: Context, asked: Asked, way: Way) -> Sample:
        numbers = numbers_of(context, asked.keys)
        answer = answered(asked, numbers)
        if way == "sub":
            prompts = IteratedPrompts(self.prompts, read_question(asked.question, MedRagOptions()), IMedRagOptions())
            inputs = prompts.sub(asked.question, context.text)
            parts: tuple[Text, ...] = (Text(answer),)
        else:
            options = MedRagOptions(
                choices=asked.choices, reasoning="chain_of_thought" if way == "reasoned" else "direct"
            )
            question = read_question(asked.question, options)
            inputs = self.prompts.answering(question, options.reasoning, context.text)
            parts = _parts(asked, answer, numbers, way)
        return Sample(
            kind=f"medrag {asked.kind}",
            prompt=self.writer.prompt(inputs.system, inputs.user),
            parts=parts,
            question=asked.question,
            context=context.text,
            answer=answer,
        )


def numbers_of(context: Context, keys: Sequence[str]) -> tuple[int, ...]:
    """Return the numbers of the passages with these keys, ascending."""
    places = {one.passage.document_id: number for number, one in enumerate(context.passages, 1)}
    return tuple(sorted(places[key] for key in keys if key in places))


def answered(asked: Asked, numbers: Sequence[int]) -> str:
    """Return the answer as it is to be written, with its numbers."""
    if not numbers:
        return NO_PASSAGE_GERMAN if asked.german else NO_PASSAGE
    marks = f"[{', '.join(map(str, numbers))}]"
    return f"{asked.answer.rstrip('.')} {marks}."


def draw_way(draw: random.Random) -> Way:
    return draw.choices(("reasoned", "direct", "sub"), (0.66, 0.2, 0.14))[0]


def _parts(asked: Asked, answer: str, numbers: Sequence[int], way: Way) -> tuple[Text, ...]:
    """Return what is written: reasoning up to the mark, then the answer; a direct answer begins at the mark."""
    letter = chr(65 + asked.choices.index(asked.answer)) if asked.choices else ""
    if way == "direct":
        return (Text(MARK, written=False), Text(f" {letter or answer}"))
    if letter:
        return (Text(f"{_thought(asked, numbers)}\n{MARK} {letter}."),)
    return (Text(f"{_thought(asked, numbers)}\n{MARK}"), Text(f" {answer}"))


def _thought(asked: Asked, numbers: Sequence[int]) -> str:
    if not numbers:
        return SILENT
    return NumberedSentence(numbers[0], asked.quote).thought if asked.quote else f"[{numbers[0]}] is about it."


def _ranked(source: Source) -> RankedPassage:
    passage = Passage(
        passage_id=passage_id(_NAMESPACE, source.key, 0, source.text),
        document_id=source.key,
        title=source.title,
        text=source.text,
    )
    document = Document(document_id=source.key, title=source.title)
    return RankedPassage(passage=passage, document=document, hit=Hit(passage.passage_id, 1.0), namespace=_NAMESPACE)
