"""Let the model write the queries, fill the evidence table and write the synthesis.

Queries and rows are data under a grammar. The synthesis is bounded by the model's context: the best articles that fit
are read, in their order.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from models.errors import ArrowheadError
from models.types import Delta, GenerateParams, Grammar
from server.methods.clinfo.judging import AT_ONCE, Judge, shown
from server.methods.clinfo.literature import Article
from server.methods.clinfo.queries import MAX_CLAUSES, Clause, Query, clean_name, plain_words
from server.methods.clinfo.screening import Screened
from server.methods.clinfo.statements import Claim, is_verbatim
from server.methods.shared.evidence_table import FINDINGS, Finding

# What the prompt asks the model to write where it finds no answer; labels and outcome follow it.
NO_ANSWER: Final = "The articles do not answer this question."
_OPENING: Final = "TL;DR:"
_TABLE_TOKENS: Final = 400
_MAX_NAMES: Final = 6
_QUERY_TOKENS: Final = 700
_MAX_ROWS: Final = 12
_SLACK: Final = 32
_DENIES: Final = 0.6
_MAX_DENYING: Final = 3
_MAX_VALUE: Final = 160
_NUMBER: Final = re.compile(r"\d+(?:[.,]\d+)*")


@dataclass(frozen=True, slots=True)
class Reader:
    """Read articles with the model; ``params`` are those of the synthesis, ``judge`` has the engine's calls."""

    judge: Judge
    params: GenerateParams

    async def queries(self, question: str, most: int) -> tuple[Query, ...]:
        """Return the queries that the model writes, () where it writes none that can be read or its engine fails."""
        judge = self.judge
        prompt = await judge.layout.prompt(judge.prompts.system, judge.prompts.queries(question, most), "JSON: ")
        params = GenerateParams(
            max_tokens=_QUERY_TOKENS, grammar=query_grammar(most), cache_salt=judge.cache_salt, stop_on_repetition=True
        )
        try:
            written = await judge.generations.write(prompt, params)
            return read_queries(json.loads(written.text), most)
        except (ArrowheadError, ValueError):
            return ()

    async def table(self, question: str, kept: Sequence[Screened]) -> dict[str, dict[str, Finding]]:
        """Return the cells that the model fills for the best articles, by key; a quote that is not verbatim is none."""
        slots = asyncio.Semaphore(AT_ONCE)
        read = [one.article for one in kept[:_MAX_ROWS]]

        async def one(article: Article) -> dict[str, Finding]:
            async with slots:
                return await self._row(question, article)

        rows = await asyncio.gather(*map(one, read))
        return {article.key: row for article, row in zip(read, rows, strict=True)}

    async def _row(self, question: str, article: Article) -> dict[str, Finding]:
        try:
            return await written_row(self.judge, self.judge.prompts.about("table", question, article), article)
        except (ArrowheadError, ValueError):
            return {}

    async def synthesis(self, question: str, text: str) -> AsyncGenerator[Delta, None]:
        """Yield the synthesis of the articles in ``text`` as the model writes it.

        Raises:
            ModelError: the engine failed.
        """
        judge = self.judge
        prompt = await judge.layout.prompt(judge.prompts.system, judge.prompts.synthesis(question, text), self.opening)
        async with aclosing(judge.generations.stream(prompt, self.params)) as deltas:
            async for delta in deltas:
                yield delta

    @property
    def opening(self) -> str:
        """Return how a synthesis begins in the prompt of a base model, "" where the model follows instructions."""
        return "" if self.judge.layout.is_chat else _OPENING

    async def denying(self, claim: Claim, read: Sequence[Article]) -> tuple[tuple[str, str], ...]:
        """Return the articles that state the contrary of a claim, each with the first one that the claim cites."""
        others = [article for article in read[:_MAX_ROWS] if article.key not in claim.keys]
        shares = await self.judge.all([self.judge.prompts.contradicts(claim.text, article) for article in others])
        pairs = [(claim.keys[0], a.key) for a, p in zip(others, shares, strict=True) if p is not None and p >= _DENIES]
        return tuple(pairs[:_MAX_DENYING])

    def entries(self, question: str, articles: Sequence[Article]) -> tuple[str, dict[int, Article]]:
        """Return the text of the articles that fit into the context, numbered from 1, and these by number."""
        engine = self.judge.generations.engine
        around = self.judge.layout.ids(
            self.judge.prompts.system, self.judge.prompts.synthesis(question, ""), self.opening
        )
        room = engine.max_model_len - len(around) - self.params.max_tokens - _SLACK
        entries: list[str] = []
        read: dict[int, Article] = {}
        for article in articles:
            number = len(read) + 1
            about = ", ".join(filter(None, (article.level if article.level != "other" else "", article.year)))
            entry = f"[{number}] {f'({about}) ' if about else ''}{shown(article)}\n"
            room -= len(engine.tokenizer.encode(entry))
            if room < 0:
                break
            entries.append(entry)
            read[number] = article
        return "".join(entries), read


async def written_row(
    judge: Judge, asked: str, article: Article, names: Collection[str] = FINDINGS
) -> dict[str, Finding]:
    """Return the cells of these names that the model fills from an article, and whose quotes stand in it.

    Raises:
        ModelError: the engine failed.
        ValueError: what it wrote is no JSON.
    """
    prompt = await judge.layout.prompt(judge.prompts.system, asked, "JSON: ")
    params = GenerateParams(
        max_tokens=_TABLE_TOKENS, grammar=table_grammar(names), cache_salt=judge.cache_salt, stop_on_repetition=True
    )
    written = await judge.generations.write(prompt, params)
    return read_row(json.loads(written.text), article, names)


def table_grammar(names: Collection[str] = FINDINGS) -> Grammar:
    """Return the schema of one row: each cell a value and its quote."""
    text = {"type": "string", "maxLength": _MAX_VALUE}
    cell = _object({"value": text, "quote": {"type": "string", "maxLength": 400}})
    return Grammar("json_schema", json.dumps(_object(dict.fromkeys(names, cell))))


def read_row(read: Any, article: Article, names: Collection[str] = FINDINGS) -> dict[str, Finding]:
    """Return the cells whose quote stands in the article, letter for letter, and has the numbers of its value."""
    found: dict[str, Finding] = {}
    for name in names:
        cell = read.get(name) if isinstance(read, dict) else None
        value, quote = _text(cell, "value"), _text(cell, "quote")
        if value and quote and is_verbatim(quote, article) and _has_numbers(value, quote):
            section = next((one.label for one in article.sections if quote in " ".join(one.text.split())), "")
            found[name] = Finding(value, quote, section)
    # What stands in several cells was copied into them, as it cannot be the population and the risk of bias.
    values = Counter(cell.value for cell in found.values())
    return {name: cell for name, cell in found.items() if values[cell.value] == 1}


def _text(cell: Any, name: str) -> str:
    value = cell.get(name) if isinstance(cell, Mapping) else None
    return " ".join(value.split()) if isinstance(value, str) else ""


def _has_numbers(value: str, quote: str) -> bool:
    return set(_NUMBER.findall(value)) <= set(_NUMBER.findall(quote))


def query_grammar(most: int) -> Grammar:
    """Return the schema of up to ``most`` searches, each a list of concepts of names."""
    name = {"type": "string", "minLength": 2, "maxLength": 60, "pattern": "^[A-Za-z0-9][A-Za-z0-9 ,'/+-]*$"}
    concept = _object(
        {
            "names": {"type": "array", "items": name, "minItems": 1, "maxItems": _MAX_NAMES},
            "heading": {"type": "boolean"},
        }
    )
    concepts = {"type": "array", "items": concept, "minItems": 1, "maxItems": MAX_CLAUSES}
    search = _object({"concepts": concepts})
    schema = _object({"searches": {"type": "array", "items": search, "minItems": 1, "maxItems": most}})
    return Grammar("json_schema", json.dumps(schema))


def _object(members: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(members), "required": list(members), "additionalProperties": False}


def read_queries(read: Any, most: int) -> tuple[Query, ...]:
    """Return the searches of parsed JSON as queries; what is no list of names is left out."""
    searches = read.get("searches") if isinstance(read, dict) else None
    found: dict[str, Query] = {}
    for search in searches if isinstance(searches, list) else ():
        fields = search if isinstance(search, dict) else {"concepts": search}
        clauses: dict[str, Clause] = {}
        concepts = fields.get("concepts")
        for concept in concepts if isinstance(concepts, list) else ():
            if (clause := _clause(concept)) is not None:
                # A concept that is named again asks for nothing more.
                clauses.setdefault(clause.words.casefold(), clause)
        if clauses:
            kept = tuple(clauses.values())[:MAX_CLAUSES]
            query = Query(kept, "model")
            found.setdefault(query.term, query)
    return tuple(found.values())[:most]


def _clause(concept: Any) -> Clause | None:
    named = concept.get("names") if isinstance(concept, dict) else None
    texts = [name for name in named if isinstance(name, str)] if isinstance(named, list) else []
    names = tuple(dict.fromkeys(name for name in map(clean_name, texts) if plain_words(name)))[:_MAX_NAMES]
    return Clause(names, linked=True, heading=concept.get("heading") is True) if names else None
