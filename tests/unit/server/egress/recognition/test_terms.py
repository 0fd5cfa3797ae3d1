"""The form of search terms: clauses, fields, operators, and what clauses may say together."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pytest

from retrieval.types import KnownName, NameKind
from server.egress.recognition.terms import FIELDS, IMPLIED, MAX_CLAUSES, NotRecognized, Search, recognize_term

KNOWN: dict[NameKind, tuple[str, ...]] = {
    "symbol": ("NAT2", "KIT", "CAT", "C9orf72", "HLA-B"),
    "alias": ("HER-2/neu", "SHE", "PRAAS5"),
    "other_symbol": ("Trp53", "white", "eve"),
    "gene_name": ("N-acetyltransferase 2",),
    "organism": ("human", "mouse", "Homo sapiens"),
    "disease": ("TAY-SACHS DISEASE", "ATAXIA AND DEAFNESS", "Sjögren syndrome"),
    "heading": ("Breast Neoplasms", "Diabetes Mellitus, Type 2"),
}


class Names:
    def find(self, name: str, kinds: Collection[NameKind]) -> Iterator[KnownName]:
        for kind in kinds:
            yield from (KnownName(text, kind) for text in KNOWN[kind] if text.casefold() == name.casefold())

    def is_ordinary(self, word: str) -> bool:
        return word in {"kit", "cat", "she", "white", "eve"}


def _read(term: str, db: str = "gene", field: str = "") -> str:
    return recognize_term(term, Search("term", db, field), Names()).text


def _why(term: str, db: str = "gene", field: str = "") -> str:
    with pytest.raises(NotRecognized) as caught:
        _read(term, db, field)
    return caught.value.refused.reason


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("NAT2", "NAT2"),
        ("nat2[sym]", "NAT2[sym]"),
        ("C9ORF72", "C9orf72"),
        ("C9ORF72[Gene Name]", "C9orf72[gene name]"),
        ("hla-b[gene]", "HLA-B[gene]"),
        ("HER-2/neu[gene]", "HER-2/neu[gene]"),
        ("HER-2 neu[gene]", None),
        ("Trp53[sym] AND Mouse[orgn]", "Trp53[sym] AND mouse[orgn]"),
        ("NAT2 [sym] AND human [orgn]", "NAT2[sym] AND human[orgn]"),
        ("Tay-Sachs disease[title] AND NAT2[sym]", "tay-sachs disease[title] AND NAT2[sym]"),
        ('"breast neoplasms"[MeSH Terms] OR NAT2[TITLE]', '"breast neoplasms"[mesh terms] OR NAT2[title]'),
        ("diabetes mellitus, type 2[mh]", "diabetes mellitus, type 2[mh]"),
        ("diabetes mellitus type 2[mh]", None),
        ("Sjögren syndrome[mesh]", None),
        ("CAT[sym]", "CAT[sym]"),
        ("SHE[sym]", None),
        ("PRAAS5[sym]", "PRAAS5[sym]"),
        ("white[sym]", None),
        ("KIT[sym] AND CAT[sym]", None),
        ("KIT[sym] AND NAT2[sym]", "KIT[sym] AND NAT2[sym]"),
        ("NAT2[sym] AND MT[chr]", "NAT2[sym] AND mt[chr]"),
        ("review[pt] AND NAT2[title]", "review[pt] AND NAT2[title]"),
    ],
)  # fmt: skip
def test_names_leave_in_their_stored_spelling(written: str, sent: str | None) -> None:
    """None: it stays, by its case, its punctuation, or as a word that is too ordinary."""
    if sent is None:
        _why(written, "pubmed")
    else:
        assert _read(written, "pubmed" if "[" in written else "gene") == sent


def test_a_capital_and_in_a_name_does_not_become_an_operator() -> None:
    """OMIM's titles are in capitals; they are sent in small letters."""
    assert _read("ataxia and deafness", "omim") == "ataxia and deafness"
    assert _why("ATAXIA AND DEAFNESS", "omim") == "form"


@pytest.mark.parametrize(
    ("term", "reason"),
    [
        ("NAT2[sym] human[orgn]", "form"),
        ("NAT2 AND human[orgn]", "form"),
        ("NAT2[sym] NOT human[orgn]", "form"),
        ("(NAT2[sym])", "form"),
        ("NAT2[sym] OR NAT2[gene] OR human[orgn] OR KIT[sym]", "combination"),
        ("NAT2[sym] OR nat2[sym]", "combination"),
        ("human[orgn] AND mouse[orgn]", "combination"),
        ("672[uid] AND NAT2[sym]", "combination"),
        ("17[chr] AND 672[uid]", "combination"),
        ("NAT2[au]", "word"),
        ("John[sym]", "word"),
        ("human[sym]", "word"),
        ("NAT2[orgn]", "word"),
        ("43[chr]", "identifier"),
        ("43044295[chrpos]", "position"),
        ("NAT2[chrpos]", "position"),
        ("0672[uid]", "identifier"),
        ("", "form"),
    ],
)
def test_other_terms_stay(term: str, reason: str) -> None:
    """Each for its own reason."""
    assert _why(term) == reason


def test_a_name_without_a_field_has_the_kind_of_its_database() -> None:
    """A symbol among taxa and an organism among genes are unknown; the call's own field comes first."""
    assert _read("NAT2", "gene") == "NAT2" and _why("NAT2", "taxonomy") == "word"
    assert _read("Human", "taxonomy") == "human" and _why("human", "gene") == "word"
    assert _read("human", "gene", "orgn") == "human" and _why("NAT2", "gene", "orgn") == "word"


def test_each_field_has_something_that_fits() -> None:
    """No field accepts nothing, and each database implies a kind."""
    assert all(field.kinds or field.ids is not None or field.fixed or field.place for field in FIELDS.values())
    assert all(IMPLIED.values()) and MAX_CLAUSES == 3
