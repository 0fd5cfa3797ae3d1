"""Real servers over the scripted engine, in this process or one of their own, and a loopback NCBI with one gene."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import openai
import pytest
from hosted_server import host
from loopback import JsonHandler, listening
from server_process import Running, Served, serve
from shipped_data import give_data

from models.catalog import EMBEDDED_DIR, EMBEDDED_NAME, has_weights

EUTILS = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils"
SEARCH = f"[{EUTILS}/esearch.fcgi?db=gene&retmax=5&retmode=json&sort=relevance&term=LMP10]->"
SUMMARY = f"[{EUTILS}/esummary.fcgi?db=gene&retmax=5&retmode=json&id=5699]->"
QUESTION = "What is the official gene symbol of LMP10?"


def _search(term: str) -> str:
    return f"[{EUTILS}/esearch.fcgi?db=gene&term={term}]->"


# What the scripted model writes, by how the sequence so far ends.
SCRIPT = [
    {"suffix": f"Question: {QUESTION}\n", "text": SEARCH},
    {"regex": r"\[1 id: 5699\]\n$", "text": SUMMARY},
    {"regex": r"PSMB10 \(human\)[^\[]*\]\n$", "text": "Answer: PSMB10\n\nQuestion: and more"},
    {"suffix": "Question: slow\n", "text": _search("SLOW")},
    {"suffix": "Question: dead\n", "text": _search("DEAD")},
    {"suffix": "Question: broken\n", "text": _search("EMPTY")},
    {"suffix": "Question: slowly broken\n", "text": "I search. " + _search("NOSCRIPT")},
    {"regex": r"\[0 ids\]\n$", "text": "Answer: not found\n\n"},
    {"suffix": "Question: hello\nAnswer:", "text": " Hello there, reader."},
    {"suffix": "Once upon", "text": " a time there was a gene."},
]


class _Ncbi(JsonHandler):
    """Gene 5699 for LMP10; NONSENSE is an error, SLOW answers after a second, DEAD not before the test ends."""

    def answer(self, query: dict[str, str]) -> object:
        term = query.get("term", "")
        if term == "SLOW":
            time.sleep(1.0)
        elif term == "DEAD":
            _ended.wait(60)
        return _summary() if "esummary" in self.path else _found(term)


_ended = threading.Event()


def _found(term: str) -> dict[str, Any]:
    if term == "NONSENSE":
        return {"header": {"type": "esearch", "version": "0.3"}, "esearchresult": {"ERROR": "Invalid db name"}}
    ids = {"LMP10": ["5699"], "NOSCRIPT": ["1", "2"], "MECL1": ["1", "2"]}.get(term, [])
    return {
        "header": {"type": "esearch", "version": "0.3"},
        "esearchresult": {"count": str(len(ids)), "retmax": "5", "retstart": "0", "idlist": ids},
    }


def _summary() -> dict[str, Any]:
    gene = {
        "uid": "5699",
        "name": "PSMB10",
        "description": "proteasome 20S subunit beta 10",
        "chromosome": "16",
        "maplocation": "16q22.1",
        "otheraliases": "LMP10, MECL1",
        "organism": {"scientificname": "Homo sapiens", "commonname": "human", "taxid": 9606},
        "summary": "",
    }
    return {"header": {"type": "esummary", "version": "0.3"}, "result": {"uids": ["5699"], "5699": gene}}


@pytest.fixture(scope="session")
def ncbi() -> Iterator[str]:
    """Address of the loopback NCBI."""
    with listening(_Ncbi) as url:
        yield url
        _ended.set()


@pytest.fixture(scope="session")
def environment(ncbi: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Settings of the scripted server."""
    home = tmp_path_factory.mktemp("home")
    give_data(home / ".local" / "share" / "arrowhead")
    script = home / "script.json"
    script.write_text(json.dumps(SCRIPT))
    return {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / "config"),
        "ARROWHEAD_MODEL__ENGINE": "scripted",
        "ARROWHEAD_MODEL__SCRIPT": str(script),
        "ARROWHEAD_VERIFIER__SERVED_MODEL": "off",
        # Not here, so that no test loads the weights of the one that ships; a test of it names it.
        "ARROWHEAD_VERIFIER__MODEL": "nobody/has-this",
        "ARROWHEAD_NCBI__EUTILS_URL": ncbi,
        "ARROWHEAD_NCBI__BLAST_URL": ncbi,
        # It needs no weights; a test of the default encoder names it.
        "ARROWHEAD_RETRIEVAL__ENCODERS": "hashing",
        "ARROWHEAD_GATEWAY__HUMAN_GENES": "false",  # seconds at each start that few tests need
        "ARROWHEAD_SERVER__MAX_BODY_BYTES": "65536",
        "ARROWHEAD_SERVER__MAX_IN_FLIGHT": "16",
        "ARROWHEAD_SERVER__MAX_WAITING": "0",
        "ARROWHEAD_SERVER__DRAIN_NOTICE_S": "0",
    }


@pytest.fixture(scope="session")
def running(environment: dict[str, str]) -> Iterator[Served]:
    """One server, in this process, for all tests that do not change it."""
    with host(environment) as server:
        yield server


@pytest.fixture(scope="session")
def host_with(environment: dict[str, str]) -> Callable[[dict[str, str | None]], AbstractContextManager[Served]]:
    """``host_with(variables)``: a server of one's own in this process, with further settings; None takes one away."""
    return lambda variables: host(_changed(environment, variables))


@pytest.fixture(scope="session")
def embedded_settings() -> dict[str, str | None]:
    """The settings of the model that comes with Arrowhead over the data that do."""
    if not has_weights(EMBEDDED_DIR):
        pytest.skip("the embedded model's weights are not in this checkout")
    return {
        "ARROWHEAD_MODEL__SCRIPT": None,
        "ARROWHEAD_MODEL__ENGINE": "transformers",
        "ARROWHEAD_MODEL__NAME": EMBEDDED_NAME,
        "ARROWHEAD_NCBI__EUTILS_URL": None,
        "ARROWHEAD_NCBI__BLAST_URL": None,
        "ARROWHEAD_RETRIEVAL__ENCODERS": None,
        "ARROWHEAD_VERIFIER__MODEL": None,
    }


@pytest.fixture(scope="package")
def embedded_model(
    host_with: Callable[[dict[str, str | None]], AbstractContextManager[Served]],
    embedded_settings: dict[str, str | None],
) -> Iterator[Served]:
    """That model, in this process, for all who ask a real one."""
    with host_with(embedded_settings) as server:
        yield server


@pytest.fixture(scope="package")
def default_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """The README's serve line, a process in an empty home, for all who look at what a fresh installation does."""
    if not has_weights(EMBEDDED_DIR):
        pytest.skip("the embedded model's weights are not in this checkout")
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    line = next(line for line in readme.splitlines() if "arrowhead serve" in line)
    _, verb, *flags = line.replace(" --port 8000", "").split()
    assert verb == "serve"
    home = tmp_path_factory.mktemp("fresh")
    settings = {
        "HOME": str(home),
        "XDG_DATA_HOME": str(home / ".local" / "share"),  # where it is without this, and nothing is put there
        "ARROWHEAD_GATEWAY__HUMAN_GENES": "true",
        "ARROWHEAD_SERVER__DRAIN_NOTICE_S": "0",
        # bfloat16, the default of some processors, finds a passage more or less.
        "ARROWHEAD_RETRIEVAL__DTYPE": "float32",
    }
    with serve(settings, *flags) as running:
        yield running


@pytest.fixture(scope="session")
def serve_with(environment: dict[str, str]) -> Callable[..., AbstractContextManager[Running]]:
    """``serve_with(variables, *flags)``: the same as a process, for signals, kills, its log and its files."""

    def serve_with_them(variables: dict[str, str | None], *flags: str, **options: Any) -> Any:
        return serve(_changed(environment, variables), *flags, **options)

    return serve_with_them


def _changed(environment: dict[str, str], variables: dict[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in (environment | variables).items() if value is not None}


@pytest.fixture
def client(running: Served) -> Iterator[openai.OpenAI]:
    """The official SDK, without its retries."""
    with running.client() as made:
        yield made
