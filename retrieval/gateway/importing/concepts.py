"""MedGen concepts: their number, and how the pieces of one that come from several files meet."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from retrieval.gateway.importing.items import MalformedRecord, shown
from retrieval.gateway.records import Concept, OmimEntry

_CUI: Final = re.compile(r"(CN?)([0-9]{1,8})", re.ASCII)
_FIRST: Final = {"C": 1_000_000_000, "CN": 2_000_000_000}


def concept_uid(cui: str) -> int:
    """A number for a concept: 1000000000 + n for UMLS's Cn, 2000000000 + n for NCBI's CNn.

    Entrez's own numbers (below ten million) are in none of MedGen's tables of names, identifiers and definitions, and
    links must meet whichever file is read first; so the number is made from the identifier that all files share.
    """
    found = _CUI.fullmatch(cui)
    if found is None:
        raise MalformedRecord(f"CUI: C or CN and digits were expected, not {shown(cui)}")
    return _FIRST[found[1]] + int(found[2])


def merge_concepts(old: Concept, new: Concept) -> Concept:
    """One concept from two pieces: an empty field is unknown, a filled one of ``new`` counts, lists are joined.

    A name that ``new`` replaces stays findable as a synonym.
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
    """One entry from two pieces (mimTitles, genemap2, MedGen's names): an empty field is unknown.

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
