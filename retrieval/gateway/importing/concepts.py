"""Number MedGen concepts, and merge the parts of one concept that come from several files."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from retrieval.gateway.importing.items import MalformedRecord, shown
from retrieval.gateway.records import Concept, OmimEntry

_CUI: Final = re.compile(r"(CN?)([0-9]{1,8})", re.ASCII)
_FIRST: Final = {"C": 1_000_000_000, "CN": 2_000_000_000}


def concept_uid(cui: str) -> int:
    """Return a number for a concept: 1000000000 + n for UMLS's Cn, 2000000000 + n for NCBI's CNn.

    Entrez's own numbers (below ten million) are in none of MedGen's tables of names, identifiers and definitions, and
    links must resolve whichever file is read first; so the number is derived from the identifier that all files share.

    Raises:
        MalformedRecord: ``cui`` is no such identifier.
    """
    found = _CUI.fullmatch(cui)
    if found is None:
        raise MalformedRecord(f"CUI: C or CN and digits were expected, not {shown(cui)}")
    return _FIRST[found[1]] + int(found[2])


def merge_concepts(old: Concept, new: Concept) -> Concept:
    """Merge two parts of one concept: an empty field is unknown, a non-empty field of ``new`` wins, lists are joined.

    A name that ``new`` replaces stays searchable as a synonym.
    """
    if old.uid != new.uid:
        raise ValueError(f"concepts {old.cui} and {new.cui} are not one")
    name = new.name or old.name
    names = dict.fromkeys((*old.synonyms, *new.synonyms, old.name))
    return replace(
        old,
        name=name,
        definition=new.definition or old.definition,
        synonyms=tuple(synonym for synonym in names if synonym and synonym != name),
        source_ids=tuple(dict.fromkeys((*old.source_ids, *new.source_ids))),
        semantic_type=new.semantic_type or old.semantic_type,
    )


def merge_omim(old: OmimEntry, new: OmimEntry) -> OmimEntry:
    """Merge two parts of one entry (mimTitles, genemap2, MedGen's names); an empty field is unknown.

    OMIM prints its titles in capitals; such a title is not replaced by MedGen's name for the entry.
    """
    if old.mim_number != new.mim_number:
        raise ValueError(f"entries {old.mim_number} and {new.mim_number} are not one")
    keeps = old.title and (not new.title or (old.title.isupper() and not new.title.isupper()))
    return OmimEntry(
        old.mim_number,
        new.prefix or old.prefix,
        old.title if keeps else new.title,
        new.alternative_titles or old.alternative_titles,
        new.locus or old.locus,
    )
