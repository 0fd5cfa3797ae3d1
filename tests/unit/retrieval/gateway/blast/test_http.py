"""Biopython's qblast against the gateway over a real loopback socket."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import uvicorn
from Bio import Blast
from blast_data import GENE, PROTEIN, make_site, needs_blast

from retrieval.gateway.app import create_gateway_app
from retrieval.gateway.blast.process import RunLimits
from retrieval.gateway.blast.service import BlastOptions
from retrieval.gateway.store.open import open_store

pytestmark = needs_blast


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a gateway with the databases "genes" and "proteins"."""
    folder = tmp_path_factory.mktemp("gateway")
    make_site(folder)
    store = open_store(folder)
    app = create_gateway_app(store, BlastOptions(limits=RunLimits(wall_s=120.0, cpu_s=120)))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/blast/Blast.cgi"
        server.should_exit = True
        thread.join()
    store.close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Biopython waits 20 seconds between two looks; NCBI asks for that, a gateway on this machine does not."""
    monkeypatch.setattr(Blast, "time", SimpleNamespace(time=time.time, sleep=lambda _: time.sleep(0.05)))


def test_qblast_finds_a_nucleotide_sequence(url: str) -> None:
    """Put, waiting and XML, with all parameters that qblast sends by itself."""
    with Blast.qblast("blastn", "genes", GENE[50:250], url_base=url, megablast=True) as stream:
        record = Blast.read(stream)
    assert record[0].target.name == "NM_000001"
    assert list(record[0][0].coordinates[0]) == [50, 250]


def test_qblast_finds_a_protein_in_the_only_database(url: str) -> None:
    """nr stands for the site's only proteins, and the reply says so."""
    with Blast.qblast("blastp", "nr", PROTEIN[50:150], url_base=url) as stream:
        records = Blast.parse(stream)
        (record,) = list(records)
    assert record[0].target.name == "P00001" and records.db == "proteins"


def test_qblast_reads_the_forms_it_checks(url: str) -> None:
    """It looks at the first bytes of Text and Tabular itself."""
    pages = {}
    for form in ("Text", "Tabular"):
        with Blast.qblast("blastn", "genes", GENE[:200], url_base=url, format_type=form) as stream:
            pages[form] = stream.read()
    assert b"Homo sapiens gene one" in pages["Text"] and b"NM_000001.1\t100.000\t200" in pages["Tabular"]


@pytest.mark.parametrize(
    ("program", "database", "query", "message"),
    [
        ("blastn", "genes", PROTEIN, "Protein FASTA provided for nucleotide sequence"),
        ("blastn", "nothing", GENE, "database nothing was not found"),
        ("blastp", "genes", PROTEIN, "holds nucleotides"),
    ],
)
def test_qblast_tells_why_a_search_was_refused(url: str, program: str, database: str, query: str, message: str) -> None:
    """The error page is one that it understands."""
    with pytest.raises(ValueError, match=message):
        Blast.qblast(program, database, query, url_base=url)
