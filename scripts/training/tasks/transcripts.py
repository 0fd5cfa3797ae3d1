"""Make samples of GeneGPT: generated transcripts in the chat form of its prompt."""

from __future__ import annotations

import random

from scripts.embedded.generator import Generator
from scripts.training.tasks.samples import Sample, Text, Writer
from server.methods.genegpt.prompt import MASKS, Prompt

_QUESTION = "Question: "


class TranscriptTasks:
    """Draw transcripts of all kinds that the embedded model is trained on."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._prompt = Prompt.load()

    def group(self, seed: str, number: int, max_tokens: int) -> list[Sample]:
        generator = Generator(random.Random(seed).randrange(2**32))
        samples: list[Sample] = []
        while len(samples) < number:
            sample = self.sample(generator, "")
            if len(sample.prompt) + sum(self._writer.count(part.text) for part in sample.parts) <= max_tokens:
                samples.append(sample)
        return samples

    def sample(self, generator: Generator, kind: str) -> Sample:
        names = list(generator.kinds)
        kind = kind or generator.draw.choices(names, [generator.kinds[name][0] for name in names])[0]
        first, *rest = generator.draw_one(kind)
        question = first.text.removeprefix(_QUESTION).strip()
        parts = [Text(part.text, part.written) for part in rest]
        parts[-1] = Text(parts[-1].text.rstrip())
        prompt = self._writer.messages(self._prompt.chat_form(MASKS["none"], question))
        answer = parts[-1].text.removeprefix("Answer: ")
        return Sample(f"genegpt {kind}", prompt, tuple(parts), question=question, answer=answer)
