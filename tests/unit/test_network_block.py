"""The block that the whole test run is under: what it refuses, what it lets through, and that no try is forgotten."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import network_block
import pytest

FOLDER = Path(network_block.__file__).parent
TRIES = {
    "connect": "socket.create_connection(('192.0.2.1', 80), 1)",
    "connect_ex": "socket.socket().connect_ex(('192.0.2.1', 80))",
    "connect by name": "socket.socket().connect(('example.org', 80))",
    "connect over IPv6": "socket.socket(socket.AF_INET6).connect(('2001:db8::1', 80))",
    "send a datagram": "socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))",
    "look a name up": "socket.getaddrinfo('example.org', 443)",
    "look a name up the old way": "socket.gethostbyname('example.org')",
    "asyncio": "import asyncio; asyncio.run(asyncio.open_connection('example.org', 80))",
    "uvloop": "import asyncio, uvloop; uvloop.run(asyncio.open_connection('example.org', 80))",
    "uvloop by address": "import asyncio, uvloop; uvloop.run(asyncio.open_connection('192.0.2.1', 80))",
    "uvloop looks a name up": (
        "import asyncio, uvloop\n"
        "async def look_up(): await asyncio.get_running_loop().getaddrinfo('example.org', 80)\n"
        "uvloop.run(look_up())"
    ),
    "uvloop connects a socket": (
        "import asyncio, uvloop\n"
        "async def connect(): await asyncio.get_running_loop().sock_connect(socket.socket(), ('192.0.2.1', 80))\n"
        "uvloop.run(connect())"
    ),
    "uvloop sends a datagram": (
        "import asyncio, uvloop\n"
        "async def send():\n"
        "    loop = asyncio.get_running_loop()\n"
        "    await loop.create_datagram_endpoint(asyncio.DatagramProtocol, remote_addr=('192.0.2.1', 53))\n"
        "uvloop.run(send())"
    ),
    "httpx": "import httpx; httpx.get('http://192.0.2.1/')",
    "urllib": "import urllib.request; urllib.request.urlopen('https://eutils.ncbi.nlm.nih.gov/')",
}

PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "pytest_network_block", "-p", "no:cacheprovider")


def _run(code: str, log: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(FOLDER), network_block.LOG: str(log)} | more
    return subprocess.run(
        [sys.executable, "-c", f"import socket\n{code}"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )


@pytest.mark.server
@pytest.mark.parametrize("way", TRIES)
def test_a_child_cannot_reach_another_machine(way: str, tmp_path: Path) -> None:
    """Whatever way it takes: an error at once, and a line of what was tried."""
    done = _run(TRIES[way], tmp_path / "log")

    assert done.returncode != 0 and "blocked in tests" in done.stderr
    (tried, *_) = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert "192.0.2.1" in tried["what"] or "2001:db8::1" in tried["what"] or "example.org" in tried["what"] or (
        "eutils.ncbi.nlm.nih.gov" in tried["what"]
    )  # fmt: skip


@pytest.mark.server
def test_swallowed_errors_are_remembered(tmp_path: Path) -> None:
    """Code that goes on after the error has still tried."""
    done = _run("try: socket.create_connection(('192.0.2.1', 80))\nexcept OSError: pass", tmp_path / "log")

    assert done.returncode == 0
    assert "192.0.2.1" in (tmp_path / "log").read_text()


@pytest.mark.server
def test_this_machine_can_be_reached(tmp_path: Path) -> None:
    """Loopback by address and name, and sockets that are files."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        threading.Thread(target=lambda: [server.accept() for _ in range(2)], daemon=True).start()
        code = (
            f"socket.create_connection(('127.0.0.1', {port}), 5); socket.create_connection(('localhost', {port}), 5)\n"
            f"s = socket.socket(socket.AF_UNIX); s.bind({str(tmp_path / 's')!r}); s.listen()\n"
            f"socket.socket(socket.AF_UNIX).connect({str(tmp_path / 's')!r})"
        )
        done = _run(code, tmp_path / "log")

    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "log").exists()


@pytest.mark.server
def test_a_name_can_stand_for_this_machine(tmp_path: Path) -> None:
    """A test's server can be "another machine": the name is given an address without a look-up."""
    done = _run(
        "print(socket.getaddrinfo('ncbi.example', 80)[0][4][0])",
        tmp_path / "log",
        **{network_block.HOSTS: "ncbi.example"},
    )

    assert done.stdout.strip() == "127.0.0.1"
    assert not (tmp_path / "log").exists()


@pytest.mark.server
def test_uvloop_reaches_this_machine(tmp_path: Path) -> None:
    """By address, by name, and by a name that stands for it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        threading.Thread(target=lambda: [server.accept() for _ in range(3)], daemon=True).start()
        code = (
            "import asyncio, uvloop\n"
            "async def connect():\n"
            "    for host in ('127.0.0.1', 'localhost', 'ncbi.example'):\n"
            f"        _, writer = await asyncio.open_connection(host, {port})\n"
            "        writer.close()\n"
            "uvloop.run(connect())"
        )
        done = _run(code, tmp_path / "log", **{network_block.HOSTS: "ncbi.example"})

    assert (done.returncode, done.stderr) == (0, "")
    assert not (tmp_path / "log").exists()


@pytest.mark.server
@pytest.mark.parametrize("workers", [(), ("-n", "2")])
def test_a_session_that_tried_fails(workers: tuple[str, ...], tmp_path: Path) -> None:
    """Every test of it passed, in this process or in a worker; the exit status and the summary say what happened."""
    (tmp_path / "test_leak.py").write_text(
        "import socket\n"
        "def test_leak():\n"
        "    try: socket.create_connection(('192.0.2.7', 80))\n"
        "    except OSError: pass\n"
    )
    done = subprocess.run(
        [*PYTEST, *workers, "test_leak.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(FOLDER)},
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )

    assert "1 passed" in done.stdout
    assert done.returncode == 1
    assert "192.0.2.7" in done.stdout and "test_leak" in done.stdout
