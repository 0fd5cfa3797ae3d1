"""The store: built atomically, opened read-only, rebuilt when it does not fit; the sample's size and sanity."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections import Counter
from pathlib import Path

import pytest
from waiting import in_threads

from retrieval.errors import GatewayDataError
from retrieval.formats.records import Corpus
from retrieval.gateway.store.open import SAMPLE_DIR, build_store, load_corpus, open_store
from retrieval.gateway.store.reader import GatewayStore


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return load_corpus()


def test_the_sample_has_what_a_fresh_machine_needs(corpus: Corpus) -> None:
    """Genes of the seven organisms, SNPs, OMIM entries and sequences in the promised numbers, in less than 1 MB."""
    per_organism = Counter(gene.organism.tax_id for gene in corpus.genes if gene.status == 0)
    assert per_organism[9606] >= 300
    assert all(per_organism[tax_id] >= 15 for tax_id in (10090, 10116, 559292, 7227, 6239, 7955))
    assert len(corpus.snps) >= 100
    assert len(corpus.omim) >= 100
    assert len({(s.accession, s.start) for s in corpus.segments}) >= 50
    assert sum(1 for gene in corpus.genes if gene.summary) >= 100
    assert sum(file.stat().st_size for file in SAMPLE_DIR.iterdir()) < 1_000_000


def test_records_agree_with_themselves_and_each_other(corpus: Corpus) -> None:
    """Bands lie on their chromosome, SNP genes and their ids match the gene records, alleles stand in the SPDI."""
    symbols = {str(gene.gene_id): gene.symbol for gene in corpus.genes}
    for gene in corpus.genes:
        if gene.organism.tax_id == 9606 and re.match(r"(\d+|X|Y)[pq]", gene.map_location):
            assert re.match(r"(\d+|X|Y)", gene.map_location)[0] == gene.chromosome or "|" in gene.chromosome, gene  # type: ignore[index]
    for snp in corpus.snps:
        assert all(symbols.get(gene_id, symbol) == symbol for symbol, gene_id in snp.genes), snp
        assert snp.spdi.split(":")[1] == str(int(snp.position) - 1), snp
    assert len({gene.gene_id for gene in corpus.genes}) == len(corpus.genes)
    assert all(set(segment.sequence) <= set("ACGTN") and len(segment.sequence) <= 400 for segment in corpus.segments)


def test_an_opened_store_cannot_be_written(tmp_path: Path) -> None:
    """The connection is read-only, whatever a statement says."""
    store = open_store(tmp_path)
    with pytest.raises(GatewayDataError, match="readonly"):
        store.query("DELETE FROM gene")
    store.close()


@pytest.mark.parametrize("damage", [b"", b"not a database", None])
def test_a_damaged_or_missing_store_is_built_again(tmp_path: Path, damage: bytes | None) -> None:
    """Whatever lies at the store's place, the next start answers."""
    if damage is not None:
        (tmp_path / "gateway.sqlite").write_bytes(damage)
        (tmp_path / "gateway.sqlite-wal").write_bytes(b"of another store")
    store = open_store(tmp_path)
    assert store.count("gene") >= 300
    store.close()
    content = (tmp_path / "gateway.sqlite").read_bytes()
    (tmp_path / "gateway.sqlite").write_bytes(content[:8192] + b"\xff" * 4096 + content[12288:])
    open_store(tmp_path).close()
    assert (tmp_path / "gateway.sqlite").read_bytes() == content
    names = {path.name for path in tmp_path.iterdir()}
    assert names - {"gateway.sqlite-wal", "gateway.sqlite-shm"} == {"gateway.sqlite"}


def test_a_changed_sample_is_noticed(tmp_path: Path) -> None:
    """A new gene in the sample's files is in the store after the next start, without anybody deleting anything."""
    sample = tmp_path / "sample"
    shutil.copytree(SAMPLE_DIR, sample)
    open_store(tmp_path / "data", sample).close()
    genes = sample / "genes.tsv"
    header, *rows = genes.read_text(encoding="utf-8").rstrip("\n").split("\n")
    cells = dict(zip(header.split("\t"), rows[0].split("\t"), strict=True)) | {"gene_id": "4242424", "symbol": "NEW1"}
    genes.write_text("\n".join([header, *rows, "\t".join(cells.values())]) + "\n", encoding="utf-8")
    store = open_store(tmp_path / "data", sample)
    assert store.query("SELECT rowid FROM gene_index WHERE gene_index MATCH 'new1'") == [(4242424,)]
    store.close()


def test_a_malformed_sample_file_is_named_with_its_line(tmp_path: Path) -> None:
    """A row with a missing cell stops the start and says where it is."""
    sample = tmp_path / "sample"
    shutil.copytree(SAMPLE_DIR, sample)
    with (sample / "snps.tsv").open("a", encoding="utf-8") as file:
        file.write("1\t2\n")
    with pytest.raises(GatewayDataError, match=r"snps\.tsv:\d+: 2 cells"):
        load_corpus(sample)


def test_a_failed_build_leaves_the_old_store_and_no_draft(tmp_path: Path, corpus: Corpus) -> None:
    """Two records with one id break the build; what was there stays as it was."""
    path = tmp_path / "gateway.sqlite"
    build_store(corpus, path)
    before = path.read_bytes()
    twice = Corpus(
        "other", corpus.organisms, (corpus.genes[0], corpus.genes[0]), corpus.snps, corpus.omim, corpus.segments
    )
    with pytest.raises(GatewayDataError, match="two records of one id"):
        build_store(twice, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_many_threads_read_one_store(tmp_path: Path) -> None:
    """Sixteen threads asking at once all get the right record."""
    store = open_store(tmp_path)
    seen: list[str] = []

    def read(_: int) -> None:
        for _ in range(20):
            gene = store.gene("5699")
            assert gene is not None
            seen.append(gene.symbol)

    in_threads(read, range(16))
    store.close()
    assert seen == ["PSMB10"] * 320


def test_a_file_of_another_schema_is_refused(tmp_path: Path) -> None:
    """An old store is not read as if it were a new one."""
    path = tmp_path / "old.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript("CREATE TABLE meta (key TEXT, value TEXT); INSERT INTO meta VALUES ('schema', '0')")
    connection.close()
    with pytest.raises(GatewayDataError, match="schema 0, 4 needed: delete it and import"):
        GatewayStore(path)
