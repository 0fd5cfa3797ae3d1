"""Synonyms of genes, from the sample of facts that comes with the package."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from retrieval.errors import GatewayDataError
from retrieval.gateway.query.synonyms import MAX_NAMES, MAX_SYNONYMS, StoreSynonyms, other_names
from retrieval.gateway.store.open import open_store
from retrieval.gateway.store.reader import GatewayStore


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreSynonyms]:
    folder: Path = tmp_path_factory.mktemp("gateway")
    yield StoreSynonyms(lambda: open_store(folder), lambda word: word in ("large", "set", "cat", "app", "insulin"))


def _named(names: StoreSynonyms, text: str) -> dict[str, tuple[str, ...]]:
    return {one.name: one.synonyms for one in names.named_in(text)}


def test_a_symbol_or_a_sole_alias_names_a_gene(names: StoreSynonyms) -> None:
    """With the official symbol, aliases and the name, without what was asked for."""
    found = names.synonyms("LMP10")
    assert "PSMB10" in found and "LMP10" not in found
    assert "LMP10" in names.synonyms("PSMB10") and names.is_gene("psmb10")


@pytest.mark.parametrize("name", ["zebrafish", "", "large", "a" * 500, "%_", "MECL1 OR 1"])
def test_what_is_no_gene_has_no_synonyms(names: StoreSynonyms, name: str) -> None:
    """Nor have words of English, and nothing in a name is query syntax."""
    assert names.synonyms(name) == ()


@pytest.mark.parametrize(
    ("text", "name", "synonym"),
    [
        ("Does IL-6 rise?", "IL-6", "interleukin 6"),
        ("il 6 in serum", "il 6", "interleukin 6"),
        ("Blocking interleukin-6's receptor", "interleukin-6", "IL6"),
        ("serum TNF-α after surgery", "TNF-α", "tumor necrosis factor"),
        ("the role of LMP10.", "LMP10", "PSMB10"),
        ("N-acetyltransferase 2 in (liver)", "N-acetyltransferase 2", "NAT2"),
        ("CAT activity in red cells", "CAT", "catalase"),
    ],
)
def test_names_in_a_text_are_found_in_their_notations(names: StoreSynonyms, text: str, name: str, synonym: str) -> None:
    """Symbols, aliases and whole names, as they are written."""
    assert synonym in _named(names, text)[name]


@pytest.mark.parametrize(
    "text",
    [
        "the cat sat on a set of papers",
        "WHAT DOES A CAT EAT",
        "pulmonary arterial hypertension (PAH)",
        "Is PAH treated with sildenafil (PAH)?",
        "type T2 signals",
        "insulin secretion",
        "the cause of Roberts syndrome",
        "| ~ OR 1",
        "",
    ],
)
def test_words_and_ambiguous_abbreviations_are_no_names(names: StoreSynonyms, text: str) -> None:
    """Small letters, whole texts in capitals, abbreviations that a text explains."""
    assert _named(names, text) == {}


def test_a_short_alias_is_a_name_beside_a_word_that_says_so(names: StoreSynonyms) -> None:
    """MCAD is the alias of ACADM, and may be an abbreviation of something else."""
    assert _named(names, "outcome of MCAD") == {}
    assert "ACADM" in _named(names, "a variant of the MCAD gene")["MCAD"]


def test_a_synonym_is_no_part_or_other_order_of_the_name() -> None:
    """Nor one that contains all its words, of which each passage has fewer."""
    names = ("Arthritis, Rheumatoid", "Rheumatoid Polyarthritis", "Rheumatoid Arthritis of the hand", "PCP")
    assert other_names("rheumatoid arthritis", names) == ("Rheumatoid Polyarthritis", "PCP")


def test_names_and_synonyms_are_bounded(names: StoreSynonyms) -> None:
    """A long text costs no more than a short one, and no gene has all its aliases searched."""
    genes = "BRCA1 BRCA2 KRAS NRAS BRAF EGFR PTEN TP53 MLH1 MSH2 CFTR APOE"
    found = names.named_in(f"{genes} and {'word ' * 5000} {genes}?")
    assert len(found) == MAX_NAMES
    assert max(len(one.synonyms) for one in found) <= MAX_SYNONYMS


async def test_a_store_that_cannot_be_opened_means_no_synonyms() -> None:
    """Tried once, and told in the log."""
    tries = []

    def fail() -> GatewayStore:
        tries.append(1)
        raise GatewayDataError("damaged")

    names = StoreSynonyms(fail, lambda _: False)
    assert names.synonyms("LMP10") == names.synonyms("PSMB10") == ()
    assert names.named_in("Does IL-6 rise?") == ()
    assert len(tries) == 1
    await names.close()
