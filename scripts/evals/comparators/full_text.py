"""Retrieve by words, without a model and without vectors: SQLite's FTS5 with BM25, like search engines based on Lucene.

``FullTextStatements`` searches all statements and returns the best ones that fit the budget. ``FullTextNodes`` follows
the paper's section 2.9: it searches the names of diseases and returns all statements of the best match, without limit.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Final

from retrieval.graph.types import GraphStore, Node, Statement
from scripts.evals.comparators.base import Retrieved, TokenCount, fact_of_line, line_of, within

_WORD: Final = re.compile(r"\w+")
_MOST: Final = 200
# Words that "the", "of" and their kind would drown are rare in names; BM25 weighs the rest.
_TABLE: Final = "CREATE VIRTUAL TABLE text USING fts5(told, other_names, tokenize = 'unicode61')"
_ASKED: Final = "SELECT rowid FROM text WHERE text MATCH ? ORDER BY bm25(text), rowid LIMIT ?"


class WordIndex:
    """Texts by place, ranked by the words that they share with a question; letter case and accents do not count."""

    def __init__(self, texts: Iterable[tuple[str, str]]) -> None:
        """``texts``: each with further names, which count as much."""
        self._connection = sqlite3.connect(":memory:")
        self._connection.execute(_TABLE)
        rows = ((place, *text) for place, text in enumerate(texts))
        self._connection.executemany("INSERT INTO text (rowid, told, other_names) VALUES (?, ?, ?)", rows)

    def best(self, question: str, most: int) -> list[int]:
        """Places, best first; texts that share a word with the question, any word."""
        words = list(dict.fromkeys(word.casefold() for word in _WORD.findall(question)))
        if not words:
            return []
        query = " OR ".join(f'"{word}"' for word in words)
        return [place for (place,) in self._connection.execute(_ASKED, (query, most))]

    def close(self) -> None:
        self._connection.close()


class FullTextStatements:
    def __init__(self, statements: Sequence[Statement], budget: int, count: TokenCount) -> None:
        self._statements = statements
        self._budget = budget
        self._count = count
        self._index = WordIndex((s.text, _other_names(s.source, s.target)) for s in statements)

    @property
    def name(self) -> str:
        return "full text: statements"

    async def retrieve(self, question: str) -> Retrieved:
        found = [self._statements[place] for place in self._index.best(question, _MOST)]
        lines = [line_of(statement) for statement in found]
        kept = within(lines, self._budget, self._count)
        return Retrieved("\n".join(lines[:kept]), tuple(map(fact_of_line, found[:kept])))


class FullTextNodes:
    def __init__(self, store: GraphStore, kind: str = "Disease") -> None:
        self._store = store
        ids = dict.fromkeys(name.node_id for name in store.names((kind,)))
        self._nodes = [node for node in map(store.node, ids) if node is not None]
        self._index = WordIndex((node.name, _other_names(node)) for node in self._nodes)

    @property
    def name(self) -> str:
        return "full text: nodes, as published"

    async def retrieve(self, question: str) -> Retrieved:
        places = self._index.best(question, 1)
        if not places:
            return Retrieved("", nodes=(), note="no name shares a word with the question")
        node = self._nodes[places[0]]
        found = self._store.statements(node.node_id)
        return Retrieved("\n".join(map(line_of, found)), tuple(map(fact_of_line, found)), nodes=(node.name,))


def _other_names(*nodes: Node) -> str:
    return "; ".join(name for node in nodes for name in node.synonyms)
