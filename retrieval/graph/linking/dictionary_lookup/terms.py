"""Index the names of the shipped terminology, and give them to the nodes of a graph.

A name whose concept no node has stays known: a longer one hides the shorter ones within it, and a step can say what the
graph lacks.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import unicodedata
import zipfile
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from retrieval.graph.linking.dictionary_lookup.ambiguity import name_flags
from retrieval.graph.linking.dictionary_lookup.names import (
    ALIAS,
    CLAIM,
    CLASS,
    SYNONYM,
    VARIANT,
    NameTable,
    Posting,
    TableBuilder,
    Vocabulary,
    build_vocabulary,
    is_indexable,
)
from retrieval.graph.linking.dictionary_lookup.normalize import Hashes, hash_text, hash_tokens, surface, variants
from retrieval.graph.types import Node
from retrieval.terminology.concepts import OWN, Term, Terminology

# Raised with what the columns mean, so that a stored index of an earlier version is built anew.
_FORMAT: Final = 3
_COLUMNS: Final = ("keys", "written", "cased", "nodes", "kinds", "flags")
_BY_IDENTIFIER: Final = -1
_UNSURE: Final = 3
Codes = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class TermNames:
    """Hold the names of a terminology as rows of a table, whose nodes are the numbers of terms.

    ``concepts``: of each term. ``classes``: terms that are a class of diseases. ``identifiers``: hashes of the terms'
    identifiers, sorted; ``by_identifier``: the terms in this order. ``words``: those of all names.
    """

    terminology: Terminology
    table: NameTable
    concepts: Codes
    classes: Codes
    identifiers: Hashes
    by_identifier: Codes
    words: Vocabulary

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
        damaged = (OSError, ValueError, KeyError, zipfile.BadZipFile)
        with contextlib.suppress(*damaged), np.load(path, allow_pickle=False) as stored:
            return _of_columns(terminology, {name: stored[name] for name in stored.files})
    columns = _indexed(terminology)
    if path is not None:
        with contextlib.suppress(OSError):
            _store(path, columns)
    return _of_columns(terminology, columns)


def _store(path: Path, columns: dict[str, NDArray[Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, allow_pickle=False, **columns)
        Path(draft).replace(path)
    except OSError:
        Path(draft).unlink(missing_ok=True)
        raise


@lru_cache(maxsize=1)
def _indexed(terminology: Terminology) -> dict[str, NDArray[Any]]:
    builder = TableBuilder()
    words: set[str] = set()
    concepts: list[int] = []
    classes: list[int] = []
    identifiers: list[int] = []
    for number, term in enumerate(terminology.terms()):
        builder.node(str(number))
        is_first = not concepts or concepts[-1] != term.concept
        concepts.append(term.concept)
        classes += [number] * term.is_class
        identifiers.append(hash_text(term.identifier))
        for place, name in enumerate((*term.names, *term.claimed)):
            sort = CLAIM if place >= len(term.names) else 0 if is_first and not place else SYNONYM
            posting = _posting(builder, number, term, name, sort)
            sequences = variants(name)
            words.update(word for tokens in sequences[:1] for word in tokens if is_indexable(word))
            for variant, tokens in enumerate(sequences):
                flags = posting.flags | (VARIANT if variant else 0)
                builder.add(hash_tokens(tokens), len(tokens), posting._replace(flags=flags))
    table = builder.finish()
    order = np.argsort(np.array(identifiers, np.uint64), kind="stable")
    return {name: getattr(table, name) for name in _COLUMNS} | {
        "kind_names": np.array(table.kind_names, np.str_),
        "longest": np.array(table.longest),
        "concepts": np.array(concepts, np.int32),
        "classes": np.array(classes, np.int32),
        "identifiers": np.array(identifiers, np.uint64)[order],
        "by_identifier": order.astype(np.int32),
        "words": build_vocabulary(words).words,
    }


def _posting(builder: TableBuilder, number: int, term: Term, name: str, sort: int) -> Posting:
    return Posting(
        node=number,
        written=hash_text(surface(name)),
        cased=hash_text(unicodedata.normalize("NFKC", name)),
        kind=builder.kind(term.kind),
        # What this project itself says of an abbreviation is its commonest meaning.
        flags=ALIAS | name_flags(name) | (0 if term.source == OWN else sort),
    )


def _of_columns(terminology: Terminology, stored: dict[str, NDArray[Any]]) -> TermNames:
    table = NameTable(
        **{name: stored[name] for name in _COLUMNS},
        kind_names=tuple(map(str, stored["kind_names"])),
        node_ids=b"",
        offsets=np.zeros(1, np.int64),
        longest=int(stored["longest"]),
        names=0,
        too_long=0,
    )
    rows = {name: stored[name] for name in ("concepts", "classes", "identifiers", "by_identifier")}
    return TermNames(terminology, table, words=Vocabulary(stored["words"]), **rows)


def with_terms(graph: NameTable, node_kinds: NDArray[np.uint16], names: TermNames) -> NameTable:
    """Return the table with the terms' rows beside the graph's.

    A row of a concept without a node has the number of the concept beyond the graph's nodes.
    """
    codes = _codes(graph, node_kinds, names)
    nodes = codes[names.table.nodes]
    kind_names = tuple(dict.fromkeys((*graph.kind_names, *names.table.kind_names)))
    own_kinds = np.array([kind_names.index(kind) for kind in names.table.kind_names], np.uint16)
    is_known = nodes < graph.nodes_known
    kinds = own_kinds[names.table.kinds]
    kinds[is_known] = node_kinds[nodes[is_known]]
    keys = np.concatenate((graph.keys, names.table.keys))
    all_nodes = np.concatenate((graph.nodes, nodes))
    flags = np.concatenate((graph.flags, names.table.flags))
    flags[np.isin(all_nodes, codes[names.classes])] |= CLASS
    order = np.argsort(keys, kind="stable")
    return replace(
        graph,
        keys=keys[order],
        written=np.concatenate((graph.written, names.table.written))[order],
        cased=np.concatenate((graph.cased, names.table.cased))[order],
        flags=flags[order],
        nodes=all_nodes[order],
        kinds=np.concatenate((graph.kinds, kinds))[order],
        kind_names=kind_names,
        longest=max(graph.longest, names.table.longest),
    )


def _codes(graph: NameTable, node_kinds: NDArray[np.uint16], names: TermNames) -> Codes:
    """Return the node of each term: its own, else that of another term of its concept, else the concept's number."""
    best: dict[int, tuple[int, int]] = {}
    for term, code, rank in (*_by_identifier(graph, node_kinds, names), *_by_name(graph, names)):
        best[term] = min(best.get(term, (rank, code)), (rank, code))
    of_concept: dict[int, tuple[int, int]] = {}
    for term, found in best.items():
        concept = int(names.concepts[term])
        of_concept[concept] = min(of_concept.get(concept, found), found)
    by_concept = np.arange(len(names.terminology.firsts), dtype=np.int32) + np.int32(graph.nodes_known)
    for concept, (_, code) in of_concept.items():
        by_concept[concept] = code
    codes: Codes = by_concept[names.concepts]
    for term, (_, code) in best.items():
        codes[term] = code
    return codes


def _by_identifier(graph: NameTable, node_kinds: NDArray[np.uint16], names: TermNames) -> list[tuple[int, int, int]]:
    hashes = np.array(
        [hash_text(graph.node_id(code).partition("::")[2]) for code in range(graph.nodes_known)], np.uint64
    )
    places = np.searchsorted(names.identifiers, hashes)
    places = np.minimum(places, len(names.identifiers) - 1)
    found = []
    for code in np.nonzero(names.identifiers[places] == hashes)[0].tolist():
        term = int(names.by_identifier[places[code]])
        if names.terminology.term(term).may_be(graph.kind_names[node_kinds[code]]):
            found.append((term, code, _BY_IDENTIFIER))
    return found


def _by_name(graph: NameTable, names: TermNames) -> list[tuple[int, int, int]]:
    """Return the terms that share a name with a node, unless it is a synonym on both sides."""
    rows = np.nonzero(graph.flags & VARIANT == 0)[0]
    firsts, lasts = names.table.ranges(graph.keys[rows])
    found = []
    for place in np.nonzero(lasts > firsts)[0].tolist():
        row = int(rows[place])
        for posting in names.table.postings(int(firsts[place]), int(lasts[place])):
            rank = 2 * int(graph.flags[row] & SYNONYM) + bool(posting.flags & (SYNONYM | CLAIM))
            term = names.terminology.term(posting.node)
            is_own = term.source == OWN or posting.flags & VARIANT
            if rank < _UNSURE and not is_own and term.may_be(graph.kind_names[int(graph.kinds[row])]):
                found.append((posting.node, int(graph.nodes[row]), rank))
    return found
