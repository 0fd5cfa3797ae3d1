"""Two servers over one egress service, with mutual TLS and a key: one rate, cache and chain; and what it refuses."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from loopback import JsonHandler, listening
from waiting import wait_until

from retrieval.errors import EGRESS_REFUSED, EGRESS_SERVICE_UNAVAILABLE, NcbiError
from retrieval.types import NcbiCall, RawReply
from server.cli.main import main
from server.egress.router import Egress
from server.settings.loading import SettingsInvalid
from server.settings.schema import Settings
from server.types import EgressMode
from server.wiring.ncbi import build_egress_service, build_ncbi

x509 = pytest.importorskip("cryptography.x509", reason="cryptography is not installed")
from cryptography.hazmat.primitives import hashes, serialization  # noqa: E402  # after the check
from cryptography.hazmat.primitives.asymmetric import ec  # noqa: E402

ROOT = Path(__file__).parents[2]
HOST = "ncbi.example"  # looked up as this machine in the service's process; for the service it is another one
KEY = "0123456789abcdef" * 3
RATE = 10.0
NCBI = "eutils.ncbi.nlm.nih.gov"
pytestmark = pytest.mark.server


@dataclass
class Ncbi:
    """A loopback NCBI: one gene for each term; SLOW answers late. ``seen``: when each request came, and its values."""

    seen: list[tuple[float, dict[str, str]]] = field(default_factory=list)
    port: int = 0

    def terms(self) -> list[str]:
        return [params["term"] for _, params in self.seen if "term" in params]


@pytest.fixture(scope="module")
def outside() -> Iterator[Ncbi]:
    ncbi = Ncbi()

    class Handler(JsonHandler):
        def answer(self, query: dict[str, str]) -> object:
            ncbi.seen.append((time.monotonic(), query))
            time.sleep(30 if query.get("term") == "SLOW" else 0.3)
            return {"header": {}, "esearchresult": {"count": "1", "idlist": ["5699"]}}

    with listening(Handler) as url:
        ncbi.port = urlsplit(url).port or 0
        yield ncbi


class Authority:
    """Signs certificates into ``folder``, as NAME.pem and NAME.key."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self._name = folder, x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.file = self._write(name, self._name, self._key, is_authority=True)

    def sign(self, name: str) -> None:
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self._write(name, subject, ec.generate_private_key(ec.SECP256R1()), is_authority=False)

    def _write(self, name: str, subject: Any, key: Any, *, is_authority: bool) -> Path:
        now = datetime.datetime.now(datetime.UTC)
        address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .add_extension(address, critical=False)
            .add_extension(_usage(is_authority=is_authority), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        pem, private = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        pem.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        private.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return pem


def _usage(*, is_authority: bool) -> Any:
    names = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "crl_sign")
    rest = dict.fromkeys((*names, "encipher_only", "decipher_only"), False)
    return x509.KeyUsage(digital_signature=True, key_cert_sign=is_authority, **rest)


@dataclass
class Service:
    """The process of the egress service, and what servers need to reach it."""

    folder: Path
    environment: dict[str, str]
    port: int = 0
    process: subprocess.Popen[str] | None = None

    @property
    def log(self) -> Path:
        return self.folder / "service" / "audit.jsonl"

    def start(self) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("ARROWHEAD_")}
        variables = clean | self.environment | {"ARROWHEAD_EGRESS_SERVICE__PORT": str(self.port)}
        command = [sys.executable, "-m", "server", "egress", "serve"]
        self.process = subprocess.Popen(command, cwd=ROOT, env=variables, stderr=subprocess.PIPE, text=True)
        lines = []
        for line in self.process.stderr or ():
            lines.append(line)
            if "egress service ready: https://127.0.0.1:" in line:
                self.port = int(line.rsplit(":", 1)[1])
                threading.Thread(target=lambda: list(self.process.stderr or ()), daemon=True).start()  # type: ignore[union-attr]
                return
        raise AssertionError("".join(lines))

    def kill(self, number: int = signal.SIGKILL) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(60)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def settings(self, name: str, **egress: Any) -> Settings:
        """What a server of this name has."""
        files = {
            "service_ca_file": self.folder / "authority.pem",
            "service_certificate": self.folder / "server.pem",
            "service_certificate_key": self.folder / "server.key",
        }
        given = {"mode": "ncbi", "service_url": f"https://127.0.0.1:{self.port}", "service_key": KEY, **files, **egress}
        return Settings(
            egress={name: value for name, value in given.items() if value is not None},  # type: ignore[arg-type]
            audit={"path": self.folder / name / "audit.jsonl"},  # type: ignore[arg-type]
            gateway={"data_dir": self.folder / "gateway"},  # type: ignore[arg-type]
        )


@pytest.fixture(scope="module")
def service(outside: Ncbi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("egress-service")
    authority = Authority(folder, "authority")
    for name in ("service", "server"):
        authority.sign(name)
    Authority(folder, "foreign").sign("stranger")
    address = f"http://{HOST}:{outside.port}"
    made = Service(
        folder,
        {
            "NETWORK_BLOCK_HOSTS": HOST,
            "XDG_CACHE_HOME": str(folder / "cache"),
            "XDG_DATA_HOME": str(folder / "data"),
            "XDG_STATE_HOME": str(folder / "state"),
            "ARROWHEAD_EGRESS__MODE": "ncbi",
            "ARROWHEAD_EGRESS__ALLOW": "id,symbol,term,free_text",
            "ARROWHEAD_EGRESS__SERVICE_KEY": KEY,
            "ARROWHEAD_EGRESS_SERVICE__CERTIFICATE": str(folder / "service.pem"),
            "ARROWHEAD_EGRESS_SERVICE__CERTIFICATE_KEY": str(folder / "service.key"),
            "ARROWHEAD_EGRESS_SERVICE__CLIENT_CA_FILE": str(authority.file),
            "ARROWHEAD_NCBI__EUTILS_URL": address,
            "ARROWHEAD_NCBI__BLAST_URL": address,
            "ARROWHEAD_NCBI__EMAIL": "someone@example.org",
            "ARROWHEAD_NCBI__API_KEY": "the-institutions-key",
            "ARROWHEAD_NCBI__RATE_PER_S": str(RATE),
            "ARROWHEAD_AUDIT__PATH": str(folder / "service" / "audit.jsonl"),
        },
    )
    made.start()
    yield made
    made.kill()


def _wait_for(outside: Ncbi, term: str) -> None:
    wait_until(lambda: term in outside.terms())


@dataclass
class Server:
    """The access to NCBI of one server, as it builds it."""

    egress: Egress
    number: int = 0

    async def ask(self, term: str, mode: EgressMode | None = None) -> tuple[RawReply, str]:
        """The reply, and the answer's sentence on what left."""
        return await self.send(NcbiCall("esearch", "gene", {"db": "gene", "term": term}), mode)

    async def send(self, call: NcbiCall, mode: EgressMode | None = None) -> tuple[RawReply, str]:
        self.number += 1
        context = self.egress.admit(f"answer-{id(self)}-{self.number}", "", mode)
        reply = await self.egress.fetch(call, context)
        return reply, self.egress.departures_of(context.request_id)


@asynccontextmanager
async def server(settings: Settings) -> AsyncIterator[Server]:
    ncbi = build_ncbi(settings)
    ncbi.begin()
    try:
        yield Server(ncbi.egress)
    finally:
        for closer in reversed(ncbi.closers):
            await closer()


async def test_equal_calls_of_two_servers_go_out_once(service: Service, outside: Ncbi) -> None:
    """At the same time, and later from the cache; each server says what left for its own answer."""
    async with server(service.settings("a")) as first, server(service.settings("b")) as second:
        replies = await asyncio.gather(first.ask("LMP10"), second.ask("LMP10"))
        later, said = await second.ask("LMP10")

    assert outside.terms().count("LMP10") == 1
    assert {reply.body for reply, _ in replies} == {later.body} and "5699" in later.body
    assert [text for _, text in replies] == [f"left this machine: symbol to {NCBI}"] * 2
    assert (later.from_cache, said) == (True, "no data left this machine")
    events = [line["event"] for line in service.lines() if line.get("request_id", "")]
    assert sorted(events) == ["reply", "send", "shared"]
    own = [json.loads(line) for line in (service.folder / "a" / "audit.jsonl").read_text().splitlines()]
    (sent,) = [line for line in own if line["event"] == "send"]
    assert (sent["where"], sent["detail"]) == (NCBI, {"via": f"127.0.0.1:{service.port}"})


async def test_the_rate_is_that_of_the_institution(service: Service, outside: Ncbi) -> None:
    """Calls of two servers keep the distance that one has; each is sent once, with what NCBI asks for."""
    before = len(outside.seen)
    async with server(service.settings("a")) as first, server(service.settings("b")) as second:
        await asyncio.gather(*((first, second)[number % 2].ask(f"GENE{number}") for number in range(12)))

    came = outside.seen[before:]
    assert len(came) == 12
    # Two rates would take 5 / RATE; the first call may arrive late on a busy machine.
    assert came[-1][0] - came[0][0] >= 8 / RATE
    assert {(params["email"], params["api_key"]) for _, params in came} == {
        ("someone@example.org", "the-institutions-key")
    }
    sends = [line for line in service.lines() if line["event"] == "send"]
    assert len(sends) == len(outside.seen) and all(line["where"] == HOST for line in sends)


async def test_the_service_and_the_server_both_bound_what_leaves(service: Service, outside: Ncbi) -> None:
    """What the service does not allow, what the server's own profile does not, and a mode off."""
    before = len(outside.seen)
    search = NcbiCall("blast_put", "nt", {"PROGRAM": "blastn", "DATABASE": "nt", "QUERY": "ACGTACGTACGTACGTACGTACGT"})
    async with server(service.settings("a")) as free, server(service.settings("b", profile="hospital")) as strict:
        with pytest.raises(NcbiError, check=EGRESS_REFUSED.is_of) as by_service:
            await free.send(search)
        with pytest.raises(NcbiError, check=EGRESS_REFUSED.is_of) as by_server:
            await strict.ask("my patient coughs")
        found, said = await free.ask("LMP10", "off")

    assert len(outside.seen) == before
    assert "sequence may not leave" in by_service.value.message and not by_service.value.route.left  # type: ignore[union-attr]
    assert "term may not leave" in by_server.value.message
    assert found.route is not None and (found.route.went_to, said) == ("gateway", "no data left this machine")
    assert [line["classes"] for line in service.lines() if line["event"] == "refused"] == [["sequence"]]


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("wrong key", {"service_key": "f" * 48}),
        ("no key", {"service_key": None}),
        ("no certificate", {"service_certificate": None, "service_certificate_key": None}),
        ("foreign certificate", {"service_certificate": "stranger.pem", "service_certificate_key": "stranger.key"}),
        ("foreign service", {"service_ca_file": "foreign.pem"}),
    ],
)
async def test_who_may_not_ask_is_refused(service: Service, outside: Ncbi, name: str, given: dict[str, Any]) -> None:
    """By the service or in the handshake; nothing is sent to NCBI, and the server sends nothing itself."""
    before = len(outside.seen)
    paths = {
        key: service.folder / value if str(value).endswith((".pem", ".key")) else value for key, value in given.items()
    }
    async with server(service.settings("refused", **paths)) as refused:
        with pytest.raises(NcbiError, check=EGRESS_SERVICE_UNAVAILABLE.is_of) as raised:
            await refused.ask("LMP10")

    assert len(outside.seen) == before
    assert ("(HTTP 403)" in raised.value.message) is name.endswith("key")
    assert raised.value.route is not None and not raised.value.route.left


async def test_a_killed_service_ends_in_errors_and_comes_back_with_a_whole_chain(
    service: Service, outside: Ncbi
) -> None:
    """The call under way may have left; later ones have not. After the restart calls go on, and the cache is there."""
    async with server(service.settings("a")) as asking:
        under_way = asyncio.create_task(asking.ask("SLOW"))
        await asyncio.to_thread(_wait_for, outside, "SLOW")
        service.kill()
        with pytest.raises(NcbiError) as broken:
            await under_way
        with pytest.raises(NcbiError, check=EGRESS_SERVICE_UNAVAILABLE.is_of) as down:
            await asking.ask("OTHER1")
        await asyncio.to_thread(service.start)
        again, _ = await asking.ask("OTHER1")
        cached, _ = await asking.ask("LMP10")

    assert broken.value.route is not None and broken.value.route.left
    assert down.value.route is not None and not down.value.route.left
    assert "5699" in again.body and not again.from_cache and cached.from_cache
    assert outside.terms().count("OTHER1") == 1
    assert main(["audit", "verify", str(service.log)]) == 0
    assert main(["audit", "verify", str(service.folder / "a" / "audit.jsonl")]) == 0
    events = [line["event"] for line in service.lines()]
    assert events.count("start") == 2 and "break" not in events


async def test_it_ends_in_good_order(service: Service) -> None:
    """SIGTERM ends it with 0 and a line in the log."""
    assert await asyncio.to_thread(service.kill, signal.SIGTERM) == 0
    assert service.lines()[-1]["event"] == "stop"
    await asyncio.to_thread(service.start)


@pytest.mark.parametrize(
    ("egress", "fault"),
    [({"mode": "off"}, "set ncbi"), ({"mode": "ncbi", "service_url": "unix:/run/egress.sock"}, "is for servers")],
)
def test_settings_of_no_service_are_refused(tmp_path: Path, egress: dict[str, Any], fault: str) -> None:
    settings = Settings(egress=egress, ncbi={"email": "a@example.org"}, audit={"path": tmp_path / "audit.jsonl"})  # type: ignore[arg-type]
    with pytest.raises(SettingsInvalid, match=fault):
        build_egress_service(settings, None)  # type: ignore[arg-type]
