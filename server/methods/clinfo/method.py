"""Implement Clinfo.ai: a review of the literature for one question.

Lozano A, Fleming SL, Chiang CC, Shah N. Clinfo.ai: an open-source retrieval-augmented large language model system for
answering medical questions using scientific literature. PSB 2024. The steps are those of the paper's Figure 2:

1. question -> queries in PubMed's syntax             ``build_queries``, or the model under a grammar
2. search, merge, fetch                               ``search_place``, ``merge``, ``fetch``
3. relevant or not, each article                      ``screen``
4. what each article found                            the evidence table
5. synthesis and TL;DR with references                ``extract``, or the model, checked

Differences from the published program: queries are validated and repaired; rankings are fused in a stable order;
retracted articles are no evidence; judgements are constrained to yes and no; the reference of an article is its own,
written by a library; every sentence is held against what it cites; without evidence, the method abstains.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from models.types import GenerateParams
from server.engine.lifecycle import EngineLifecycle
from server.methods.base import AnswerRequest, Event, OptionInvalid, answer_limit
from server.methods.clinfo.generated import Reader
from server.methods.clinfo.judging import Judge, Prompts
from server.methods.clinfo.options import parse_options
from server.methods.clinfo.review import Library, Review
from server.methods.shared.generation import Generations, PromptFormatter
from server.methods.shared.passages import PassageQuery
from server.methods.shared.synthesis import choose_synthesis

# Of the synthesis, as in the paper.
ANSWER_TOKENS: Final = 1024


class Clinfo:
    """Answer questions with a review of the literature."""

    name = "clinfo"
    description = "Clinfo.ai: reviews PubMed's or the gateway's articles for a question, with references"

    def __init__(self, lifecycle: EngineLifecycle, library: Library, max_answer_tokens: int) -> None:
        self._lifecycle = lifecycle
        self._library = library
        self._max_answer_tokens = max_answer_tokens
        self._prompts = Prompts.load()

    def check(self, ask: AnswerRequest) -> None:
        options = parse_options(ask.options)
        choose_synthesis(options.synthesis, self.name, self._lifecycle.card)
        self._library.literature.check(ask, options)
        if options.namespaces:
            self._library.passages.open(ask).check(PassageQuery(namespaces=options.namespaces))
        if ask.sampling.logprobs is not None:
            raise OptionInvalid("logprobs: an answer that is written in several pieces has none", param="logprobs")

    async def answer(self, ask: AnswerRequest) -> AsyncGenerator[Event, None]:
        options = parse_options(ask.options)
        synthesis = choose_synthesis(options.synthesis, self.name, self._lifecycle.card)
        reader = None if synthesis == "extractive" else self.reader_for(ask)
        review = Review(ask, options, synthesis, self._library, reader)
        async with aclosing(review.events()) as events:
            async for event in events:
                yield event

    def reader_for(self, ask: AnswerRequest) -> Reader:
        """Return what reads articles with the model for one request."""
        engine, card = self._lifecycle.get(), self._lifecycle.card
        limit = answer_limit(ask.sampling.max_tokens, ANSWER_TOKENS, self._max_answer_tokens, engine)
        params = GenerateParams(
            max_tokens=min(limit, engine.max_model_len // 2),
            temperature=ask.sampling.temperature or 0.0,
            stop=ask.sampling.stop,
            cache_salt=ask.cache_salt,
            stop_on_repetition=True,
            **ask.sampling.shape,
        )
        layout = PromptFormatter(engine, card, ask.instruction)
        judge = Judge(Generations(engine, ask.request_id), layout, self._prompts, ask.cache_salt)
        return Reader(judge, params)
