"""Answer the questions of ``default_model.py`` with the product's own engine, chains and choice of sentences."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Final

from models.catalog import ModelCard, context_length, with_adapter
from models.encoders.base import EncoderOptions, PassageText
from models.encoders.registry import create_encoder
from models.engines.base import EngineOptions
from models.engines.registry import create_engine
from models.types import GenerateParams
from scripts.training.tasks.samples import Sample
from server.methods.medrag.chain_of_thought import Chain, Chains, Prompts
from server.methods.medrag.context import Context
from server.methods.medrag.evidence_reasoning import ChosenSentences, EvidenceChain, best_sentences
from server.methods.medrag.request import MedRagOptions, read_question
from server.methods.shared.generation import Generations, PromptFormatter
from server.methods.shared.passages import SentenceScores
from server.methods.shared.verdicts import VerdictPrompt, VerdictReader

_ENCODER: Final = "minilm"
_MAX_TOKENS: Final = 172
_CLOSED_TOKENS: Final = 16


class BuiltInEncoder:
    """Compare sentences with a question by the encoder that the server has without further models."""

    def __init__(self) -> None:
        self._encoder = create_encoder(_ENCODER, EncoderOptions(device="cpu"))

    async def compare(self, question: str, sentences: Sequence[str]) -> SentenceScores:
        vectors = self._encoder.encode_passages([PassageText("", sentence) for sentence in sentences])
        cosines = vectors @ self._encoder.encode_queries([question])[0]
        return SentenceScores(encoder=_ENCODER, cosines=tuple(map(float, cosines)))


class ServedReader:
    """Answer with the transformers engine as it is served, ``batch`` questions at a time."""

    def __init__(self, base: Path, adapter: Path | None, batch: int) -> None:
        card = ModelCard(name="small", source=str(base), prompt_form="chat", context_length=context_length(base))
        self.card = card if adapter is None else with_adapter(card, adapter)
        self._engine = create_engine("transformers", self.card, EngineOptions(max_model_len=4096, max_num_seqs=batch))
        self._layout = PromptFormatter(self._engine, self.card)
        self._prompts, self._verdict_prompt = Prompts.load(), VerdictPrompt.load()
        self._encoder = BuiltInEncoder()
        self._batch, self._num_asked = batch, 0

    def answers(self, questions: Sequence[tuple[Sample, Context]]) -> Iterator[list[tuple[str, str]]]:
        """Yield reasoning and answer of each question, batch by batch; one without a context is a closed form."""
        with asyncio.Runner() as runner:
            runner.run(self._engine.start())
            try:
                for start in range(0, len(questions), self._batch):
                    yield runner.run(self._some(questions[start : start + self._batch]))
            finally:
                runner.run(self._engine.close())

    async def _some(self, questions: Sequence[tuple[Sample, Context]]) -> list[tuple[str, str]]:
        return list(await asyncio.gather(*(self._one(sample, context) for sample, context in questions)))

    async def _one(self, sample: Sample, context: Context) -> tuple[str, str]:
        self._num_asked += 1
        generations = Generations(self._engine, f"reading-{self._num_asked}")
        if not context.passages:
            params = GenerateParams(max_tokens=_CLOSED_TOKENS, stop=("\n",))
            return "", (await generations.write(list(sample.prompt), params)).text.strip()
        question = read_question(sample.question, MedRagOptions(form="open"))
        inputs = self._prompts.answering(question, "chain_of_thought", context.text)
        params = GenerateParams(max_tokens=_MAX_TOKENS, stop_on_repetition=True)
        chains = Chains(generations, self._layout, question, params, True)
        options = MedRagOptions(form="open")
        sentences: ChosenSentences | None = None
        if self.card.evidence_reasoning:
            sentences = await best_sentences(question.stem, context, self._encoder.compare, options.sentences)
        verdicts = VerdictReader(generations, self._layout, self._verdict_prompt, self.card, None)
        writing = EvidenceChain(chains, sentences, verdicts) if sentences is not None else chains
        async with aclosing(writing.events(inputs)) as events:
            async for event in events:
                if isinstance(event, Chain):
                    return event.reasoning.strip(), event.answer.strip()
        return "", ""
