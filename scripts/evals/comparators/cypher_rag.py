"""Implement Cypher-RAG, the paper's section 2.8: a writer turns the question into a query, its rows are the context."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from scripts.evals.comparators.base import Fact, Retrieved, TokenCount, within
from scripts.evals.comparators.cypher_database import CypherDatabase
from scripts.evals.comparators.cypher_guard import CypherFailed, CypherRefused
from scripts.evals.comparators.cypher_writers import Attempt, QueryWriter, Written

_SOURCES: Final = "sources"


class CypherRag:
    """Where a query cannot be run, the writer is told why and may write another one, once."""

    def __init__(self, writer: QueryWriter, database: CypherDatabase, budget: int, count: TokenCount) -> None:
        self._writer = writer
        self._database = database
        self._budget = budget
        self._count = count

    @property
    def name(self) -> str:
        return f"Cypher: {self._writer.name}"

    async def retrieve(self, question: str) -> Retrieved:
        prompts: list[str] = []
        failed: Attempt | None = None
        for _ in range(2):
            try:
                written = await self._writer.write(question, failed)
            except CypherFailed as fault:
                return Retrieved("", prompt="\n".join(prompts), note=str(fault))
            prompts.append(written.prompt)
            try:
                return self._told(written, "\n".join(prompts))
            except (CypherFailed, CypherRefused) as fault:
                failed = Attempt(written.query, str(fault))
        note = f"{failed.query}: {failed.fault}" if failed else ""
        return Retrieved("", prompt="\n".join(prompts), note=note)

    def _told(self, written: Written, prompt: str) -> Retrieved:
        found = self._database.read(written.query)
        lines = [as_line(row) for row in found.rows]
        kept = within(lines, self._budget, self._count)
        facts = tuple(_fact(row, line) for row, line in zip(found.rows[:kept], lines, strict=False))
        note = written.query if found.complete else f"{written.query} (more rows than are read)"
        return Retrieved("\n".join(lines[:kept]), facts, prompt, note=note)


def as_line(row: Mapping[str, Any]) -> str:
    return json.dumps({key: value for key, value in row.items() if value not in (None, "")}, default=str)


def _fact(row: Mapping[str, Any], line: str) -> Fact:
    """What a row names is every text in it; a model may have called its columns as it likes."""
    texts = list(_texts(row))
    sources = [text for key, text in texts if key == _SOURCES or key.endswith(f".{_SOURCES}")]
    return Fact(
        frozenset(text.casefold() for _, text in texts), line, json.dumps("; ".join(sources)) if sources else ""
    )


def _texts(value: Any, key: str = "") -> list[tuple[str, str]]:
    if isinstance(value, str):
        return [(key, value)]
    if isinstance(value, Mapping):
        return [found for name, part in value.items() for found in _texts(part, str(name))]
    return [found for part in value for found in _texts(part, key)] if isinstance(value, list | tuple) else []
