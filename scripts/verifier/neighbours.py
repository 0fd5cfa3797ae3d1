"""Find texts that a search would return for a question, and that do not answer it, by the server's own index."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from retrieval.lexical.stems import stem
from retrieval.lexical.tantivy_index import TantivyIndex, open_tantivy
from retrieval.lexical.tokens import query_terms
from retrieval.passages import Passage

_SOUGHT: Final = 24
# A text with more of the question's words may answer it; one with fewer is easily told apart.
_MOST_SHARED: Final = 0.7
_LEAST_SHARED: Final = 0.2


class Neighbours:
    """Search a list of texts, which is indexed on construction."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        self._folder = tempfile.TemporaryDirectory(prefix="verifier-")
        self._index: TantivyIndex = open_tantivy(Path(self._folder.name) / "index")
        self._index.add(
            Passage(passage_id=number, document_id=str(number), title="", text=text)
            for number, text in enumerate(texts, 1)
        )
        self._index.commit()
        self._stems = [frozenset(map(stem, query_terms(text))) for text in texts]

    def of(self, question: str, groups: frozenset[str], group_of: Sequence[str]) -> list[str]:
        """Return near texts of other groups, nearest first; ``group_of`` is each text's group."""
        asked = frozenset(map(stem, query_terms(question)))
        found = []
        for hit in self._index.search(question, _SOUGHT):
            place = hit.passage_id - 1
            shared = len(asked & self._stems[place]) / max(1, len(asked))
            if group_of[place] not in groups and _LEAST_SHARED <= shared <= _MOST_SHARED:
                found.append(self._texts[place])
        return found

    def close(self) -> None:
        self._index.close()
        self._folder.cleanup()
