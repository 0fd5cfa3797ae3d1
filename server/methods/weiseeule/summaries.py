"""Let the model summarize a chosen article for a text, each sentence with the passages of the article it rests on.

A sentence is left out, and counted, where it names no passage, or where no sentence of the passages that it names has
half of its words; what a limit cut off is left out, too. Where nothing is left, the caller has the article's own
sentences.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from models.decoding.types import LoopUsage
from retrieval.corpus.namespaces.settings import embedded_title
from retrieval.corpus.search.ranking import RankedPassage
from server.methods.medrag.chain_of_thought import Chains
from server.methods.medrag.context import distinct, supporting_sentence
from server.methods.medrag.method import SLACK, read_passages
from server.methods.shared.quoted import QuoteTask, Quoting
from server.methods.shared.sentences import MARK, numbers_in, plain_marks, split_sentences
from server.methods.weiseeule.prompts import Prompts

_MAX_TOKENS: Final = 400
_NO_ROOM: Final = "the model has no room to read its passages"
_UNCITED: Final = "the model wrote no sentence that rests on its passages"
# A model may cite behind the full stop; the sentence then has its marks in front of it, as prompted.
_MARK_BEHIND: Final = re.compile(r"([.?!])\s*(\[\s*\d[\d\s,;–-]*\])")
_BEFORE_STOP: Final = re.compile(r"\s+(?=[.,;:?!])")


@dataclass(frozen=True, slots=True)
class Statement:
    """Hold one sentence of a summary, and the sentences of the article that it rests on.

    ``is_quote``: the sentence is the article's own, word for word.
    """

    text: str
    support: tuple[str, ...]
    is_quote: bool = False


@dataclass(frozen=True, slots=True)
class Summary:
    """Hold what the model made of one article.

    ``written`` is its text as it came, ``num_dropped`` counts sentences that rest on no passage; ``fault`` says why
    there is no statement, "" where there is one.
    """

    statements: tuple[Statement, ...] = ()
    written: str = ""
    num_dropped: int = 0
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Summarizer:
    """Summarize articles for one text.

    ``chains`` has the model and its sampling; with ``quotes`` the model chooses sentences word for word. ``most``
    bounds the sentences of an article, ``context_tokens`` what is read of it, None for all that fits.
    """

    chains: Chains
    prompts: Prompts
    most: int
    context_tokens: int | None = None
    quotes: bool = False

    @property
    def usage(self) -> LoopUsage:
        return self.chains.generations.usage

    async def summary(self, text: str, passages: Sequence[RankedPassage]) -> Summary:
        """Return the summary of the article that the passages, best first, are of.

        Raises:
            ModelError: the engine failed.
        """
        return await (self._quoted(text, passages) if self.quotes else self._written(text, passages))

    async def _written(self, text: str, passages: Sequence[RankedPassage]) -> Summary:
        chains, prompts = self.chains, self.prompts
        engine, limit = chains.generations.engine, min(chains.params.max_tokens, _MAX_TOKENS)
        around = chains.layout.ids(prompts.summary_system, prompts.summary_user(text, "-", self.most))
        room = engine.max_model_len - len(around) - limit - SLACK
        context = await read_passages(engine, passages, room, self.context_tokens)
        if not context.passages:
            return Summary(fault=_NO_ROOM)
        ids = chains.layout.ids(prompts.summary_system, prompts.summary_user(text, context.text, self.most))
        stops = (*chains.params.stop, *chains.layout.stops)
        written = await chains.generations.write(ids, replace(chains.params, max_tokens=limit, stop=stops))
        numbered = dict(enumerate(context.passages, 1))
        return read_summary(written.text, numbered, self.most, is_whole=written.finish_reason == "stop")

    async def _quoted(self, text: str, passages: Sequence[RankedPassage]) -> Summary:
        chains = self.chains
        numbered = {number: found for number, (_, found) in enumerate(distinct(passages), 1)}
        task = QuoteTask(
            question=text,
            passages=[(number, found.passage.text) for number, found in numbered.items()],
            max_quotes=self.most,
            titles={number: embedded_title(found.passage) for number, found in numbered.items()},
        )
        answer = await Quoting(chains.generations, chains.layout, chains.params).whole(task)
        statements = tuple(Statement(plain_marks(one.text), (one.text,), is_quote=True) for one in answer.quotes)
        return Summary(statements, answer.text, answer.num_refused, "" if statements else answer.reason)


def read_summary(written: str, passages: Mapping[int, RankedPassage], most: int, *, is_whole: bool) -> Summary:
    """Return the sentences that rest on a passage that they name, without their marks, at most ``most``.

    The last sentence of a text that is not ``is_whole`` may lack its end, and does not count.
    """
    sentences = split_sentences(_MARK_BEHIND.sub(r" \2\1", written.strip()))
    cut = [] if is_whole else sentences[-1:]
    statements: list[Statement] = []
    for one in sentences[: len(sentences) - len(cut)]:
        known = [number for number in numbers_in(one.text) if number in passages]
        found = (supporting_sentence(one.text, number, passages[number]) for number in known)
        support = tuple(dict.fromkeys(filter(None, found)))
        if not support or len(statements) == most:
            continue
        line = _BEFORE_STOP.sub("", " ".join(MARK.sub(" ", one.text).split()))
        statements.append(Statement(line, support))
    dropped = len(sentences) - len(statements)
    return Summary(tuple(statements), written, dropped, "" if statements else _UNCITED)
