"""Keys as an operator makes them and clients use them: the command, a running server, raw requests."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import openai
import pytest
from command_line import Done, arrowhead, arrowhead_process
from http_calls import SETTINGS
from http_calls import Site as Calls

Serve = Callable[..., AbstractContextManager[Any]]
QUESTION = "What is the official gene symbol of LMP10?"
ASK: dict[str, Any] = {"model": "scripted:genegpt", "messages": [{"role": "user", "content": QUESTION}]}
LISTED = "https://lab.example"
SEARCH = "[https://eutils.ncbi.nlm.nih.gov/entrez/eutils/esearch.fcgi?db=gene&term=LMP10]->"
SCRIPT = [
    {"suffix": f"Question: {QUESTION}\n", "text": SEARCH},
    {"regex": r"\[\d ids?: [\d,]+\]\n$", "text": "Answer: PSMB10\n\n"},
    {"suffix": "Question: hello\nAnswer:", "text": " Hello there, reader."},
]


@dataclass(frozen=True)
class Operator:
    """Who has the server's files. ``variables`` of the settings."""

    variables: dict[str, str]

    def run(self, *words: str) -> Done:
        return arrowhead(self.variables, *words)

    def create(self, name: str, *flags: str) -> str:
        done = self.run("key", "create", "--name", name, *flags)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() not in done.stderr
        return done.stdout.strip()


@dataclass(frozen=True)
class Site:
    server: Any
    operator: Operator
    anna: str
    ben: str

    @property
    def secrets(self) -> tuple[str, ...]:
        return self.anna, self.ben

    def status(self, key: str, path: str = "/v1/models") -> int:
        return Calls(self.server.url, key).call("GET", path)[0]

    def raw(self, *lines: str | bytes, body: bytes = b"") -> tuple[int, str]:
        """A request as it stands here; status and everything that came."""
        address = urlsplit(self.server.url)
        head = b"\r\n".join(line if isinstance(line, bytes) else line.encode() for line in lines)
        with socket.create_connection((address.hostname, address.port), timeout=120) as connection:
            connection.sendall(head + b"\r\nConnection: close\r\n\r\n" + body)
            data = b"".join(iter(lambda: connection.recv(65536), b""))
        return int(data.split(b" ", 2)[1]), data.decode("utf-8", "replace")


@pytest.fixture(scope="module")
def operator(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Operator:
    folder = tmp_path_factory.mktemp("keys")
    (folder / "script.json").write_text(json.dumps(SCRIPT))
    return Operator(
        environment
        | SETTINGS
        | {
            "ARROWHEAD_SERVER__KEYS_FILE": str(folder / "etc" / "keys.json"),
            "ARROWHEAD_SERVER__CORS_ORIGINS": LISTED,
            "ARROWHEAD_MODEL__SCRIPT": str(folder / "script.json"),
            "ARROWHEAD_GATEWAY__DATA_DIR": str(folder / "gateway"),
            "ARROWHEAD_RETRIEVAL__DATA_DIR": str(folder / "namespaces"),
            "ARROWHEAD_RETRIEVAL__ALLOW_CHANGES": "true",
            "ARROWHEAD_EGRESS__MODE": "local-first",
            "ARROWHEAD_AUDIT__PATH": str(folder / "audit.jsonl"),
            "ARROWHEAD_LOG__LEVEL": "DEBUG",
        }
    )


@pytest.fixture(scope="module")
def site(operator: Operator, serve_with: Serve) -> Iterator[Site]:
    """On an address of other machines, which it would not be without a key. Anna may do much, Ben little."""
    anna = operator.create("anna")
    ben = operator.create(
        "ben", "--methods", "direct", "--egress", "off", "--namespaces", "", "--rate", "500", "--expires", "90d"
    )
    with serve_with(operator.variables, "--host", "0.0.0.0") as server:
        inside = type(server)(server.url.replace("0.0.0.0", "127.0.0.1"), server.process, server.log)
        yield Site(inside, operator, anna, ben)


def test_the_start_says_what_is_guarded(site: Site) -> None:
    """Keys by their ids with their modes, and who may ask."""
    said = site.server.log()
    assert "guard: every route but /health needs a key (0 of the settings, 2 of " in said
    assert f"web pages that may ask: {LISTED}" in said
    assert re.search(r"keys: [0-9a-f]{8} local-first, [0-9a-f]{8} off\n", said)


def test_a_key_is_made_listed_and_revoked_while_the_server_runs(site: Site) -> None:
    """It counts at the next request, and no more at the one after its end. The secret is told once."""
    secret = site.operator.create("visitor", "--rate", "3")
    assert site.status(secret) == 200
    table, listed = site.operator.run("key", "list"), site.operator.run("key", "list", "--json")
    (visitor,) = [key for key in json.loads(listed.stdout) if key["name"] == "visitor"]
    assert visitor["state"] == "active" and visitor["scopes"]["requests_per_minute"] == 3
    assert re.search(rf"^{visitor['id']}  visitor +active .* 3 requests/min", table.stdout, re.MULTILINE)
    for done in (table, listed):
        assert not any(key in done.stdout + done.stderr for key in (secret, secret[3:], *site.secrets))
        assert "digest" not in done.stdout
    assert site.operator.run("key", "revoke", visitor["id"]).stdout == f"visitor: key {visitor['id']} revoked\n"
    assert site.status(secret) == 401
    assert site.status(site.anna) == 200


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("create", "--name", "anna"), 1, "there is a key anna already"),
        (("create", "--name", "1a2b3c4d"), 1, "is no name of a key"),
        (("create", "--name", "x", "--methods", "magic"), 2, "there is no method magic; methods: direct, genegpt"),
        (("create", "--name", "x", "--namespaces", "../x"), 2, "is no name of a namespace"),
        (("create", "--name", "x", "--rate", "0"), 2, "requests per minute"),
        (("create", "--name", "x", "--expires", "soon"), 2, "write 90d"),
        (("create", "--name", "x", "--expires", "2020-01-01"), 2, "is past"),
        (("revoke", "nobody"), 1, "no key nobody"),
    ],
)
def test_mistakes_are_one_line(site: Site, arguments: tuple[str, ...], status: int, said: str) -> None:
    """With the command's usual exit status, and no key made."""
    done = site.operator.run("key", *arguments)
    assert (done.returncode, done.stdout) == (status, "")
    assert said in done.stderr.splitlines()[0] and "Traceback" not in done.stderr


def test_no_raw_request_is_answered_without_a_key(site: Site) -> None:
    """As they come over the wire: targets, doubled and strange headers, old HTTP. Never 2xx, nothing of an answer."""
    host, bearer = "Host: 127.0.0.1", f"Authorization: Bearer {site.anna}"
    targets = (
        "/v1/models", "/v1/models/", "//v1/models", "/v1%2fmodels", "/%76%31/models", "/v1/../v1/models", "/ready",
        f"/v1/models?api_key={site.anna}", "/health/../v1/models", "/health%2f..%2fv1/models", "/health;/v1/models",
        "http://127.0.0.1/v1/models", "http://127.0.0.1/health/../v1/models", "*", "/v1/models#/health",
    )  # fmt: skip
    for method in ("GET", "HEAD", "OPTIONS", "POST"):
        for target in targets:
            status, _ = site.raw(f"{method} {target} HTTP/1.1", host)
            assert status in (400, 401), (method, target)
    get = "GET /v1/models HTTP/1.1"
    for headers in (
        (f"Cookie: key={site.anna}",), (f"Authorization: Basic {site.anna}",), (bearer, bearer),
        (f"x-api-key: {site.anna}",), (f"Authorization : Bearer {site.anna}",),
        ("Authorization: Bearer " + "x" * 40_000,),
        ("Authorization: Bearer ключ".encode(),), (b"Authorization: Bearer \xff\xfe",), (f"{bearer}x",),
        ("Transfer-Encoding: chunked",), ("Upgrade: websocket", "Connection: Upgrade"),
    ):  # fmt: skip
        status, said = site.raw(get, host, *headers)
        assert status in (400, 401, 431), headers
        assert "scripted" not in said
    with suppress(ConnectionResetError):  # the reply may be lost with what was not read
        assert site.raw(get, host, "Authorization: Bearer " + "x" * 200_000)[0] == 431
    assert site.raw("GET /v1/models HTTP/1.0")[0] == 401
    assert site.raw("PRI * HTTP/2.0")[0] in (400, 401)
    status, said = site.raw(get, host)
    assert status == 401 and "www-authenticate: bearer" in said.lower() and '"code": "invalid_api_key"' in said
    assert site.raw(get, host, f"authorization: bearer  {site.anna} ")[0] == 200
    assert site.raw("GET /health HTTP/1.1", host)[0] == 200


def test_a_key_has_its_methods_mode_and_rate(site: Site) -> None:
    """As the official SDK sees them."""
    with site.server.client(site.ben) as ben, site.server.client(site.anna) as anna:
        assert [model.id for model in ben.models.list() if model.to_dict().get("method")] == [
            "arrowhead",
            "scripted",
            "scripted:auto",
        ]
        with pytest.raises(openai.NotFoundError) as absent:
            ben.chat.completions.create(**ASK)
        assert absent.value.code == "model_not_found" and "genegpt" not in absent.value.message.partition("served")[2]
        reply = ben.chat.completions.with_raw_response.create(
            model="scripted", messages=[{"role": "user", "content": "hello"}]
        )
        assert reply.headers["x-ratelimit-limit-requests"] == "500"
        done = anna.chat.completions.create(**ASK, extra_body={"arrowhead": {"egress": "local-first"}})
        assert (done.choices[0].message.content or "").startswith("PSMB10")
    with site.server.client(site.operator.create("quiet", "--egress", "off")) as quiet:
        with pytest.raises(openai.PermissionDeniedError) as raised:
            quiet.chat.completions.create(**ASK, extra_body={"arrowhead": {"egress": "local-first"}})
        assert raised.value.code == "egress_not_allowed"
        assert quiet.chat.completions.create(**ASK).choices[0].message.content
    with site.server.client(site.operator.create("rare", "--rate", "1")) as rare:
        rare.models.list()
        with pytest.raises(openai.RateLimitError) as limited:
            rare.models.list()
        assert limited.value.code == "rate_limit_exceeded"
        assert 1 <= int(limited.value.response.headers["retry-after"]) <= 60


def test_no_secret_and_no_question_is_in_the_log(site: Site) -> None:
    """After all that was tried above, at the lowest level; the file of keys has no secret either."""
    said = site.server.log() + Path(site.operator.variables["ARROWHEAD_SERVER__KEYS_FILE"]).read_text()
    assert "refused: kind=Unauthorized" in said
    assert not any(key in said or key[3:20] in said for key in site.secrets)
    assert "LMP10" not in said and "ключ" not in said


@pytest.mark.server
def test_a_reachable_server_without_a_key_waits_for_its_code(
    operator: Operator, tmp_path: Path, serve_with: Serve
) -> None:
    """With an empty file, or one whose keys are all revoked: what it printed makes the first key."""
    variables = operator.variables | {
        "ARROWHEAD_SERVER__KEYS_FILE": str(tmp_path / "keys.json"),
        "ARROWHEAD_RETRIEVAL__DATA_DIR": str(tmp_path / "namespaces"),
        "ARROWHEAD_AUDIT__PATH": str(tmp_path / "audit.jsonl"),
    }
    lone = Operator(variables)
    lone.create("gone")
    lone.run("key", "revoke", "gone")
    with serve_with(variables, "--host", "0.0.0.0") as server:
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        (code,) = re.findall(r"^no key yet: .* ((?:[A-Z2-7]{4}-){3}[A-Z2-7]{4})$", server.log(), re.MULTILINE)
        assert Calls(url, "wrong").call("GET", "/v1/models")[1]["error"]["code"] == "first_key_needed"
        assert Calls(url).call("POST", "/v1/setup", {"code": "AAAA"})[0] == 403
        status, made = Calls(url).call("POST", "/v1/setup", {"code": code})
        assert (status, Calls(url, made["secret"]).call("GET", "/v1/models")[0]) == (201, 200)
        assert Calls(url).call("POST", "/v1/setup", {"code": code})[1]["error"]["code"] == "invalid_api_key"
        assert server.log().count(code) == 1 and made["secret"] not in server.log()
    assert "administrator" in lone.run("key", "list").stdout
    (tmp_path / "keys.json").write_text("{")
    done = arrowhead_process(variables, "serve", "--host", "0.0.0.0", "--port", "0")
    assert done.returncode == 1 and "is no file of keys, or is damaged" in done.stderr
    assert re.search(r"^fail  keys ", lone.run("doctor").stdout, re.MULTILINE)
