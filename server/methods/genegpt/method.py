"""Implement GeneGPT: a model answers questions by writing NCBI calls within its text.

Jin Q, Yang Y, Chen Q, Lu Z. GeneGPT: augmenting large language models with domain tools for improved access to
biomedical information. Bioinformatics 40(2), 2024. The steps are those of the paper's Figure 2:

1. prompt <- header (instruction, documentation, demonstrations) + question      ``_prompt_ids``
2. the model generates until it has written a call, ``[URL]->``                  the interception loop
3. the last URL is called and its result inserted after the arrow; back to 2     the session
4. a blank line ends the answer, which is the text after the last "Answer:"      ``_stops``, ``AnswerSplitter``

Unlike in the published program a call is validated and rebuilt, never fetched as written; results are condensed; the
header is constant, so that all requests share its cached prefix. A sequence is aligned only if the question has it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Annotated, Any, Final, Literal, Protocol

from pydantic import AfterValidator, Field

from models.card import ModelCard, Summaries
from models.decoding.call_loop import LoopRequest
from models.decoding.driver import run
from models.decoding.grammar import call_grammar, forced_call_grammar
from models.decoding.types import (
    CallFinished,
    CallHandler,
    CallStarted,
    CallSyntax,
    LoopDone,
    LoopEvent,
    LoopLimits,
    LoopUsage,
    TextSampled,
)
from models.engines.base import Engine
from models.types import GenerateParams, Grammar
from retrieval.ncbi.calls.urls import ALL_ENDPOINTS, ANYTHING, EUTILS_ENDPOINTS, Searched, call_regex, looks_like_call
from server.engine.lifecycle import EngineLifecycle
from server.methods.base import (
    AnswerRequest,
    CallMade,
    CallReplied,
    Event,
    OptionInvalid,
    Step,
    TextDelta,
    TranscriptDelta,
    add_usage,
    answer_limit,
    plain_ids,
    uses_chat_template,
)
from server.methods.genegpt.answer_splitter import AnswerSplitter
from server.methods.genegpt.judging import ReadingLedger
from server.methods.genegpt.parts import PartsLedger, numbered
from server.methods.genegpt.prompt import COT_TRIGGER, MASKS, Prompt, one_line, resolve_mask
from server.methods.genegpt.questions import ParsedQuestion, QuestionReader, has_identifier
from server.methods.genegpt.report import Ledger
from server.methods.shared.call_lines import call_line, summary
from server.methods.shared.options import Flag, refuse, validated
from server.types import EgressMode

# What the model writes between two replies; a call has about 60 tokens, the reasoning of a hop as many.
_OWN_TOKENS: Final = 512
# Of a model that was trained for look-ups alone: a call with its margin, the longest one where each digit is a token,
# and calls of one answer by their length.
_LOOKUP_TOKENS: Final = 128
_LONGEST_LOOKUP: Final = (
    "[https://eutils.ncbi.nlm.nih.gov/entrez/eutils/esummary.fcgi?db=omim&retmax=20&retmode=json&id="
    f"{','.join(['123456789'] * 20)}]->"
)
_LOOKUP_CALLS: Final = 3
_MULTI_HOP_CALLS: Final = 8

GrammarMode = Literal["off", "calls", "grounded"]


def _mask(value: str) -> str:
    if (mask := resolve_mask(value)) is None:
        raise ValueError("must be full, slim, none, or six digits 0/1")
    return mask


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneGptOptions:
    """Hold the options of a GeneGPT request.

    - ``mask``: six digits.
    - ``grammar``: ``calls`` allows only well-formed calls, ``grounded`` also only sequences that occur in the question.
    - ``egress``: None for the mode of the request's key.
    """

    mask: Annotated[str, AfterValidator(_mask)]
    max_calls: Annotated[int, Field(strict=True, ge=0)]
    grammar: GrammarMode = "grounded"
    references: Flag = True
    egress: EgressMode | None = None


def parse_options(values: Mapping[str, Any], *, card: ModelCard, max_calls: int) -> GeneGptOptions:
    """Return the validated options; defaults are the model's.

    ``max_calls`` is the server's limit and the default; a request can lower it.

    Raises:
        OptionInvalid: ``param`` names the key.
    """
    mask = resolve_mask(card.genegpt_mask) or "001001"
    usual = {"mask": mask, "max_calls": max_calls}
    options = validated(GeneGptOptions, usual | dict(values))
    if options.max_calls > max_calls:
        refuse("max_calls", f"must be a number from 0 to {max_calls}")
    return options


SYNTAX = CallSyntax(opener="[https://", closer="]->", is_call=looks_like_call)
_SEQUENCE = re.compile(r"(?<![A-Za-z])[ACGTN]{20,2000}(?![A-Za-z])", re.IGNORECASE)


class Lookups(Protocol):
    """Open a call session for each answer."""

    def check(self, ask: AnswerRequest, options: GeneGptOptions) -> None:
        """Check that the request may make its calls.

        Raises:
            ArrowheadError: the request exceeds the permissions of its key.
        """

    def open(self, ask: AnswerRequest, question: str, options: GeneGptOptions, summaries: Summaries) -> CallHandler:
        """Return the session of one answer.

        ``summaries``: how much of the genes' prose summaries replies contain, where the question leaves room for prose.
        """


class GeneGpt:
    """Answer genomics questions with NCBI calls made during generation.

    ``lookups`` opens the session of each answer, with the question as it appears in the prompt. ``questions`` reads
    them for a model that was trained for look-ups alone.
    """

    name = "genegpt"
    description = "GeneGPT: answers genomics questions with NCBI E-utilities and BLAST calls made in mid-sentence"

    def __init__(
        self,
        lifecycle: EngineLifecycle,
        lookups: Lookups,
        questions: QuestionReader,
        limits: LoopLimits,
        max_answer_tokens: int,
    ) -> None:
        self._lifecycle = lifecycle
        self._lookups = lookups
        self._questions = questions
        self._limits = limits
        self._max_answer_tokens = max_answer_tokens
        self._prompt = Prompt.load()

    async def warm_up(self, engine: Engine) -> None:
        """Compile the grammar of calls, which takes seconds with a vocabulary of 130,000 tokens."""
        calls = call_regex(endpoints=EUTILS_ENDPOINTS)
        params = GenerateParams(max_tokens=1, grammar=call_grammar(calls, engine.tokenizer))
        async for _ in engine.generate(engine.tokenizer.encode("Question: "), params, "warm-up"):
            pass

    def check(self, ask: AnswerRequest) -> None:
        self._lookups.check(ask, self._options(ask))
        if ask.sampling.logprobs is not None and ask.prompt is None:
            raise OptionInvalid(
                "logprobs: the answer of a method is a part of its transcript; /v1/completions reports them",
                param="logprobs",
            )

    async def answer(self, ask: AnswerRequest) -> AsyncGenerator[Event, None]:
        options = self._options(ask)
        only_reads = not self._lifecycle.card.is_general
        written = one_line(ask.question)
        parsed = self._questions.read(written) if only_reads else ParsedQuestion(written)
        if parsed.parts:
            async with aclosing(self._answer_parts(ask, options, parsed)) as events:
                async for event in events:
                    yield event
            return
        if (question := parsed.text) != written:
            yield Step(f"the model is asked: {question}")
        splitter = AnswerSplitter(multi_hop=COT_TRIGGER in question)
        shows = options.references
        ledger = ReadingLedger(parsed, with_references=shows) if only_reads else Ledger(question, with_references=shows)
        async with aclosing(self._steps(ask, options, parsed)) as steps:
            async for step in steps:
                if isinstance(step, CallFinished):
                    ledger.add(step)
                for event in _events(step, splitter):
                    for shown in ledger.shown(event):
                        yield shown
                if isinstance(step, LoopDone):
                    for event in ledger.ending(step, splitter.answer, asdict(options)):
                        yield event

    async def _answer_parts(
        self, ask: AnswerRequest, options: GeneGptOptions, parsed: ParsedQuestion
    ) -> AsyncGenerator[Event, None]:
        """Look up the parts of a question one after the other; the limit of calls is for all of them."""
        whole, usage = PartsLedger(parsed, with_references=options.references), LoopUsage()
        for number, part in enumerate(parsed.parts):
            yield Step(f"the model is asked: {part.text}")
            before = whole.num_calls
            splitter, ledger = AnswerSplitter(multi_hop=False), ReadingLedger(part, with_references=False)
            own = replace(ask, request_id=f"{ask.request_id}-{number}")
            left = replace(options, max_calls=options.max_calls - before)
            async with aclosing(self._steps(own, left, part)) as steps:
                async for step in steps:
                    if isinstance(step, CallFinished):
                        ledger.add(step)
                        whole.add(step)
                    for event in _events(numbered(step, before), splitter):
                        for shown in ledger.shown(event):
                            yield shown
                    if isinstance(step, LoopDone):
                        answer, verdict, done = ledger.stated(step, splitter.answer)
                        usage = add_usage(usage, done.usage)
                        whole.take(ledger, answer, verdict)
        for event in whole.joined(replace(done, usage=usage), asdict(options)):
            yield event

    async def _steps(
        self, ask: AnswerRequest, options: GeneGptOptions, parsed: ParsedQuestion
    ) -> AsyncGenerator[LoopEvent, None]:
        """Run the loop over one question."""
        engine = self._lifecycle.get()
        request = await asyncio.to_thread(self._request, ask, options, parsed, engine)
        session = self._lookups.open(ask, parsed.text, options, self._lifecycle.card.summaries)
        steps = run(engine, request, session)
        if self._needs_a_call(options, parsed.text):
            first = partial(self._first_grammar, options, parsed, engine, is_forced=True)
            steps = _with_a_call(engine, request, session, first)
        async with aclosing(steps):
            async for step in steps:
                yield step

    def _options(self, ask: AnswerRequest) -> GeneGptOptions:
        return parse_options(ask.options, card=self._lifecycle.card, max_calls=self._limits.max_calls)

    def _request(
        self, ask: AnswerRequest, options: GeneGptOptions, parsed: ParsedQuestion, engine: Engine
    ) -> LoopRequest:
        sampling, question = ask.sampling, parsed.text
        own, whole = self._bounds(ask, question, engine)
        params = GenerateParams(
            max_tokens=whole,
            # The paper decodes greedily.
            temperature=sampling.temperature or 0.0,
            stop=(*sampling.stop, *self._stops(options, question, engine)),
            logprobs=sampling.logprobs,
            grammar=_grammar(options, question, engine),
            cache_salt=ask.cache_salt,
            stop_on_repetition=True,
            **sampling.shape,
        )
        return LoopRequest(
            prompt_ids=tuple(self._prompt_ids(options, question, engine, ask.instruction)),
            params=params,
            syntax=SYNTAX,
            request_id=ask.request_id,
            limits=replace(self._limits, max_calls=options.max_calls, max_own_tokens=own),
            first_grammar=self._first_grammar(options, parsed, engine),
        )

    def _first_grammar(
        self, options: GeneGptOptions, parsed: ParsedQuestion, engine: Engine, *, is_forced: bool = False
    ) -> Grammar | None:
        """Return the grammar up to the first reply, None for that of the whole answer.

        A model that can only copy searches for words of the question, as they stand there; those of a later search may
        be of a reply.
        """
        searched = ANYTHING
        if not self._lifecycle.card.is_general and options.grammar == "grounded":
            searched = Searched(parsed.subject or parsed.text, parsed.database, whole=bool(parsed.subject))
        elif not is_forced:
            return None
        return _grammar(options, parsed.text, engine, searched, is_forced=is_forced)

    def _needs_a_call(self, options: GeneGptOptions, question: str) -> bool:
        """Return whether the model has to make a call: what one for look-ups says of a name without it is not shown."""
        is_free = options.grammar == "off" or not options.max_calls or COT_TRIGGER in question
        return not is_free and not self._lifecycle.card.is_general and has_identifier(question)

    def _bounds(self, ask: AnswerRequest, question: str, engine: Engine) -> tuple[int, int]:
        """Return the most tokens that the model writes between two replies, and in all.

        What only looks up and copies needs a call, which may have a sequence of the question, or a few words.
        """
        own, whole = _OWN_TOKENS, self._max_answer_tokens
        if not self._lifecycle.card.is_general:
            encode = engine.tokenizer.encode
            own = max(_LOOKUP_TOKENS, len(encode(_LONGEST_LOOKUP)))
            own += sum(len(encode(one)) for one in _SEQUENCE.findall(question))
            whole = min(whole, own * (_MULTI_HOP_CALLS if COT_TRIGGER in question else _LOOKUP_CALLS))
        requested, most = ask.sampling.max_tokens, self._max_answer_tokens
        return answer_limit(requested, own, most, engine), answer_limit(requested, whole, most, engine)

    def _prompt_ids(self, options: GeneGptOptions, question: str, engine: Engine, instruction: str) -> list[int]:
        if uses_chat_template(engine, self._lifecycle.card):
            return engine.tokenizer.encode_chat(self._prompt.chat_form(options.mask, question, instruction))
        return plain_ids(engine, self._prompt.base_form(options.mask, question))

    def _stops(self, options: GeneGptOptions, question: str, engine: Engine) -> tuple[str, ...]:
        """Return the stop strings; a blank line ends an answer.

        With demonstrations, a multi-hop answer may have blank lines between its sub-questions and ends where the next
        demonstration would begin; a chat model stops by itself.
        """
        if uses_chat_template(engine, self._lifecycle.card):
            return ("\n\nQuestion:",)
        by_sub_questions = COT_TRIGGER in question and options.mask != MASKS["none"]
        return ("\n\nQuestion:",) if by_sub_questions else ("\n\n",)


async def _with_a_call(
    engine: Engine, request: LoopRequest, session: CallHandler, call_first: Callable[[], Grammar | None]
) -> AsyncGenerator[LoopEvent, None]:
    """Yield the events of an answer with a call: where the model stops without one, it is asked again.

    The grammar ``call_first`` then demands the call; it changes how a model begins, so it is not tried first. What is
    written before the first call is yielded with it. Both requests share the limit of tokens.
    """
    before: list[LoopEvent] = []
    has_called = False
    async with aclosing(run(engine, request, session)) as steps:
        async for step in steps:
            has_called = has_called or isinstance(step, CallStarted)
            before.append(step)
            if has_called:
                for held in before:
                    yield held
                before.clear()
    if has_called:
        return
    done = before[-1]
    left = request.params.max_tokens - (done.usage.sampled_tokens if isinstance(done, LoopDone) else 0)
    if not isinstance(done, LoopDone) or done.finish_reason != "stop" or left < 1:
        for held in before:
            yield held
        return
    params = replace(request.params, max_tokens=left)
    again = replace(request, request_id=f"{request.request_id}-call", params=params, first_grammar=call_first())
    async with aclosing(run(engine, again, session)) as steps:
        async for step in steps:
            yield replace(step, usage=step.usage.plus(done.usage)) if isinstance(step, LoopDone) else step


def _grammar(
    options: GeneGptOptions, question: str, engine: Engine, searched: Searched = ANYTHING, *, is_forced: bool = False
) -> Grammar | None:
    if options.grammar == "off":
        return None
    sequences = dict.fromkeys(_SEQUENCE.findall(question)) if options.grammar == "grounded" else {}
    # Where a question has nothing to align, nucleotides or amino acids, a sequence would be made up.
    may_align = options.grammar != "grounded" or sequences or re.search("[A-Z]{15}", question)
    calls = call_regex(tuple(sequences), searched=searched, endpoints=ALL_ENDPOINTS if may_align else EUTILS_ENDPOINTS)
    return (forced_call_grammar if is_forced else call_grammar)(calls, engine.tokenizer)


def _events(step: TextSampled | CallStarted | CallFinished | LoopDone, splitter: AnswerSplitter) -> list[Event]:
    """Return the events that one step of the loop produces."""
    match step:
        case TextSampled(text=text, logprobs=logprobs, reasoning=reasoning):
            thoughts: list[Event] = [TextDelta(reasoning, "reasoning")] if reasoning else []
            return [*thoughts, TranscriptDelta(text, "sampled", logprobs), *splitter.feed(text)]
        case CallStarted(call=call):
            return [*splitter.discard_call(), CallMade(call.text, call.ordinal)]
        case CallFinished():
            return _replied(step)
        case LoopDone():
            return list(splitter.finish())


def _replied(step: CallFinished) -> list[Event]:
    phrase = summary(step.reply)
    replied = CallReplied(
        url=step.call.text,
        ordinal=step.call.ordinal,
        status=step.reply.status,
        summary=phrase,
        seconds=round(step.seconds, 3),
        num_tokens=step.num_tokens,
        record=step.reply.record,
    )
    line = TextDelta(call_line(step.call.text, phrase) + "\n", "reasoning")
    return [TranscriptDelta(step.injected, "injected"), replied, line]
