"""Read files of synonyms and add them to the nodes of a graph that another loader reads.

Known by their content: Disease Ontology and other OBO files, HGNC's complete set, MeSH descriptors in ASCII, DrugBank's
open vocabulary, and own tables (name or identifier, synonyms). Only names that mean the same are taken: OBO's EXACT
synonyms, and MeSH's entry terms that are marked as equivalent or not at all.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from retrieval.errors import GRAPH_INVALID, GraphError
from retrieval.formats.sources import Line
from retrieval.graph.loaders.reading import RecordPosition, Report, Row, lines, many, table
from retrieval.graph.types import Edge, GraphLoader, Node

_MOST: Final = 200
_MAX_NAME: Final = 300
_GENES: Final = ("gene", "protein")
_DISEASES: Final = ("disease", "phenotype", "symptom")
_DRUGS: Final = ("compound", "drug", "chemical", "molecule")
_OBO_SYNONYM: Final = re.compile(r'synonym: "((?:[^"\\]|\\.)*)" EXACT\b')
_EQUIVALENT: Final = ("", "EQV")
_SOURCE_BEFORE: Final = re.compile(r"^(?:DrugBank|NCBIGene|NCBI|HGNC_ID):", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Entry:
    """Represent one record: ``keys`` identify its node, ``names`` are equal, and ``kinds`` are parts of its node's."""

    keys: tuple[str, ...]
    names: tuple[str, ...]
    kinds: tuple[str, ...] = ()


@dataclass(slots=True)
class SynonymTable:
    """Hold synonyms by identifier and by name, in memory; a name of two records is no key."""

    entries: dict[str, _Entry | None] = field(default_factory=dict)

    def add(self, entry: _Entry) -> None:
        for key in entry.keys:
            known = self.entries.get(key.casefold(), entry)
            self.entries[key.casefold()] = entry if known is entry else None

    def of(self, node: Node) -> tuple[str, ...]:
        """Return the further names of a node, at most 200, none for a record of another kind."""
        identifier = _SOURCE_BEFORE.sub("", node.identifier)
        found = self.entries.get(identifier.casefold()) or self.entries.get(node.name.casefold())
        if found is None or (found.kinds and not any(kind in node.kind.casefold() for kind in found.kinds)):
            return ()
        known = {node.name, *node.synonyms}
        return tuple(name for name in dict.fromkeys(found.names) if name not in known)[:_MOST]


@dataclass(frozen=True, slots=True)
class SynonymLoader:
    """Load what ``loader`` loads, with the synonyms of ``names`` added to its nodes."""

    loader: GraphLoader
    synonyms: SynonymTable

    @property
    def place(self) -> str:
        return self.loader.place

    def nodes(self) -> Iterator[Node]:
        for node in self.loader.nodes():
            more = self.synonyms.of(node)
            yield replace(node, synonyms=(*node.synonyms, *more)) if more else node

    def edges(self) -> Iterator[Edge]:
        return self.loader.edges()


def read_synonyms(files: Sequence[Path], report: Report) -> SynonymTable:
    """Read all files.

    Raises:
        GraphError: a file is of no known form, or cannot be read.
    """
    found = SynonymTable()
    for path in files:
        place = RecordPosition(path.name)
        for entry in _entries(path, place, report):
            names = tuple(" ".join(name.split()) for name in entry.names)
            found.add(replace(entry, names=tuple(name for name in names if name and len(name) <= _MAX_NAME)))
    return found


def _entries(path: Path, place: RecordPosition, report: Report) -> Iterator[_Entry]:
    first = next((text for _, text in lines(path) if text and text.strip() and not text.startswith("#")), "")
    if first.startswith(("format-version:", "[Term]")):
        return _obo(_texts(path, place, report))
    if first.startswith("*NEWRECORD"):
        return _mesh(_texts(path, place, report))
    if first.startswith("DrugBank ID,"):
        return _drugbank(_texts(path, place, report))
    columns = {name.strip() for name in first.split("\t")}
    if columns >= {"hgnc_id", "symbol"}:
        return map(_hgnc, _rows(path, place, report))
    if "synonyms" in columns and columns & {"name", "identifier"}:
        return map(_plain, _rows(path, place, report))
    raise GraphError(
        f"{path}: no file of synonyms: neither OBO, HGNC's table, MeSH's ASCII, DrugBank's vocabulary, nor a table "
        "with the columns name or identifier, and synonyms",
        GRAPH_INVALID,
        param="synonyms",
    )


def _texts(path: Path, place: RecordPosition, report: Report) -> Iterator[str]:
    source: Iterable[Line] = lines(path)
    for place.line, text in source:
        if text is None:
            report.add(str(place), "the line is not valid UTF-8")
        else:
            yield text


def _rows(path: Path, place: RecordPosition, report: Report) -> Iterator[Row]:
    rows = table(lines(path), place, report)
    next(rows)
    return rows


def _obo(texts: Iterable[str]) -> Iterator[_Entry]:
    keys: list[str] = []
    names: list[str] = []
    obsolete = False
    for text in (*texts, "[End]"):
        if text.startswith("["):
            if keys and not obsolete:
                yield _Entry(tuple(keys), tuple(names), _DISEASES if keys[0].startswith(("DOID:", "MONDO:")) else ())
            keys, names, obsolete = [], [], False
        elif text.startswith(("id: ", "name: ")):
            keys.append(text.partition(": ")[2].strip())
            names += keys[-1:] if text.startswith("name: ") else []
        elif text.startswith("is_obsolete: true"):
            obsolete = True
        elif match := _OBO_SYNONYM.match(text):
            names.append(re.sub(r"\\(.)", r"\1", match[1]))


def _mesh(texts: Iterable[str]) -> Iterator[_Entry]:
    keys: list[str] = []
    names: list[str] = []
    for text in (*texts, "*NEWRECORD"):
        label, _, value = text.partition(" = ")
        if text.startswith("*NEWRECORD"):
            if keys:
                yield _Entry(tuple(keys), tuple(names))
            keys, names = [], []
        elif label in ("MH", "UI"):
            keys.append(value.strip())
            names += [value.strip()] if label == "MH" else []
        elif label in ("ENTRY", "PRINT ENTRY"):
            parts = value.split("|")
            relation = next((part for part in parts[1:] if part in ("EQV", "NRW", "BRD", "REL")), "")
            names += [parts[0].strip()] if relation in _EQUIVALENT else []


def _drugbank(texts: Iterable[str]) -> Iterator[_Entry]:
    for row in csv.DictReader(texts):
        identifier, name = row.get("DrugBank ID") or "", row.get("Common name") or ""
        if identifier and name:
            synonyms = many((row.get("Synonyms") or "").replace(" | ", "|"))
            yield _Entry((identifier, name), (name, *synonyms), _DRUGS)


def _hgnc(row: Row) -> _Entry:
    columns = ("alias_symbol", "prev_symbol", "name", "alias_name", "prev_name")
    names = [name for column in columns for name in many(row.get(column, "").strip('"'))]
    keys = [row.get(column, "").strip() for column in ("hgnc_id", "symbol", "entrez_id")]
    return _Entry(tuple(filter(None, keys)), (row["symbol"].strip(), *names), _GENES)


def _plain(row: Row) -> _Entry:
    keys = [row.get(column, "").strip() for column in ("identifier", "name")]
    return _Entry(tuple(filter(None, keys)), (row.get("name", "").strip(), *many(row["synonyms"])))
