"""The gateway as an ASGI application: methods, sizes, logs, binding."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from shipped_data import give_store

from retrieval.errors import GATEWAY_NOT_LOCAL, PORT_TAKEN, RetrievalError
from retrieval.gateway.app import create_gateway_app, is_loopback, serve
from retrieval.gateway.store.open import open_store

EUTILS = "/entrez/eutils"


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    store = open_store(give_store(tmp_path))
    transport = httpx.ASGITransport(app=create_gateway_app(store))
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as opened:
        yield opened
    store.close()


async def test_get_and_post_give_the_same_reply(client: httpx.AsyncClient) -> None:
    """Parameters count the same in the address and in the body, names in any case."""
    params = {"db": "gene", "retmode": "json", "term": "LMP10", "sort": "relevance"}
    got = await client.get(f"{EUTILS}/esearch.fcgi", params=params)
    posted = await client.post(f"{EUTILS}/esearch.fcgi", data={k.upper(): v for k, v in params.items()})
    assert got.json()["esearchresult"]["idlist"] == ["5699", "8138", "19171"]
    assert got.text == posted.text
    assert got.headers["content-type"].startswith("application/json")


async def test_repeated_ids_are_all_asked_for(client: httpx.AsyncClient) -> None:
    """id=1&id=2 is id=1,2."""
    reply = await client.get(f"{EUTILS}/esummary.fcgi?db=gene&retmode=json&id=5699&id=8138,19171")
    assert reply.json()["result"]["uids"] == ["5699", "8138", "19171"]


@pytest.mark.parametrize("path", ["/", "/entrez/eutils/egquery.fcgi", "/entrez/eutils/../../etc/passwd"])
async def test_other_paths_do_not_exist(client: httpx.AsyncClient, path: str) -> None:
    """Only the five utilities and BLAST are there."""
    assert (await client.get(path)).status_code == 404


async def test_a_megabyte_of_term_is_refused_whichever_way_it_comes(client: httpx.AsyncClient) -> None:
    """Too long an address is 414, too large a body 413, and the service answers the next call."""
    term = "a" * 1_000_000
    assert (await client.post(f"{EUTILS}/esearch.fcgi", data={"db": "gene", "term": term})).status_code == 413
    assert (await client.get(f"{EUTILS}/esearch.fcgi?db=gene&term={term[:60_000]}")).status_code == 414
    assert (await client.get(f"{EUTILS}/einfo.fcgi")).status_code == 200


async def test_bad_encodings_and_media_types_are_refused(client: httpx.AsyncClient) -> None:
    """Bytes that are no UTF-8 and bodies that are no form get an error, not a crash."""
    raw = await client.post(
        f"{EUTILS}/esearch.fcgi",
        content=b"db=gene&term=\xff\xfe\xff",
        headers={"content-type": "application/x-www-form-urlencoded"},
    )
    assert raw.status_code == 400
    assert (await client.post(f"{EUTILS}/esearch.fcgi", json={"db": "gene"})).status_code == 415


async def test_no_query_text_reaches_the_log(client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture) -> None:
    """What was asked is private: neither the term nor a made-up database name is logged."""
    caplog.set_level(logging.DEBUG, logger="retrieval.gateway")
    await client.get(f"{EUTILS}/esearch.fcgi", params={"db": "gene", "term": "SECRETPATIENT"})
    await client.get(f"{EUTILS}/esearch.fcgi", params={"db": "SECRET PATIENT 4711", "term": "x"})
    own = [record.getMessage() for record in caplog.records if record.name.startswith("retrieval")]
    assert len(own) == 2
    assert not any("SECRET" in line for line in own)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        *((host, True) for host in ("127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost")),
        *((host, False) for host in ("0.0.0.0", "10.1.2.3", "example.org", "localhost.example.org")),
    ],
)
def test_loopback_is_recognised(host: str, expected: bool) -> None:
    """Only addresses that cannot be reached from outside count."""
    assert is_loopback(host) is expected


def test_serving_on_an_open_address_is_refused(tmp_path: Path) -> None:
    """The gateway has no access control, so it does not listen to others unless told to."""
    with pytest.raises(RetrievalError, check=GATEWAY_NOT_LOCAL.is_of):
        serve(tmp_path, host="0.0.0.0", port=0)


@pytest.mark.parametrize("port", [-1, 70_000])
def test_a_port_that_does_not_exist_is_an_error_of_the_tree(tmp_path: Path, port: int) -> None:
    """And no bare OverflowError of the socket's."""
    with pytest.raises(RetrievalError, check=PORT_TAKEN.is_of):
        serve(tmp_path, port=port)


@pytest.mark.server
def test_a_request_that_never_ends_does_not_keep_the_server_from_ending(tmp_path: Path) -> None:
    """Half a body, and nothing more of it: after a grace the server goes without it."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom retrieval.gateway.app import serve\n"
        "serve(Path(sys.argv[1]), port=int(sys.argv[2]))"
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(port)], cwd=Path(__file__).parents[4])
    try:
        with _connected(port) as client:
            client.sendall(b"POST /Blast.cgi HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\nCMD=Put")
            with _connected(port) as other:  # once this one is answered, the first one has been read
                other.sendall(b"GET /nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                assert other.recv(20).startswith(b"HTTP/1.1 404")
            server.terminate()
            server.wait(timeout=60)
    finally:
        server.kill()
        server.wait()


def _connected(port: int) -> socket.socket:
    for _ in range(1500):
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=60)
        except ConnectionRefusedError:
            time.sleep(0.02)
    raise AssertionError("the server never came up")
