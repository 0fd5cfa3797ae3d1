"""Let the model answer with verbatim quotes of numbered passages, which it chooses under a grammar.

    quoting = Quoting(Generations(engine, request_id), PromptFormatter(engine, card), params)
    answer = await quoting.whole(QuoteTask(question, [(1, "Protamine reverses heparin. …"), (2, "…")]))
    answer.text       "> Protamine reverses heparin. [1]"
    answer.outcome    "answered"; "abstained" where the model quotes nothing, "cut" where a limit ended it
    answer.reason     the sentence that tells any other outcome, "" for a whole answer

``events`` yields the same answer quote by quote. What can be quoted is a whole sentence of a passage, or a clause
between semicolons that stands by itself (``split_clauses``), so that no "not" can be cut off. Each line that the model
wrote is looked up again: an engine without grammars, or one that a limit has cut, may end in anything.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any, Final

from models.decoding.grammar import MAX_CHARS, MAX_PASSAGES, quote_grammar, quote_line
from models.decoding.types import LoopFinish
from models.engines.base import Tokenizer
from models.types import Delta, GenerateParams, Grammar
from server.methods.base import AnswerOutcome, Event, TextDelta, TranscriptDelta
from server.methods.shared.generation import Generations, PromptFormatter
from server.methods.shared.outcomes import why_cut
from server.methods.shared.sentences import quoted_line, split_clauses

MAX_QUOTES: Final = 8
DEFAULT_QUOTES: Final = 3
NOTHING: Final = "None of the passages answers the question."
_NONE_QUOTED: Final = "The model found no sentence in the passages that answers this question."
_NOT_A_QUOTE: Final = "What the model wrote is no sentence of the passages, so nothing is quoted."
_NOT_QUOTABLE: Final = "The passages have no whole sentence that could be quoted."
_NO_ROOM: Final = "The model has no room to read any of the passages."
_LONGEST_PASSAGE: Final = 20_000
_OPENING: Final = "Quotes:\n"
_SLACK: Final = 24


@dataclass(frozen=True, slots=True)
class QuoteTask:
    """Hold a question and the passages to quote, best first, by their numbers in the answer.

    ``endings`` are the lines of which one closes the answer to a closed question ("Answer: B"); () for an open one.
    ``titles`` say what passages are about; they are read, not quoted.
    """

    question: str
    passages: Sequence[tuple[int, str]]
    endings: tuple[str, ...] = ()
    max_quotes: int = DEFAULT_QUOTES
    titles: Mapping[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 1 <= self.max_quotes <= MAX_QUOTES:
            raise ValueError(f"max_quotes is 1 to {MAX_QUOTES}, not {self.max_quotes}")


@dataclass(frozen=True, slots=True)
class Quote:
    """Hold one quote: ``text`` is the passage's ``[start:end]`` on one line, by ``quoted_line``."""

    number: int
    text: str
    start: int
    end: int

    @property
    def line(self) -> str:
        return quote_line(self.text, self.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotedAnswer:
    """Hold the quotes that the model chose, each once, and the line that closes a closed answer, "" without one.

    ``num_refused`` counts written lines that quote nothing. ``lack`` is the reason why the model was not asked.
    """

    quotes: tuple[Quote, ...] = ()
    ending: str = ""
    finish_reason: LoopFinish = "stop"
    stop_reason: str | int | None = None
    num_refused: int = 0
    num_read: int = 0
    lack: str = ""
    is_closed: bool = False

    @property
    def text(self) -> str:
        """Return the answer as it is shown: the quotes, as a block each, and the closing line."""
        return "\n\n".join([*(quote.line for quote in self.quotes), *([self.ending] if self.ending else [])])

    @property
    def outcome(self) -> AnswerOutcome:
        if self.finish_reason != "stop" and (not self.quotes or self.is_closed > bool(self.ending)):
            return "cut"
        if not self.quotes:
            return "abstained"
        return (
            "partial" if self.is_closed > bool(self.ending) else "cut" if self.finish_reason != "stop" else "answered"
        )

    @property
    def reason(self) -> str:
        match self.outcome:
            case "cut":
                return why_cut(self.finish_reason, self.stop_reason)
            case "abstained":
                return self.lack or (_NOT_A_QUOTE if self.num_refused else _NONE_QUOTED)
            case "partial":
                return "The model quoted these sentences and wrote no answer from them."
        return ""

    @property
    def record(self) -> dict[str, Any]:
        """Return the JSON form for the trace."""
        spans = [{"number": q.number, "text": q.text, "start": q.start, "end": q.end} for q in self.quotes]
        return {"quotes": spans, "ending": self.ending, "lines_refused": self.num_refused, "passages": self.num_read}


@dataclass(frozen=True, slots=True)
class QuoteBook:
    """Hold what can be quoted: the quotes by their lines, and the entries of the passages by their numbers.

    ``lack`` is the reason why there is nothing, "" where there is something.
    """

    quotes: dict[str, Quote]
    entries: dict[int, str]
    lack: str = ""

    @classmethod
    def of(cls, task: QuoteTask) -> QuoteBook:
        """Take the first passages, within the bounds of a grammar, that have something to quote."""
        quotes: dict[str, Quote] = {}
        entries: dict[int, str] = {}
        used = sum(map(len, (*task.endings, NOTHING)))
        for number, text in task.passages:
            found = list(_quotes_of(number, text[:_LONGEST_PASSAGE]))
            size = sum(len(quote.line) for quote in found)
            if not found or number in entries or used + size > MAX_CHARS:
                continue
            used += size
            title = quoted_line(task.titles.get(number, ""))
            entries[number] = f"[{number}] {f'{title}: ' if title else ''}{quoted_line(text[:_LONGEST_PASSAGE])}\n"
            for quote in found:
                quotes.setdefault(quote.line, quote)
            if len(entries) == MAX_PASSAGES:
                break
        return cls(quotes, entries, "" if quotes else _NOT_QUOTABLE)

    def fitting(self, tokenizer: Tokenizer, room: int) -> QuoteBook:
        """Return the book of the first passages that fit into ``room`` tokens together."""
        entries: dict[int, str] = {}
        for number, entry in self.entries.items():
            room -= len(tokenizer.encode(entry))
            if room < 0:
                break
            entries[number] = entry
        quotes = {line: quote for line, quote in self.quotes.items() if quote.number in entries}
        return QuoteBook(quotes, entries, self.lack or ("" if quotes else _NO_ROOM))

    def grammar(self, task: QuoteTask) -> Grammar:
        texts: dict[int, list[str]] = {}
        for quote in self.quotes.values():
            texts.setdefault(quote.number, []).append(quote.text)
        return quote_grammar(texts, most=task.max_quotes, endings=task.endings, nothing=NOTHING)


# Spells a control token of a chat template. As such a token the text could not be told from the template's own, and
# grammar libraries allow nothing else in its place; sentences of articles have none.
_MARKUP: Final = re.compile(
    r"<\|[^|<>\s]{1,40}\|>|</?(?:s|bos|eos|pad|unk|think|tool_call|tool_response|start_of_turn|end_of_turn)>|\[/?INST\]"
)


def _quotes_of(number: int, text: str) -> Iterator[Quote]:
    for piece in split_clauses(text):
        if (line := quoted_line(piece.text)) and not _MARKUP.search(piece.text):
            yield Quote(number, line, piece.start, piece.end)


class QuoteReader:
    """Read the lines that a model writes, and look each of them up."""

    def __init__(self, book: QuoteBook, task: QuoteTask) -> None:
        self._book = book
        self._task = task
        self._pending = ""
        self.quotes: list[Quote] = []
        self.ending = ""
        self.num_refused = 0

    def feed(self, text: str, *, is_last: bool = False) -> list[Quote]:
        """Return the quotes that ``text`` completes, each once; a last line counts only if it is whole."""
        *lines, self._pending = (self._pending + text).split("\n")
        if is_last:
            lines, self._pending = [*lines, self._pending], ""
        return [quote for line in lines if (quote := self._read(line.strip())) is not None]

    def _read(self, line: str) -> Quote | None:
        quote = self._book.quotes.get(line)
        if quote is not None and quote not in self.quotes and len(self.quotes) < self._task.max_quotes:
            self.quotes.append(quote)
            return quote
        if line in self._task.endings:
            # A closing line rests on quotes; without any it is not taken.
            self.ending = line if self.quotes else ""
        elif quote is None and line not in ("", NOTHING):
            self.num_refused += 1
        return None


@dataclass(frozen=True, slots=True)
class Quoting:
    """Generate quoted answers. Safe for concurrent tasks of one loop.

    ``params`` sets all but grammar and stops. ``seconds_left`` tells at any time how long the answer may still take;
    what was quoted by then is the answer (``timeout``). ``tokens_left`` bounds prompt and answer together, beside the
    model's context.
    """

    generations: Generations
    layout: PromptFormatter
    params: GenerateParams
    seconds_left: Callable[[], float] | None = None
    tokens_left: int | None = None

    async def whole(self, task: QuoteTask) -> QuotedAnswer:
        """Return the complete answer.

        Raises:
            ModelError: the engine failed.
        """
        async with aclosing(self.events(task)) as events:
            async for event in events:
                if isinstance(event, QuotedAnswer):
                    return event
        return QuotedAnswer(finish_reason="abort")

    async def events(self, task: QuoteTask) -> AsyncGenerator[Event | QuotedAnswer, None]:
        """Yield each quote as text when it is complete, then the closing line, then the answer as a whole.

        Text that tells the outcome is left to the caller (``QuotedAnswer.reason``).
        """
        book, prompt = await asyncio.to_thread(self._prepared, task)
        if book.lack:
            yield QuotedAnswer(lack=book.lack)
            return
        reader = QuoteReader(book, task)
        grammar = await asyncio.to_thread(book.grammar, task)
        finish: LoopFinish = "timeout"
        stop_reason: str | int | None = None
        separator = ""
        async with aclosing(self._in_time(prompt, replace(self.params, grammar=grammar, stop=()))) as deltas:
            async for delta in deltas:
                yield TranscriptDelta(delta.text)
                finish, stop_reason = delta.finish_reason or finish, delta.stop_reason
                for quote in reader.feed(delta.text, is_last=delta.finish_reason is not None):
                    yield TextDelta(f"{separator}{quote.line}")
                    separator = "\n\n"
        if reader.ending:
            yield TextDelta(f"{separator}{reader.ending}")
        yield QuotedAnswer(
            quotes=tuple(reader.quotes),
            ending=reader.ending,
            finish_reason=finish,
            stop_reason=stop_reason,
            num_refused=reader.num_refused,
            num_read=len(book.entries),
            is_closed=bool(task.endings),
        )

    async def _in_time(self, prompt: Sequence[int], params: GenerateParams) -> AsyncGenerator[Delta, None]:
        """Yield the deltas of the generation, and end it when its time is over."""
        async with aclosing(self.generations.stream(prompt, params)) as deltas:
            while True:
                try:
                    async with asyncio.timeout(self.seconds_left() if self.seconds_left else None):
                        delta = await anext(deltas)
                except (StopAsyncIteration, TimeoutError):
                    return
                yield delta

    def _prepared(self, task: QuoteTask) -> tuple[QuoteBook, list[int]]:
        engine = self.generations.engine
        limit = min(engine.max_model_len, engine.max_model_len if self.tokens_left is None else self.tokens_left)
        room = limit - len(self._prompt(task, "")) - self.params.max_tokens - _SLACK
        book = QuoteBook.of(task).fitting(engine.tokenizer, room)
        return book, [] if book.lack else self._prompt(task, "".join(book.entries.values()))

    def _prompt(self, task: QuoteTask, passages: str) -> list[int]:
        facts = {"nothing": NOTHING, "most": str(task.max_quotes), "endings": " / ".join(task.endings)}
        how = _prompt_text("quoted_closed" if task.endings else "quoted_open", facts)
        user = f"Passages:\n{passages}\nQuestion: {task.question}\n\n{how}"
        return self.layout.ids(_prompt_text("quoted_system", facts), user, self.layout.opening(_OPENING))


def _prompt_text(name: str, facts: dict[str, str]) -> str:
    text = (files("server.methods.shared") / "prompts" / f"{name}.txt").read_text(encoding="utf-8").strip()
    for key, value in facts.items():
        text = text.replace(f"{{{key}}}", value)
    return text
