"""Implement MedRAG: a model answers a medical question from passages of a library.

Xiong G, Jin Q, Lu Z, Zhang A. Benchmarking retrieval-augmented generation for medicine. Findings of ACL 2024; the
conventional RAG of Xiong G, Jin Q, Wang X, Zhang M, Lu Z, Zhang A, PSB 2025, section 3.1:

1. N passages are retrieved for the question, without its choices      ``PassageSource``
2. those that fit the model's context length become the context       ``PassageReader``
3. the model reasons and answers                                       ``Chains``

Direct answers, without a chain of thought, are an option (``reasoning`` "direct").

Differences from the published program: passages are whole, numbered, and by default in the library's order; the letter
of a choice is generated under a grammar, after free reasoning of bounded length; the passages that the answer cites are
listed; without passages, the method abstains; where the model cannot write, or on request, the answer is made of
sentences of the passages (``extractive``).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from server.engine.lifecycle import EngineLifecycle
from server.methods.base import AnswerRequest, Event
from server.methods.medrag.extraction import Extraction
from server.methods.medrag.reading import PassageReader
from server.methods.medrag.request import MedRagOptions, ParsedQuestion, parse_options, read_question
from server.methods.shared.options import refuse_logprobs
from server.methods.shared.passages import Passages, PassageSource
from server.methods.shared.reading.gate import Gate
from server.methods.shared.synthesis import Synthesis, choose_synthesis


class MedRag:
    """Answer medical questions from passages of the server's namespaces."""

    name = "medrag"
    description = "MedRAG: answers medical questions from passages of this server's namespaces, with their sources"

    def __init__(self, lifecycle: EngineLifecycle, passages: PassageSource, gate: Gate, max_answer_tokens: int) -> None:
        self._lifecycle = lifecycle
        self._passages = passages
        self._gate = gate
        self._reader = PassageReader(lifecycle, max_answer_tokens)

    def check(self, ask: AnswerRequest) -> None:
        options = self._options(ask)
        self._synthesis(options)
        self._passages.open(ask).check(options.passage_query)
        refuse_logprobs(ask)

    def answer(self, ask: AnswerRequest) -> AsyncGenerator[Event, None]:
        options = self._options(ask)
        question = read_question(ask.question, options)
        passages = self._passages.open(ask)
        if self._synthesis(options) == "extractive":
            verdicts = self._reader.verdicts(ask)
            extraction = Extraction(self.name, question, options, passages, self._gate, verdicts)
            return extraction.events(self._queries(question))
        return self._written(ask, question, passages)

    def _options(self, ask: AnswerRequest) -> MedRagOptions:
        return parse_options(ask.options)

    def _queries(self, question: ParsedQuestion) -> list[str]:
        """Return the queries of an extractive answer."""
        return [question.stem]

    def _written(self, ask: AnswerRequest, question: ParsedQuestion, passages: Passages) -> AsyncGenerator[Event, None]:
        return self._reader.read(ask, question, self._options(ask), self.name, passages)

    def _synthesis(self, options: MedRagOptions) -> Synthesis:
        return choose_synthesis(options.synthesis, self.name, self._lifecycle.card)
