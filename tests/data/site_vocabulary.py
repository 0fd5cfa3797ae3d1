"""The vocabulary of a site: the sample's names, and beside them a hostile source with words of sentences as names."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from shipped_data import give_store

from retrieval.gateway.store.open import open_store
from retrieval.types import KnownName, NameKind
from server.wiring.ncbi import SiteNames, site_names

# What full lists of genes do have: flies' genes are named after anything, and people write aliases in capitals.
_WORDS = "john smith has hiv she rest cat maria white eve for positive patient lost born not and or"
_ELSEWHERE = frozenset(_WORDS.split())
_ALIASES = frozenset(word.upper() for word in _ELSEWHERE - {"hiv"})
_OFFICIAL = frozenset({"CAT", "SHE", "REST", "MAX", "KIT", "BRCA1", "BRCA2"})


class HostileNames:
    """Know words of sentences as symbols of flies, as human aliases, and some as the official symbols that they are."""

    def find(self, name: str, kinds: Collection[NameKind]) -> Iterator[KnownName]:
        known: list[KnownName] = [KnownName(name.lower(), "other_symbol")] if name.lower() in _ELSEWHERE else []
        known += [KnownName(name.upper(), "alias")] if name.upper() in _ALIASES else []
        known += [KnownName(name.upper(), "symbol")] if name.upper() in _OFFICIAL else []
        yield from (one for one in known if one.kind in kinds)


def sample_names(folder: Path) -> SiteNames:
    """Return the vocabulary of an installation with the sample alone; its store is in the folder."""
    return site_names(open_store(give_store(folder / "gateway")), folder / "graphs", "small")


def hostile_names(folder: Path) -> SiteNames:
    return SiteNames((sample_names(folder), HostileNames()))
