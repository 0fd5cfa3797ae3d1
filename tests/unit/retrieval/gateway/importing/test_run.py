"""Importing a file: all of it or nothing, once, going on after a kill; the sample gives way to a site's data."""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest
from ncbi_files import pubmed_record, pubmed_set, saved
from shipped_data import give_store

from retrieval.errors import GATEWAY_BUSY, GatewayDataError, ImportFileError, RetrievalError
from retrieval.formats.items import ReadOptions
from retrieval.formats.records import Database
from retrieval.gateway.app import answer
from retrieval.gateway.importing.registry import KINDS
from retrieval.gateway.importing.run import ImportResult, Progress, import_file
from retrieval.gateway.store.open import STORE_NAME, open_store
from retrieval.gateway.store.reader import GatewayStore, RankFeatures
from scripts.make_ncbi_sample import write_sample
from scripts.samples import genes
from scripts.samples.world import World

WORLD = World(5, 400, 300, 200)
# A gene has an entry of OMIM for each of its numbers there.
IN_GENE_INFO = 400 + sum(one.startswith("MIM:") for gene in genes.genes(WORLD) for one in gene.references)
IMPORT = "import sys; from server.cli.main import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ncbi")
    write_sample(folder, WORLD, lambda _: None)
    return folder


def take(data: Path, kind: str, path: Path, options: ReadOptions | None = None) -> ImportResult:
    return import_file(give_store(data), KINDS[kind], path, options or ReadOptions(), lambda _: None)


def count(data: Path, db: str) -> int:
    store = GatewayStore(data / STORE_NAME)
    try:
        return int(store.query(f"SELECT count(*) FROM {db}")[0][0])
    finally:
        store.close()


def test_all_files_of_a_site_meet_in_one_store(files: Path, tmp_path: Path) -> None:
    """Genes, articles, variants and phenotypes are found, summarised and linked; the sample is gone."""
    open_store(tmp_path).close()
    names = {
        "taxdump": "taxdump.tar.gz",
        "gene_info": "gene_info.gz",
        "gene2pubmed": "gene2pubmed.gz",
        "mim_titles": "mimTitles.txt",
        "dbsnp_vcf": "GCF_000001405.40.gz",
        "clinvar": "variant_summary.txt.gz",
        "pubmed": "pubmed26n0001.xml.gz",
    }
    for kind, name in names.items():
        assert take(tmp_path, kind, files / name).bad == 0
    store = open_store(tmp_path)
    assert store.kind == "site"
    assert store.gene("5699") is None
    assert [store.count(db) for db in ("gene", "snp", "clinvar")] == [400, 300, 400]
    (uid,) = store.query("SELECT uid FROM gene ORDER BY weight DESC LIMIT 1")[0]
    gene = store.gene(str(uid))
    assert gene is not None
    reply = answer(store, "esearch", {"db": "gene", "term": f"{gene.symbol}[sym]", "retmode": "json"})
    assert f'"{uid}"' in reply.body
    linked = answer(store, "elink", {"dbfrom": "gene", "db": "pubmed", "id": str(uid), "retmode": "json"})
    assert '"linksetdbs"' in linked.body
    store.close()


def test_the_same_file_is_imported_once(files: Path, tmp_path: Path) -> None:
    """Told by its content: a second run changes nothing."""
    first = take(tmp_path, "gene_info", files / "gene_info.gz")
    copy = tmp_path / "other_name.gz"
    copy.write_bytes((files / "gene_info.gz").read_bytes())
    second = take(tmp_path, "gene_info", copy)

    assert (first.entries, first.already) == (IN_GENE_INFO, False)
    assert second.already


def test_another_choice_of_records_is_another_import(files: Path, tmp_path: Path) -> None:
    """The same file with another organism is read again; an option that the kind does not know makes no difference."""
    path = files / "gene_info.gz"
    of_mouse = ReadOptions(tax_ids=frozenset({10090}))
    first = take(tmp_path, "gene_info", path, ReadOptions(tax_ids=frozenset({9606})))
    second = take(tmp_path, "gene_info", path, of_mouse)

    assert first.entries and second.entries and not second.already
    assert first.entries + second.entries == count(tmp_path, "gene") + count(tmp_path, "omim")
    assert take(tmp_path, "gene_info", path, ReadOptions(tax_ids=of_mouse.tax_ids, only_in_genes=True)).already
    assert take(tmp_path, "gene_info", path).entries == IN_GENE_INFO


def test_what_a_replaced_record_said_of_others_goes_with_it(tmp_path: Path) -> None:
    """A variant that left a gene is no more linked to it; what a file of links said of the gene stays."""
    row = "NC_000011.10\t5227002\trs7\tT\tA\t.\t.\tRS=7;VC=SNV;GENEINFO={}\n"
    head = "##fileformat=VCFv4.2\n##source=dbSNP\n##dbSNP_BUILD_ID=156\n##reference=GRCh38.p14\n"
    head += "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\n"
    for name, info in (("old.vcf", "HBB:3043|HBD:3045"), ("new.vcf", "HBB:3043")):
        (tmp_path / name).write_text(head + row.format(info))
    (tmp_path / "gene2pubmed").write_text("#tax_id\tGeneID\tPubMed_ID\n9606\t3045\t12\n")
    data = tmp_path / "data"
    for kind, name in (("dbsnp_vcf", "old.vcf"), ("gene2pubmed", "gene2pubmed"), ("dbsnp_vcf", "new.vcf")):
        assert take(data, kind, tmp_path / name).bad == 0
    store = open_store(data)

    assert (store.links("snp", "7", "gene"), store.links("gene", "3045", "snp")) == (["3043"], [])
    assert store.links("gene", "3045", "pubmed") == ["12"]
    store.close()


def test_a_variant_on_x_and_y_is_one_record_on_x(tmp_path: Path) -> None:
    """The regions that the two share have a row on each; importing them again changes nothing."""
    head = "##fileformat=VCFv4.2\n##source=dbSNP\n##dbSNP_BUILD_ID=156\n##reference=GRCh38.p14\n"
    head += "#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\n"
    rows = "".join(
        f"{chromosome}\t1291222\trs9\tC\tT\t.\t.\tRS=9;VC=SNV;GENEINFO=CRLF2:64109\n"
        for chromosome in ("NC_000023.11", "NC_000024.10")
    )
    for build in ("156", "157"):
        (tmp_path / f"{build}.vcf").write_text(head.replace("156", build) + rows)
        take(tmp_path / "data", "dbsnp_vcf", tmp_path / f"{build}.vcf")
    store = open_store(tmp_path / "data")
    snp = store.snp("9")

    assert snp is not None
    assert (snp.chromosome, snp.spdi) == ("X", "NC_000023.11:1291221:C:T,NC_000024.10:1291221:C:T")
    assert answer(store, "esearch", {"db": "snp", "term": "Y[chr]", "retmode": "json"}).body.count('"9"') == 0
    store.close()


def test_a_bad_record_is_named_with_its_line_and_passed_over(files: Path, tmp_path: Path) -> None:
    """The rest of the file comes in."""
    lines = gzip.decompress((files / "gene_info.gz").read_bytes()).decode().split("\n")
    cells = lines[7].split("\t")
    lines[7] = "\t".join([cells[0], "no number", *cells[2:]])
    path = tmp_path / "gene_info"
    path.write_text("\n".join(lines))
    result = take(tmp_path, "gene_info", path)

    assert (count(tmp_path, "gene"), result.bad) == (399, 1)
    assert result.first_bad[0][0] == 8
    assert "GeneID" in result.first_bad[0][1]


@pytest.mark.parametrize("damage", ["cut", "other kind", "empty"])
def test_a_bad_file_changes_nothing(files: Path, tmp_path: Path, damage: str) -> None:
    """Cut, empty, or not what it is said to be: the store stays as it was, and nothing is left lying about."""
    take(tmp_path, "gene_info", files / "gene_info.gz")
    whole = (files / "gene2pubmed.gz").read_bytes()
    path = tmp_path / "gene2pubmed.gz"
    other = (files / "mimTitles.txt").read_bytes()
    path.write_bytes({"cut": whole[: len(whole) // 2], "other kind": other, "empty": b""}[damage])
    with pytest.raises(ImportFileError, match=r"gene2pubmed\.gz"):
        take(tmp_path, "gene2pubmed", path)

    assert (count(tmp_path, "gene"), count(tmp_path, "link WHERE target = 'pubmed'")) == (400, 0)
    assert not list((tmp_path / "import").iterdir())


def test_an_interrupted_import_goes_on_where_it_was(files: Path, tmp_path: Path) -> None:
    """What was read before is not read again, and the result is that of one run."""

    class StopError(Exception):
        pass

    def stop(step: Progress) -> None:
        if step.phase == "merging":
            raise StopError

    kind = KINDS["gene_info"]
    with pytest.raises(StopError):
        import_file(give_store(tmp_path), kind, files / "gene_info.gz", ReadOptions(), stop)
    assert count(tmp_path, "imported") == 0
    seen: list[Progress] = []
    result = import_file(tmp_path, kind, files / "gene_info.gz", ReadOptions(), seen.append)

    assert "reading" not in {step.phase for step in seen}
    assert (result.entries, count(tmp_path, "gene")) == (IN_GENE_INFO, 400)


def test_only_one_import_works_on_a_store(files: Path, tmp_path: Path) -> None:
    """The second one is told so at once."""

    def second(step: Progress) -> None:
        with pytest.raises(RetrievalError, match="another import", check=GATEWAY_BUSY.is_of):
            take(tmp_path, "gene2pubmed", files / "gene2pubmed.gz")

    import_file(give_store(tmp_path), KINDS["gene_info"], files / "gene_info.gz", ReadOptions(), second)


def test_a_reader_sees_the_old_store_or_the_new_one(files: Path, tmp_path: Path) -> None:
    """An open store goes on answering while an import writes, and then sees all of it."""
    take(tmp_path, "gene_info", files / "gene_info.gz")
    store = GatewayStore(tmp_path / STORE_NAME)
    seen: set[int] = set()

    def look(_: Progress) -> None:
        seen.add(store.count("snp"))

    import_file(give_store(tmp_path), KINDS["dbsnp_vcf"], files / "GCF_000001405.40.gz", ReadOptions(), look)
    assert seen == {0} or seen == {0, 300}
    assert store.count("snp") == 300
    store.close()


def test_a_damaged_store_of_a_site_is_never_built_over(files: Path, tmp_path: Path) -> None:
    """What imports filled is not replaced by the sample: the start stops and says so."""
    take(tmp_path, "gene_info", files / "gene_info.gz")
    (tmp_path / STORE_NAME).write_bytes(b"not a database")
    for suffix in ("-wal", "-shm"):
        (tmp_path / f"{STORE_NAME}{suffix}").unlink(missing_ok=True)
    with pytest.raises(GatewayDataError, match="file is not a database"):
        open_store(tmp_path)
    assert (tmp_path / STORE_NAME).read_bytes() == b"not a database"


def test_a_call_rests_on_one_state_of_the_store(files: Path, tmp_path: Path) -> None:
    """An import that ends between a search's hits and their order changes nothing of that call, and all of the next."""

    class Disturbed(GatewayStore):
        def rank_features(self, db: Database, uids: Iterable[int]) -> dict[int, RankFeatures]:
            if self.kind == "sample":
                other = threading.Thread(target=take, args=(tmp_path, "gene_info", files / "gene_info.gz"))
                other.start()
                other.join()
            return super().rank_features(db, uids)

    open_store(tmp_path).close()
    store = Disturbed(tmp_path / STORE_NAME)
    call = {"db": "gene", "term": "human[orgn]", "retmode": "json", "sort": "relevance"}
    before, after = (json.loads(answer(store, "esearch", call).body)["esearchresult"] for _ in range(2))
    store.close()

    assert int(before["count"]) > 300 and before["idlist"]
    assert not set(before["idlist"]) & set(after["idlist"])
    assert int(after["count"]) <= 400


@pytest.mark.server
def test_killed_at_any_moment_the_store_is_as_it_was_or_whole(files: Path, tmp_path: Path) -> None:
    """Six kills at random moments; then one run to the end gives the whole file, once."""
    take(tmp_path, "gene_info", files / "gene_info.gz")
    draw = random.Random(11)
    command = [sys.executable, "-c", IMPORT, "gateway", "import", "pubmed", str(files / "pubmed26n0001.xml.gz")]
    command += ["--data", str(tmp_path)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    for _ in range(6):
        process = subprocess.Popen(command, **quiet)  # type: ignore[call-overload]
        time.sleep(draw.uniform(0.2, 1.6))
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=120)
        check = sqlite3.connect(tmp_path / STORE_NAME)
        assert check.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        check.close()
        whole = count(tmp_path, "imported WHERE kind = 'pubmed'")
        assert (count(tmp_path, "pubmed") > 0) == bool(whole)
    subprocess.run(command, check=True, timeout=120, env=os.environ, **quiet)  # type: ignore[call-overload]
    assert count(tmp_path, "pubmed") == 200
    assert count(tmp_path, "gene") == 400


def test_an_older_version_never_replaces_a_newer_one(tmp_path: Path) -> None:
    """Files have the versions of an article in any order; a later file too."""
    versions = [
        pubmed_record("7", title=f"Version {number}.").replace('Version="1"', f'Version="{number}"')
        for number in (2, 1, 3)
    ]
    data = tmp_path / "data"
    for name, records in (("both.xml", versions[:2]), ("old.xml", versions[1:2]), ("new.xml", versions[2:])):
        assert take(data, "pubmed", saved(tmp_path / name, pubmed_set(*records))).bad == 0
        with closing(open_store(data)) as store:
            reply = answer(store, "efetch", {"db": "pubmed", "id": "7", "rettype": "abstract", "retmode": "text"})
        assert ("Version 3." if name == "new.xml" else "Version 2.") in reply.body
