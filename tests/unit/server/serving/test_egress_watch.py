"""What a process asks of the network is seen, by hook and table of sockets, and told from what stays here."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from server.serving.egress_watch import Contact, Watch, is_outside, open_contacts

# Of TEST-NET-1: nobody has this address.
NOWHERE = "192.0.2.1"


@pytest.mark.parametrize(
    ("contact", "outside"),
    [
        (Contact("connection", "127.0.0.1", "80"), False),
        (Contact("connection", "127.8.9.1", "80"), False),
        (Contact("connection", "::1", "80"), False),
        (Contact("connection", "::ffff:127.0.0.1", "80"), False),
        (Contact("connection", "fe80::1%eth0", "80"), True),
        (Contact("connection", "0.0.0.0", "0"), False),
        (Contact("connection", NOWHERE, "443"), True),
        (Contact("connection", "::ffff:192.0.2.1", "443"), True),
        (Contact("name", "localhost", ""), False),
        (Contact("name", os.uname().nodename, ""), False),
        (Contact("name", "eutils.ncbi.nlm.nih.gov", "443"), True),
    ],
)
def test_another_machine_is_outside(contact: Contact, outside: bool) -> None:
    assert is_outside(contact) == outside


@pytest.mark.server
def test_the_hook_sees_each_process_also_one_that_fails(tmp_path: Path) -> None:
    """A connection, a datagram and a look-up of a name, also in a child; paths of this machine are none."""
    child = f"import socket\ns = socket.socket(type=socket.SOCK_DGRAM)\ns.sendto(b'x', ('{NOWHERE}', 9))"
    program = f"""
import socket, subprocess, sys
for ask in (
    lambda: socket.create_connection(("{NOWHERE}", 443), timeout=0.2),
    lambda: socket.getaddrinfo("nobody.invalid", 80),
    lambda: socket.socket(socket.AF_UNIX).connect("/nowhere"),
):
    try:
        ask()
    except OSError:
        pass
subprocess.run([sys.executable, "-c", {child!r}])
"""
    watch = Watch(tmp_path)
    subprocess.run([sys.executable, "-c", program], env={**os.environ, **watch.environment}, check=True)
    seen = watch.end()

    assert {Contact("connection", NOWHERE, "443"), Contact("connection", NOWHERE, "9")} <= set(seen)
    assert Contact("name", "nobody.invalid", "80") in seen
    assert not any("nowhere" in contact.host for contact in seen)


@pytest.mark.server
def test_the_table_of_sockets_has_the_sessions_own(tmp_path: Path) -> None:
    """Whatever opened them; those of other sessions are not read."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        program = (
            f"import socket\ns = socket.create_connection(('127.0.0.1', {port}))\nprint('open', flush=True)\ninput()"
        )
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        try:
            assert process.stdout is not None and process.stdout.readline() == b"open\n"
            assert Contact("connection", "127.0.0.1", str(port)) in set(open_contacts(process.pid))
            assert Contact("connection", "127.0.0.1", str(port)) not in set(open_contacts(os.getsid(0)))
        finally:
            process.communicate(b"\n")
