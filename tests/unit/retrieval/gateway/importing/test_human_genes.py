"""HGNC's table in the store: genes beside richer records, once, replaced by NCBI's file, whole after a kill."""

from __future__ import annotations

import lzma
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Literal

import pytest
from ncbi_files import pubmed_record, pubmed_set, saved
from shipped_data import give_store

from retrieval.formats.items import ReadOptions
from retrieval.gateway.app import answer
from retrieval.gateway.importing.human_genes import COLUMNS, TABLE, completed, human_genes
from retrieval.gateway.importing.registry import KINDS
from retrieval.gateway.importing.run import add_human_genes, import_file
from retrieval.gateway.importing.tables import tables_of
from retrieval.gateway.store.open import STORE_NAME, load_corpus, open_store
from retrieval.gateway.store.reader import GatewayStore
from retrieval.ncbi.replies.parse import is_empty_reply, parse_reply
from retrieval.ncbi.replies.records import GeneRecord, RecordList
from retrieval.types import NcbiCall, RawReply

ROWS = (
    ("2", "HGNC:7", "A2M", "alpha-2-macroglobulin", "gene with protein product", "FWP007|S863-7", "", "ENSG00000175899",
     "P01023"),
    ("3", "HGNC:8", "A2MP1", "alpha-2-macroglobulin pseudogene 1", "pseudogene", "", "A2MP", "ENSG00000291190", ""),
    ("672", "HGNC:1100", "BRCA1", "BRCA1 DNA repair associated", "gene with protein product", "RNF53|NEWNAME", "",
     "ENSG00000012048", "P38398"),
    ("28396", "HGNC:5649", "IGHV4-31", "immunoglobulin heavy variable 4-31", "immunoglobulin gene", "", "",
     "ENSG00000231475", "P0DP07"),
)  # fmt: skip
ADD = "import sys; from pathlib import Path; from retrieval.gateway.importing.run import add_human_genes as add; "


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.tsv.xz"
    path.write_bytes(lzma.compress("".join("\t".join(row) + "\n" for row in (COLUMNS, *ROWS)).encode()))
    return path


@pytest.fixture
def store(tmp_path: Path, table: Path) -> GatewayStore:
    assert add_human_genes(give_store(tmp_path / "data"), table) == len(ROWS)
    return open_store(tmp_path / "data")


def gene_info(path: Path, *rows: tuple[str, str, str]) -> Path:
    head = (
        "#tax_id\tGeneID\tSymbol\tLocusTag\tSynonyms\tdbXrefs\tchromosome\tmap_location\tdescription\ttype_of_gene\t"
        "Symbol_from_nomenclature_authority\tFull_name_from_nomenclature_authority\tNomenclature_status\t"
        "Other_designations\tModification_date\tFeature_type\n"
    )
    lines = (
        f"{tax}\t{uid}\t{symbol}\t-\t-\t-\t12\t12p13\tfrom NCBI\tprotein-coding\t{symbol}\tfrom NCBI\tO\t-\t2026\t-\n"
        for tax, uid, symbol in rows
    )
    path.write_text(head + "".join(lines), encoding="utf-8")
    return path


def test_the_shipped_table_has_all_approved_genes_within_its_size() -> None:
    genes = list(human_genes(TABLE.read_bytes()))

    assert (len(genes), len({gene.gene_id for gene in genes}), len({gene.symbol for gene in genes})) == (43_765,) * 3
    assert sum(gene.gene_type == "protein-coding" for gene in genes) == 19_281
    assert TABLE.stat().st_size < 2_500_000


@pytest.mark.parametrize("term", ["A2M[sym]", "FWP007", "ENSG00000175899", "P01023", "HGNC:7", "alpha-2-macroglobulin"])
def test_a_gene_is_found_by_each_of_its_names(store: GatewayStore, term: str) -> None:
    found = answer(store, "esearch", {"db": "gene", "term": f"{term} AND human[orgn]", "retmode": "json"})

    assert '"2"' in found.body


@pytest.mark.parametrize(
    ("endpoint", "params"),
    [("esummary", {"retmode": "json"}), ("esummary", {}), ("efetch", {}), ("efetch", {"rettype": "docsum"})],
)
def test_every_form_tells_the_type_and_what_the_table_lacks(
    store: GatewayStore, endpoint: Literal["esummary", "efetch"], params: dict[str, str]
) -> None:
    """No place is given; the parser reads type and type of locus from the note, and takes it for no summary."""
    call = NcbiCall(endpoint, "gene", {"db": "gene", "id": "28396,3", **params})
    reply = answer(store, endpoint, call.params)
    body = reply.body
    assert "place, OMIM number and summary are not in it" in body
    assert "ENSG00000231475" in body

    parsed = parse_reply(call, RawReply(200, reply.content_type, body, len(body)))
    assert isinstance(parsed, RecordList)
    segment, pseudogene = parsed.records
    assert isinstance(segment, GeneRecord)
    assert isinstance(pseudogene, GeneRecord)

    assert (segment.gene_type, segment.locus, segment.summary, segment.chromosome) == (
        "other",
        "immunoglobulin gene",
        "",
        "",
    )
    assert is_empty_reply(call, RawReply(200, reply.content_type, body, len(body)))  # local-first asks NCBI for more
    assert (pseudogene.gene_type, pseudogene.locus, pseudogene.aliases) == ("pseudogene", "", ("A2MP",))


def test_a_richer_record_is_completed(store: GatewayStore) -> None:
    """Place, OMIM number and summary stay, the new name comes behind the known ones."""
    known = next(gene for gene in load_corpus().genes if gene.gene_id == 672)
    found = store.gene("672")

    assert found is not None
    assert (found.map_location, found.mim, found.summary) == (known.map_location, known.mim, known.summary)
    assert found.aliases == (*known.aliases, "NEWNAME")
    assert found.uniprot == ("P38398",)


def test_a_retired_record_is_left_as_it_is() -> None:
    listed = next(gene for gene in human_genes(TABLE.read_bytes()) if gene.gene_id == 2)
    retired = next(gene for gene in load_corpus().genes if gene.status)

    assert completed(retired, listed) is retired


def test_every_link_of_the_sample_leads_to_a_record(store: GatewayStore) -> None:
    """Gene 672 names OMIM 113705, of which the sample has no title."""
    for source, target in store.query("SELECT DISTINCT source, target FROM link"):
        there = f"SELECT uid FROM {target}"
        dangling = f"SELECT 1 FROM link WHERE source = ? AND target = ? AND target_uid NOT IN ({there})"
        assert store.query(dangling, (source, target)) == []

    entry = answer(store, "esummary", {"db": "omim", "id": "113705", "retmode": "json"}).body
    assert "BRCA1 DNA repair associated; BRCA1" in entry
    assert "those of NCBI Gene" in entry


def test_it_is_added_once(store: GatewayStore, tmp_path: Path, table: Path) -> None:
    assert add_human_genes(tmp_path / "data", table) == 0
    assert [(one.name, one.entries, one.licence) for one in tables_of(store)][-1] == ("human genes", 4, "CC0 1.0")


@pytest.mark.long
def test_a_file_of_other_records_leaves_the_genes(tmp_path: Path) -> None:
    """The first import of a site replaces the sample, and not what the table says of all genes."""
    data = tmp_path / "data"
    add_human_genes(data)
    articles = saved(tmp_path / "pubmed26n0001.xml", pubmed_set(pubmed_record("1")))
    import_file(data, KINDS["pubmed"], articles, ReadOptions(), lambda _: None)

    with closing(open_store(data)) as store:
        assert (store.count("gene"), store.count("pubmed"), store.count("snp")) == (43_765, 1, 0)


def test_ncbis_file_of_human_genes_replaces_the_table(store: GatewayStore, tmp_path: Path, table: Path) -> None:
    """With its links, in the same transaction; readers see another state of the store, and the table is not added."""
    before, data = store.version(), tmp_path / "data"
    path = gene_info(tmp_path / "gene_info", ("9606", "2", "A2M"), ("10090", "5", "Abc"))
    import_file(give_store(data), KINDS["gene_info"], path, ReadOptions(), lambda _: None)

    assert (store.count("gene"), store.version() > before) == (2, True)
    assert [one.name for one in tables_of(store)] == ["gene_info"]
    assert add_human_genes(data, table) == 0


def test_genes_of_another_organism_do_not_replace_it(tmp_path: Path, table: Path) -> None:
    data = tmp_path / "data"
    path = gene_info(tmp_path / "gene_info", ("9606", "2", "A2M"), ("10090", "5", "Abc"))
    import_file(give_store(data), KINDS["gene_info"], path, ReadOptions(tax_ids=frozenset({10090})), lambda _: None)

    assert add_human_genes(data, table) == len(ROWS)
    with closing(open_store(data)) as store:
        assert store.count("gene") == len(ROWS) + 1


@pytest.mark.server
@pytest.mark.long
def test_killed_at_any_moment_the_store_has_all_genes_or_none(tmp_path: Path) -> None:
    draw, command = random.Random(7), [sys.executable, "-c", f"{ADD}add(Path(sys.argv[1]))", str(tmp_path)]
    open_store(tmp_path).close()
    for _ in range(4):
        process = subprocess.Popen(command)
        time.sleep(draw.uniform(0.5, 3.0))
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=120)
        with closing(sqlite3.connect(tmp_path / STORE_NAME)) as check:
            assert check.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            number = check.execute("SELECT count(*) FROM gene").fetchone()[0]
            assert (number > 43_765) == bool(check.execute("SELECT count(*) FROM imported").fetchone()[0])
            assert number > 43_765 or number == len(load_corpus().genes)
    subprocess.run(command, check=True, timeout=120, env=os.environ)
    with closing(open_store(tmp_path)) as store:
        assert store.count("gene") > 43_765


def test_a_newer_table_takes_the_place_of_the_older(store: GatewayStore, tmp_path: Path) -> None:
    """Its symbols and names hold, the older symbol stays a name, and one table is told."""
    row = ("28396", "HGNC:5649", "IGHV9-99", "renamed", "immunoglobulin gene", "", "", "ENSG00000231475", "P0DP07")
    newer = tmp_path / "newer.tsv.xz"
    newer.write_bytes(lzma.compress("".join("\t".join(cells) + "\n" for cells in (COLUMNS, row)).encode()))

    assert add_human_genes(tmp_path / "data", newer) == 1

    found = store.gene("28396")
    assert found is not None
    assert (found.symbol, found.aliases) == ("IGHV9-99", ("IGHV4-31",))
    assert [one.entries for one in tables_of(store) if one.name == "human genes"] == [1]
