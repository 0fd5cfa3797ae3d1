"""Write the Cypher query of a question.

``OracleWriter`` is not a model: it knows the wordings of the questions and copies the names from them. No writer that
compares whole names as the question has them can do better. ``ModelWriter`` asks any model behind an OpenAI-compatible
address.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from openai import AsyncOpenAI, OpenAIError

from scripts.evals.comparators.cypher_database import EDGE_PROPERTIES, NODE_PROPERTIES, Schema
from scripts.evals.comparators.cypher_guard import CypherFailed

_FENCE: Final = re.compile(r"```(?:\w+)?\s*\n?(?P<query>.*?)```", re.DOTALL)
_WORDINGS: Final = (
    re.compile(r"^Is (?P<names>.+ associated with .+?)\?$", re.IGNORECASE),
    re.compile(r"^What is the GWAS p-value for the association between (?P<names>.+ and .+?)\?$", re.IGNORECASE),
)
_PARTS: Final = re.compile(r" (?:associated with|and) ", re.IGNORECASE)
_ANSWER_TOKENS: Final = 512
_INSTRUCTION: Final = """\
Write one openCypher query that finds, in the graph described below, what the question asks for.
Use only the node types, relationship types and properties listed. Only MATCH, OPTIONAL MATCH, WHERE, WITH, RETURN,
ORDER BY and LIMIT are allowed. Return the names of the nodes and, for relationships, their sources, p_value and
evidence. Reply with the query alone."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A query that could not be run, and why."""

    query: str
    fault: str


@dataclass(frozen=True, slots=True)
class Written:
    """``prompt``: all that was read to write the query."""

    query: str
    prompt: str


class QueryWriter(Protocol):
    @property
    def name(self) -> str: ...

    async def write(self, question: str, failed: Attempt | None = None) -> Written:
        """``failed``: the attempt to repair. Raises CypherFailed: no query came of it."""
        ...


def schema_text(schema: Schema) -> str:
    """The graph as a model is told of it, in the form of Cypher's own patterns."""
    nodes = f"{{{', '.join(f'{name}: STRING' for name in NODE_PROPERTIES)}}}"
    edges = f"{{{', '.join(f'{name}: {kind}' for name, kind in EDGE_PROPERTIES)}}}"
    lines = ["Node types, each with the properties " + nodes + ":", *(f"(:{_name(kind)})" for kind in schema.nodes)]
    lines.append("Relationship types, each with the properties " + edges + ":")
    for kind, pairs in schema.edges.items():
        lines += [f"(:{_name(source)})-[:{_name(kind)}]->(:{_name(target)})" for source, target in pairs]
    return "\n".join(lines)


def prompt_of(schema: Schema, question: str, failed: Attempt | None = None) -> str:
    text = f"{_INSTRUCTION}\n\n{schema_text(schema)}\n\nQuestion: {question}"
    if failed is None:
        return text
    return f"{text}\n\nThis query could not be run:\n{failed.query}\n\nThe reason:\n{failed.fault}\n\nWrite it anew."


@dataclass(frozen=True, slots=True)
class OracleWriter:
    """``any_case``: names are compared in small letters, which a Cypher query does only where it is written so. The
    prompt is the one that a model would have read for the same query."""

    schema: Schema
    any_case: bool = False

    @property
    def name(self) -> str:
        return f"oracle, {'any case' if self.any_case else 'exact names'}"

    async def write(self, question: str, failed: Attempt | None = None) -> Written:
        pairs = list(_pairs(question))
        if not pairs:
            raise CypherFailed("the question has another wording than those the oracle knows")
        # What stands first, the disease or the gene, is not told by the wording.
        either = [order for first, second in pairs for order in ((first, second), (second, first))]
        asked = " OR ".join(f"({self._is('d', d)} AND {self._is('g', g)})" for d, g in either)
        query = (
            f"MATCH (d:Disease)-[r]-(g:Gene) WHERE {asked} RETURN d.name AS disease, label(r) AS relation, "
            "g.name AS gene, r.sources AS sources, r.pmids AS pmids, r.p_value AS p_value, r.evidence AS evidence"
        )
        return Written(query, prompt_of(self.schema, question))

    def _is(self, node: str, name: str) -> str:
        return f"lower({node}.name) = lower({text_of(name)})" if self.any_case else f"{node}.name = {text_of(name)}"


class ModelWriter:
    """One chat completion for each query, at temperature 0."""

    def __init__(self, client: AsyncOpenAI, model: str, schema: Schema) -> None:
        self._client = client
        self._model = model
        self._schema = schema

    @property
    def name(self) -> str:
        return self._model

    async def write(self, question: str, failed: Attempt | None = None) -> Written:
        prompt = prompt_of(self._schema, question, failed)
        try:
            reply = await self._client.chat.completions.create(
                model=self._model,
                messages=[{"role": "user", "content": prompt}],
                temperature=0,
                max_tokens=_ANSWER_TOKENS,
            )
        except OpenAIError as fault:
            raise CypherFailed(f"the model did not answer: {type(fault).__name__}: {fault}") from fault
        query = query_in(reply.choices[0].message.content or "" if reply.choices else "")
        if not query:
            raise CypherFailed("the model wrote nothing")
        return Written(query, prompt)


def query_in(reply: str) -> str:
    """The first block of code, else all of it."""
    fenced = _FENCE.search(reply)
    return (fenced["query"] if fenced else reply).strip()


def text_of(name: str) -> str:
    """A name as a string of Cypher: nothing in it can end the string."""
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _pairs(question: str) -> Iterator[tuple[str, str]]:
    """Every way to part the names: "and" may be a word of one of them."""
    names = next((match["names"] for wording in _WORDINGS if (match := wording.match(question.strip()))), "")
    for parted in _PARTS.finditer(names):
        yield names[: parted.start()], names[parted.end() :]


def _name(kind: str) -> str:
    return kind if kind.isidentifier() else f"`{kind}`"


def names_asked(question: str) -> Sequence[tuple[str, str]]:
    """For tests and reports."""
    return tuple(_pairs(question))
