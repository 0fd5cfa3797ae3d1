"""Load stored replies of SPOKE's /neighborhood: one array a file, or one reply or item in every line (JSON lines).

Memory grows with the nodes of one reply, or of a whole file whose lines are single items.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from retrieval.graph.loaders.json_stream import array_items
from retrieval.graph.loaders.reading import MalformedRecord, Place, Report, lines, rows
from retrieval.graph.spoke_reply import data_of, edge_of, is_edge, item_id, node_of
from retrieval.graph.types import Edge, Node

_NEW_REPLY: Final = object()


class SpokeLoader:
    """Load SPOKE replies; an edge's ends are in its own reply, because SPOKE's numbers are not valid outside it.

    ``edges`` reports malformed items.
    """

    def __init__(self, files: Sequence[Path], report: Report) -> None:
        self._files = files
        self._report = report
        self._place = Place()

    @property
    def place(self) -> str:
        return str(self._place)

    def nodes(self) -> Iterator[Node]:
        for item in self._items(Report()):
            try:
                if item is not _NEW_REPLY and not is_edge(data := data_of(item)):
                    yield node_of(data)
            except MalformedRecord:
                continue

    def edges(self) -> Iterator[Edge]:
        known: dict[str, Node] = {}
        waiting: list[tuple[str, int, dict[str, Any]]] = []
        for item in self._items(self._report):
            if item is _NEW_REPLY:
                yield from self._late(waiting, known)
                known, waiting = {}, []
                continue
            try:
                data = data_of(item)
                if not is_edge(data):
                    known[item_id(data.get("id"))] = node_of(data)
                elif {item_id(data.get("source")), item_id(data.get("target"))} <= known.keys():
                    yield edge_of(data, known)
                else:
                    waiting.append((self._place.file, self._place.line, data))
            except MalformedRecord as fault:
                self._report.add(self.place, fault)
        yield from self._late(waiting, known)

    def _late(self, waiting: Sequence[tuple[str, int, dict[str, Any]]], known: dict[str, Node]) -> Iterator[Edge]:
        """Yield the edges that preceded their ends."""
        here = self._place.file, self._place.line
        for self._place.file, self._place.line, data in waiting:
            try:
                yield edge_of(data, known)
            except MalformedRecord as fault:
                self._report.add(self.place, fault)
        self._place.file, self._place.line = here

    def _items(self, report: Report) -> Iterator[Any]:
        for path in self._files:
            self._place.file, self._place.line = path.name, 0
            yield _NEW_REPLY
            if _is_one_array(path):
                for self._place.line, item in array_items(path):
                    yield item
                continue
            for text in rows(lines(path), self._place, report):
                try:
                    value = json.loads(text)
                except (ValueError, RecursionError) as fault:
                    report.add(self.place, f"no JSON: {fault}")
                    continue
                if isinstance(value, list):
                    yield _NEW_REPLY
                    yield from value
                else:
                    yield value


def _is_one_array(path: Path) -> bool:
    """Return True if the file is one array.

    A first line that is a whole reply, followed by another line, makes it JSON lines.
    """
    found = (text for _, text in lines(path) if text is None or text.strip())
    first = next(found, None) or ""
    if not first.lstrip("\ufeff \t").startswith("["):
        return False
    try:
        json.loads(first)
    except (ValueError, RecursionError):
        return True
    return next(found, None) is None
