"""What a store was filled from, with source, date, entries and licence."""

from __future__ import annotations

from pathlib import Path

from ncbi_files import pubmed_record, pubmed_set, saved

from retrieval.formats.items import ReadOptions
from retrieval.gateway.importing.registry import KINDS
from retrieval.gateway.importing.run import import_file
from retrieval.gateway.importing.tables import tables_of
from retrieval.gateway.store.open import load_corpus, open_store


def test_each_table_of_the_sample_is_told(tmp_path: Path) -> None:
    told = {one.name: one for one in tables_of(open_store(tmp_path))}

    assert told["sample: gene"].entries == len(load_corpus().genes)
    assert told["sample: snp"].licence == "public domain (work of the US government)"
    assert all(one.source and one.date == "spring 2023" and one.replaced_by for one in told.values())


def test_a_sites_own_file_takes_the_place_of_the_sample(tmp_path: Path) -> None:
    path = saved(tmp_path / "pubmed26n0001.xml", pubmed_set(pubmed_record("1")))
    import_file(tmp_path / "data", KINDS["pubmed"], path, ReadOptions(), lambda _: None)

    (told,) = tables_of(open_store(tmp_path / "data"))

    assert (told.name, told.entries, told.file) == ("pubmed", 1, "pubmed26n0001.xml")
    assert told.date.startswith("imported 20")
    assert (told.source, told.licence) == (KINDS["pubmed"].address, KINDS["pubmed"].licence)


def test_every_kind_of_file_names_its_terms() -> None:
    assert all(kind.licence for kind in KINDS.values())
