"""A collection added by a job: fetched from where it broke off, put into its place, stopped."""

from __future__ import annotations

import concurrent.futures
import gzip
import json
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from in_process import OPERATOR, Site, served
from loopback import listening

from retrieval.gateway.store.open import open_store
from retrieval.graph.store.catalog import SHIPPED_FILES
from retrieval.ncbi.client.transport import HttpSender, SendLimits
from server.evidence.collections import Collection
from server.jobs.queue import Job, JobSpec, JobStatus, OrderedWork, WorkOrder
from server.wiring.collection_imports import KIND, CollectionImports
from server.wiring.services import Services

TEXT = b"Guideline on quolls. " * 400


class _Files(BaseHTTPRequestHandler):
    """Serve the text from where it is asked for; its first reply breaks off in the middle."""

    asked: list[str]

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        begin = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
        self.asked.append(self.headers["Range"])
        rest = TEXT[begin:]
        self.send_response(206)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest if begin else rest[: len(rest) // 2])


@pytest.fixture
def files() -> Iterator[tuple[str, list[str]]]:
    asked: list[str] = []
    with listening(type("Files", (_Files,), {"asked": asked})) as url:
        yield f"{url}/quolls.txt", asked


@pytest.fixture
async def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    async with served(
        tmp_path, {"server": {"api_keys": (OPERATOR,)}, "egress": {"mode": "ncbi"}, "ncbi": {"email": "a@b.example"}}
    ) as made:
        yield made


def collection(name: str, **fields: object) -> Collection:
    row = {"what": "w", "size": "s", "licence": "l", "address": "a", "commands": ("c",), "resume": "r"} | fields
    return Collection(name=name, **row)  # type: ignore[arg-type]  # fields of the row


def importing(services: Services, *listed: Collection) -> CollectionImports:
    sender = HttpSender(SendLimits())
    return CollectionImports(services.settings, services.retrieval.namespaces, services.egress, sender, [*listed])


async def added(site: Site, one: Collection) -> JobStatus:
    """The job that adds a collection, ended."""
    services = site.app.state.services
    imports = importing(services, one)
    work = OrderedWork(WorkOrder({"key_id": "", "mode": "ncbi"}), imports.perform)
    job = await services.retrieval.jobs.submit(JobSpec(KIND, one.name, ""), work)
    ended: JobStatus = await services.retrieval.jobs.wait(job, 60)
    return ended


async def test_a_file_that_broke_off_is_fetched_from_there_and_read(
    site: Site, tmp_path: Path, files: tuple[str, list[str]]
) -> None:
    """Its request is in the audit log, and what was fetched is read without another."""
    url, asked = files
    one = collection("quolls", download=url)

    broken, whole, again = [await added(site, one) for _ in range(3)]

    assert broken.state == "failed" and broken.error and "goes on" in broken.error.message
    assert whole.state == "done" and whole.result and whole.result["added"] == 1
    assert again.result and again.result["already"]
    assert asked == ["bytes=0-", f"bytes={len(TEXT) // 2}-"]
    assert (tmp_path / "data/arrowhead/collections/quolls/quolls.txt").read_bytes() == TEXT
    logged = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [one["event"] for one in logged if one.get("endpoint") == "file"] == ["send", "reply"] * 2


async def test_tables_go_into_the_gateway_and_graphs_beside_the_shipped_one(site: Site, tmp_path: Path) -> None:
    folder = tmp_path / "data/arrowhead/collections"
    for name in ("genes", "edges"):
        (folder / name).mkdir(parents=True)
    head = (
        "#tax_id\tGeneID\tSymbol\tLocusTag\tSynonyms\tdbXrefs\tchromosome\tmap_location\tdescription\ttype_of_gene\t"
        "Symbol_from_nomenclature_authority\tFull_name_from_nomenclature_authority\tNomenclature_status\t"
        "Other_designations\tModification_date\tFeature_type"
    )
    row = "9606\t77\tQUOL1\t-\t-\t-\t1\t1p1\tquoll\tprotein-coding\tQUOL1\tquoll\tO\t-\t20260101\t-"
    (folder / "genes/Homo_sapiens.gene_info.gz").write_bytes(gzip.compress(f"{head}\n{row}\n".encode()))
    for path in SHIPPED_FILES:
        (folder / "edges" / path.name).write_bytes(path.read_bytes())

    genes = await added(site, collection("genes", reader="gene_info", into="gateway"))
    graph = await added(site, collection("edges", reader="tsv", into="graph"))

    assert genes.result == {"entries": 1, "bad": 0}
    store = open_store(tmp_path / "gateway")
    assert store.count("gene") >= 1
    store.close()
    assert graph.state == "done" and graph.result and graph.result["entries"] > 10_000
    assert (tmp_path / "graphs/edges").is_dir()


async def test_a_stopped_import_ends_at_its_next_step(site: Site, tmp_path: Path) -> None:
    folder = tmp_path / "data/arrowhead/collections/edges"
    folder.mkdir(parents=True)
    for path in SHIPPED_FILES:
        (folder / path.name).write_bytes(path.read_bytes())
    services = site.app.state.services
    one = collection("edges", reader="tsv", into="graph")
    imports = importing(services, one)
    job = Job(JobSpec(KIND, "edges", ""))
    job.cancel()

    with pytest.raises(concurrent.futures.CancelledError):
        imports.perform(job, WorkOrder({}))

    assert not (tmp_path / "graphs/edges").exists()


async def test_what_cannot_be_added_says_why(site: Site) -> None:
    """By the mode, by the service that passes calls on, and for want of files."""
    services = site.app.state.services
    fetched, put = collection("fetched", download="https://x.example/y"), collection("put")
    imports = importing(services, fetched, put)

    assert [imports.obstacle(fetched, mode) for mode in ("off", "local-first", "ncbi")] == ["off", "", ""]
    assert imports.obstacle(put, "ncbi") == "files"
    imports.folder(put).mkdir(parents=True)
    (imports.folder(put) / "one.txt").write_text("x")
    (imports.folder(put) / "half.txt.part").write_text("x")
    assert imports.obstacle(put, "off") == "" and [path.name for path in imports.files(put)] == ["one.txt"]
