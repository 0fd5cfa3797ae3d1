"""The command that writes a sample of every kind of file."""

from __future__ import annotations

from pathlib import Path

import pytest
from ncbi_files import entries

from retrieval.formats.records import Article, Concept, Entry, Gene, Link, OmimEntry, Removal, Snp, Variation
from retrieval.gateway.importing.registry import KINDS, guess_kind
from scripts.make_ncbi_sample import main

ARGUMENTS = ["--genes", "120", "--snps", "150", "--articles", "80"]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> list[Entry]:
    directory = tmp_path_factory.mktemp("sample")
    assert main([str(directory), *ARGUMENTS]) == 0
    kinds = {path: guess_kind(path) for path in directory.iterdir()}
    assert set(kinds.values()) == {*KINDS, None}  # None: the FASTA file, which is no record file
    return [entry for path, kind in kinds.items() if kind for entry in entries(kind, path)]


def test_the_links_between_the_files_meet(store: list[Entry]) -> None:
    """Every gene, SNP, article, concept and OMIM entry that is referred to is in some file."""
    known: dict[str, set[str]] = {db: set() for db in ("gene", "snp", "pubmed", "omim", "medgen", "clinvar")}
    for entry in store:
        match entry:
            case Gene():
                known["gene"].add(str(entry.gene_id))
            case Snp():
                known["snp"].add(str(entry.snp_id))
            case Article():
                known["pubmed"].add(str(entry.pmid))
            case OmimEntry():
                known["omim"].add(str(entry.mim_number))
            case Concept():
                known["medgen"].add(str(entry.uid))
            case Variation():
                known["clinvar"].add(str(entry.variation_id))
    links = [entry for entry in store if isinstance(entry, Link)]
    assert len(links) > 500
    ends = [(link.source, link.source_uid) for link in links] + [(link.target, link.target_uid) for link in links]
    beyond = [(db, uid) for db, uid in ends if uid not in known[db]]
    assert len(beyond) < 0.02 * len(ends)
    assert {db for db, _ in ends} == set(known)


def test_the_same_seed_writes_the_same_files(tmp_path: Path) -> None:
    """A finding can be repeated; another seed writes others."""
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        main([str(tmp_path / name), "--genes", "20", "--snps", "20", "--articles", "5", "--seed", seed])
    for name in ("gene_info.gz", "GCF_000001405.40.gz", "pubmed26n0001.xml.gz", "NAMES.RRF.gz"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert (tmp_path / "a" / "gene_info.gz").read_bytes() != (tmp_path / "c" / "gene_info.gz").read_bytes()


def test_a_removal_names_an_article_of_the_baseline(store: list[Entry]) -> None:
    """The update file withdraws what an earlier file brought."""
    articles = {str(entry.pmid) for entry in store if isinstance(entry, Article)}
    removed = {entry.uid for entry in store if isinstance(entry, Removal)}
    assert removed
    assert removed <= articles
