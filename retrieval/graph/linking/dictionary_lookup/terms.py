"""Index the names of the shipped terminology, and give them to the nodes of a graph.

A name whose concept no node has stays known: a longer one hides the shorter ones within it, and a step can say what the
graph lacks.
"""

from __future__ import annotations

import contextlib
import tempfile
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from retrieval.graph.linking.dictionary_lookup.names import (
    ALIAS,
    CLAIM,
    CLASS,
    SYNONYM,
    NameTable,
    TableBuilder,
    Vocabulary,
    name_flags,
)
from retrieval.graph.linking.dictionary_lookup.normalize import Hashes, hash_text
from retrieval.graph.types import Node
from retrieval.storage.files import FILE_MODE, make_folder, sync
from retrieval.terminology.concepts import OWN, Terminology

# Raised with what the columns mean, so that a stored index of an earlier version is built anew.
_FORMAT: Final = 4
_UNSURE: Final = 3
Codes = NDArray[np.int32]
Columns = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class TermNames:
    """Hold the names of a terminology as rows of a table, whose nodes are the numbers of terms.

    ``concepts``: of each term. ``classes``: terms that are a class of diseases. ``identifiers``: hashes of the terms'
    identifiers, sorted; ``by_identifier``: the terms in this order.
    """

    terminology: Terminology
    table: NameTable
    concepts: Codes
    classes: Codes
    identifiers: Hashes
    by_identifier: Codes

    def node(self, concept: int) -> Node:
        """Return a concept in the form of a node, whose source is that of its first name."""
        found = self.terminology.concept(concept)
        first = found.terms[0]
        return Node(
            node_id=f"{first.kind}::{first.identifier}",
            kind=first.kind,
            name=found.name,
            identifier=first.identifier,
            synonyms=found.names[1:],
        )


def term_names(terminology: Terminology, folder: Path | None = None) -> TermNames:
    """Index a terminology; takes some seconds for the shipped one, once for each ``folder``, which keeps the index.

    Without a folder, or with one that cannot be written to, it is built each time.
    """
    path = folder / f".names-{_FORMAT}-{terminology.digest[:16]}.npz" if folder else None
    if path is not None:
        # Whatever numpy's readers raise of a damaged file, it is made again.
        with contextlib.suppress(Exception), np.load(path, allow_pickle=False) as stored:
            return _of_columns(terminology, {name: stored[name] for name in stored.files})
    columns = _indexed(terminology)
    if path is not None:
        with contextlib.suppress(OSError):
            make_folder(path.parent)
            with tempfile.TemporaryDirectory(dir=path.parent) as draft:
                np.savez(made := Path(draft, path.name), allow_pickle=False, **columns)
                made.chmod(FILE_MODE)
                sync(made)
                made.replace(path)
    return _of_columns(terminology, columns)


@lru_cache(maxsize=1)
def _indexed(terminology: Terminology) -> Columns:
    builder = TableBuilder()
    concepts: list[int] = []
    classes: list[int] = []
    identifiers = array("Q")
    for number, term in enumerate(terminology.terms()):
        builder.node(str(number), term.kind)
        is_first = not concepts or concepts[-1] != term.concept
        concepts.append(term.concept)
        identifiers.append(hash_text(term.identifier))
        classes += [number] * term.is_class
        for place, name in enumerate((*term.names, *term.claimed)):
            sort = CLAIM if place >= len(term.names) else 0 if is_first and not place else SYNONYM
            # What this project itself says of an abbreviation is its commonest meaning.
            flags = ALIAS | name_flags(name) | (0 if term.source == OWN else sort)
            builder.add(name, number, flags)
    table, order = builder.finish(), np.argsort(identifiers, kind="stable")
    return {
        "keys": table.keys,
        "rows": table.rows,
        "kinds": table.kinds,
        "words": table.words.words,
        "kind_names": np.array(table.kind_names, np.str_),
        "longest": np.array(table.longest),
        "concepts": np.array(concepts, np.int32),
        "classes": np.array(classes, np.int32),
        "identifiers": np.array(identifiers)[order],
        "by_identifier": order.astype(np.int32),
    }


def _of_columns(terminology: Terminology, stored: Columns) -> TermNames:
    table = NameTable(
        keys=stored["keys"],
        rows=stored["rows"],
        kinds=stored["kinds"],
        kind_names=tuple(map(str, stored["kind_names"])),
        longest=int(stored["longest"]),
        words=Vocabulary(stored["words"]),
        node_ids=b"",
        offsets=np.zeros(1, np.int64),
    )
    columns = (stored[name] for name in ("concepts", "classes", "identifiers", "by_identifier"))
    return TermNames(terminology, table, *columns)


def with_terms(graph: NameTable, names: TermNames) -> NameTable:
    """Return the table with the terms' rows beside the graph's.

    A row of a concept without a node has the number of the concept beyond the graph's nodes.
    """
    codes = _codes(graph, names)
    kind_names = tuple(dict.fromkeys((*graph.kind_names, *names.table.kind_names)))
    own_kinds = np.array([kind_names.index(kind) for kind in names.table.kind_names], np.uint16)
    added = names.table.rows.copy()
    added["node"] = codes[added["node"]]
    keys, rows = np.concatenate((graph.keys, names.table.keys)), np.concatenate((graph.rows, added))
    rows["flags"][np.isin(rows["node"], codes[names.classes])] |= CLASS
    order = np.argsort(keys, kind="stable")
    return replace(
        graph,
        keys=keys[order],
        rows=rows[order],
        kinds=np.concatenate((graph.kinds, own_kinds[names.table.kinds[list(names.terminology.firsts)]])),
        kind_names=kind_names,
        longest=max(graph.longest, names.table.longest),
        words=graph.words.joined(names.table.words),
    )


def _codes(graph: NameTable, names: TermNames) -> Codes:
    """Return the node of each term: its own, else that of another term of its concept, else the concept's number."""
    by_concept = np.arange(len(names.terminology.firsts), dtype=np.int32) + np.int32(graph.nodes_known)
    same = sorted((*_of_identifier(graph, names), *_of_name(graph, names)), reverse=True)
    for _, node, term in same:
        by_concept[names.concepts[term]] = node
    codes: Codes = by_concept[names.concepts]
    for _, node, term in same:
        codes[term] = node
    return codes


def _of_identifier(graph: NameTable, names: TermNames) -> Iterator[tuple[int, int, int]]:
    """Yield (rank, node, term) of the same identifier; a lower rank is surer."""
    nodes = range(graph.nodes_known)
    hashes = np.fromiter((hash_text(graph.node_id(node).partition("::")[2]) for node in nodes), np.uint64, len(nodes))
    places = np.minimum(np.searchsorted(names.identifiers, hashes), len(names.identifiers) - 1)
    for node in np.nonzero(names.identifiers[places] == hashes)[0].tolist():
        term = int(names.by_identifier[places[node]])
        if names.terminology.term(term).may_be(graph.kind(node)):
            yield -1, node, term


def _of_name(graph: NameTable, names: TermNames) -> Iterator[tuple[int, int, int]]:
    """Yield (rank, node, term) that share a name, unless it is a synonym on both sides."""
    firsts, lasts = names.table.ranges(graph.keys)
    for row in np.nonzero(lasts > firsts)[0].tolist():
        (own,) = graph.postings(row, row + 1)
        for posting in names.table.postings(int(firsts[row]), int(lasts[row])):
            rank = 2 * int(own.flags & SYNONYM) + bool(posting.flags & (SYNONYM | CLAIM))
            term = names.terminology.term(posting.node)
            if rank < _UNSURE and term.source != OWN and term.may_be(graph.kind(own.node)):
                yield rank, own.node, posting.node
