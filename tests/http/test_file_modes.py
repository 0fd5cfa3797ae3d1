"""Files and folders of the server's data are their owner's alone, whichever command made them first."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from command_line import arrowhead, arrowhead_process
from graph_files import write_hetionet
from http_calls import Site, snippets
from ncbi_files import gene_row

QUESTION = "What is the official gene symbol of LMP10?"
GENE_HEAD = (
    "#tax_id\tGeneID\tSymbol\tLocusTag\tSynonyms\tdbXrefs\tchromosome\tmap_location\tdescription\ttype_of_gene\t"
    "Symbol_from_nomenclature_authority\tFull_name_from_nomenclature_authority\tNomenclature_status\t"
    "Other_designations\tModification_date\tFeature_type"
)
pytestmark = pytest.mark.server


def _open_to_others(home: Path) -> dict[str, str]:
    """Every file and folder below with a right for group or others."""
    modes = {path.relative_to(home): path.lstat().st_mode for path in home.rglob("*") if not path.is_symlink()}
    return {str(path): oct(stat.S_IMODE(mode)) for path, mode in modes.items() if mode & 0o077}


class Machine:
    """A home of its own, in a shell with the given umask."""

    def __init__(self, home: Path, inputs: Path, variables: dict[str, str], umask: int) -> None:
        self.home = home
        self.inputs = inputs
        self.umask = umask
        self.variables = variables | {
            "HOME": str(home),
            # Where it is without this variable; tests that leave it out get a folder of namespaces elsewhere.
            "XDG_DATA_HOME": str(home / ".local" / "share"),
            "XDG_CONFIG_HOME": str(inputs / "config"),
            "ARROWHEAD_RETRIEVAL__ENCODERS": "hashing",
            "ARROWHEAD_TRACES__DIR": str(home / "traces"),
            "ARROWHEAD_AUDIT__PATH": str(home / "logs" / "audit.jsonl"),
            "ARROWHEAD_NCBI__CACHE_PATH": str(home / "replies" / "ncbi.sqlite"),
        }

    def run(self, *words: str) -> None:
        before = os.umask(self.umask)
        try:
            done = arrowhead(self.variables, *words)
        finally:
            os.umask(before)
        assert done.returncode == 0, done.stderr

    def commands(self) -> None:
        """What writes data: keys, the gateway's store, graphs, namespaces with all their indices."""
        genes, graph, notes = (self.inputs / name for name in ("gene_info", "het.json", "notes.jsonl"))
        genes.write_text(f"{GENE_HEAD}\n{gene_row()}\n")
        write_hetionet(graph)
        notes.write_bytes(snippets(0, 50))
        self.run("key", "create", "--name", "clinic")
        self.run("gateway", "import", "gene_info", str(genes))
        self.run("graph", "import", "hetionet", str(graph))
        self.run("namespace", "create", "notes")
        self.run("namespace", "add", "notes", str(notes))
        self.run("index", "rebuild", "notes", "--index", "vectors")
        self.run("ask", QUESTION)


@pytest.fixture
def machine(environment: dict[str, str], tmp_path: Path) -> Callable[[int], Machine]:
    def made(umask: int) -> Machine:
        home, inputs = tmp_path / "home", tmp_path / "inputs"
        home.mkdir()
        inputs.mkdir()
        return Machine(home, inputs, environment, umask)

    return made


def _use(server: Any) -> None:
    """An answer with calls, a namespace made and filled over HTTP, and what that leaves behind while it runs."""
    site = Site(server.url)
    body = {"model": "scripted:genegpt", "messages": [{"role": "user", "content": QUESTION}]}
    assert site.call("POST", "/v1/chat/completions", body)[0] == 200
    site.create("uploaded")
    site.done(site.upload("uploaded", "more.jsonl", snippets(100, 20)))
    assert site.call("POST", "/v1/search", {"query": "thylacine", "namespaces": ["uploaded"]})[0] == 200


def test_data_made_by_commands_is_the_owners_alone(
    machine: Callable[[int], Machine], serve_with: Callable[..., AbstractContextManager[Any]]
) -> None:
    """Commands first, then the server, from a shell that would let everybody read."""
    here = machine(0)
    here.commands()
    assert _open_to_others(here.home) == {}
    made = {path.name for path in here.home.rglob("*")}
    assert made >= {"keys.json", "gateway.sqlite", "passages.sqlite", "audit.jsonl", "vectors", "words"}

    without_keys = here.variables | {"ARROWHEAD_SERVER__KEYS_FILE": str(here.inputs / "none.json")}
    with serve_with(without_keys, umask=0) as server:
        _use(server)
        assert _open_to_others(here.home) == {}
    assert _open_to_others(here.home) == {}


def test_data_made_by_the_server_is_the_owners_alone(
    machine: Callable[[int], Machine], serve_with: Callable[..., AbstractContextManager[Any]]
) -> None:
    """The server first, while it runs and after."""
    here = machine(0)
    with serve_with(here.variables, umask=0) as server:
        _use(server)
        assert _open_to_others(here.home) == {}
        made = {path.name for path in here.home.rglob("*")}
        assert made >= {"traces.jsonl", "passages.sqlite-wal", "audit.jsonl", "audit.jsonl.head"}
    assert _open_to_others(here.home) == {}


def test_data_that_others_could_read_is_closed_at_the_start(
    machine: Callable[[int], Machine], serve_with: Callable[..., AbstractContextManager[Any]]
) -> None:
    """Folders with 0755 and files with 0644, wherever the settings put them; what lies beside them stays as it was."""
    here = machine(0o022)
    (here.inputs / "notes.jsonl").write_bytes(snippets(0, 5))
    here.run("namespace", "create", "notes")
    here.run("namespace", "add", "notes", str(here.inputs / "notes.jsonl"))
    beside = here.home / "logs" / "of-another-program.log"
    for name in (
        "logs/of-another-program.log",
        "logs/audit.jsonl.old",
        "traces/traces.jsonl",
        "replies/ncbi.sqlite-wal",
    ):
        (here.home / name).parent.mkdir(exist_ok=True)
        (here.home / name).write_text("")
    for path in here.home.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    with serve_with(here.variables) as server:
        assert "now the owner alone" in server.log()

    shared = {
        ".local",
        ".local/share",
        ".local/state",
        ".cache",
        "logs",
        "replies",
        "traces",
        str(beside.relative_to(here.home)),
    }
    assert set(_open_to_others(here.home)) <= shared
    assert stat.S_IMODE(beside.stat().st_mode) == 0o644


def test_a_rejected_key_file_is_not_repaired_unseen(machine: Callable[[int], Machine]) -> None:
    """Who could write it may have added a key: the start is refused, as before."""
    here = machine(0o022)
    here.run("key", "create", "--name", "clinic")
    keys = here.home / ".local/share/arrowhead/keys.json"
    keys.chmod(0o666)
    done = arrowhead_process(here.variables, "serve", "--port", "0")

    assert done.returncode == 1 and "others can write it" in done.stderr
    assert stat.S_IMODE(keys.stat().st_mode) == 0o666 and json.loads(keys.read_text())
