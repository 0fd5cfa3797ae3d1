"""Two servers over one database: keys, rates, traces and jobs are those of both."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from command_line import arrowhead, arrowhead_process
from http_calls import SETTINGS, snippets
from http_calls import Site as Calls

if TYPE_CHECKING:
    from postgres_server import Postgres

Serve = Callable[..., AbstractContextManager[Any]]
SCRIPT = [{"suffix": "hello\nAnswer:", "text": " Hello there."}, {"regex": r"", "text": " Hello there."}]
ASK = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 8}


@dataclass(frozen=True)
class Pair:
    variables: dict[str, str]
    urls: tuple[str, str]
    folder: Path

    def key(self, *words: str) -> str:
        done = arrowhead(self.variables, "key", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def status(self, server: int, key: str) -> int:
        return Calls(self.urls[server], key).call("GET", "/v1/models")[0]

    def comes(self, status: int, key: str, servers: Sequence[int] = (0, 1)) -> list[int]:
        """Return what each server answers once all answer so, or after two minutes."""
        for _ in range(1200):
            if set(found := [self.status(server, key) for server in servers]) == {status}:
                break
            time.sleep(0.1)
        return found


@pytest.fixture(scope="module")
def pair(
    postgres: Postgres, environment: dict[str, str], serve_with: Serve, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pair")
    (folder / "script.json").write_text(json.dumps(SCRIPT))
    shared = environment | SETTINGS | {
        "ARROWHEAD_STATE__URL": postgres.new_database(empty=True),
        "ARROWHEAD_MODEL__SCRIPT": str(folder / "script.json"),
        "ARROWHEAD_GATEWAY__DATA_DIR": str(folder / "gateway"),
    }  # fmt: skip
    with ExitStack() as stack:
        servers = []
        for name in ("a", "b"):
            own = {
                "ARROWHEAD_RETRIEVAL__DATA_DIR": str(folder / name / "namespaces"),
                "ARROWHEAD_AUDIT__PATH": str(folder / name / "audit.jsonl"),
            }
            servers.append(stack.enter_context(serve_with(shared | own)))
        first, second = servers
        yield Pair(shared, (first.url, second.url), folder)


def test_a_key_made_once_counts_at_both_and_is_revoked_at_both(pair: Pair) -> None:
    """Neither server is restarted; the database starts empty and its tables are made by the first to come."""
    secret = pair.key("create", "--name", "anna")
    assert pair.comes(200, secret) == [200, 200]
    assert "anna" in pair.key("list")
    pair.key("revoke", "anna")
    assert pair.comes(401, secret) == [401, 401]


def test_a_rate_is_one_over_both(pair: Pair) -> None:
    """Of twenty requests to either server in turn, as many are answered as the key may make."""
    secret = pair.key("create", "--name", "ben", "--rate", "6")
    assert pair.comes(200, secret, [1]) == [200]
    calls = [Calls(url, secret) for url in pair.urls]
    found = [calls[number % 2].call("POST", "/v1/chat/completions", ASK)[0] for number in range(20)]
    assert sorted(set(found)) == [200, 429] and 4 <= found.count(200) <= 6


def test_a_trace_is_found_at_the_other_server(pair: Pair) -> None:
    """By the key that asked, and by no other."""
    secret, other = pair.key("create", "--name", "carl"), pair.key("create", "--name", "dora")
    assert pair.comes(200, secret) == pair.comes(200, other) == [200, 200]
    status, answer = Calls(pair.urls[0], secret).call("POST", "/v1/chat/completions", ASK)
    assert status == 200, answer
    path = f"/v1/traces/{answer['id']}"
    status, trace = Calls(pair.urls[1], secret).call("GET", path)
    assert (status, trace["choices"][0]["content"]) == (200, answer["choices"][0]["message"]["content"])
    assert Calls(pair.urls[1], other).call("GET", path)[0] == 404


def test_a_killed_servers_job_is_seen_by_the_other_and_goes_on_when_it_is_back(
    pair: Pair, serve_with: Serve, tmp_path: Path
) -> None:
    """The namespace is in the folder of the killed server, so its next start does the job, without the file again."""
    own = pair.variables | {
        "ARROWHEAD_RETRIEVAL__DATA_DIR": str(tmp_path / "namespaces"),
        "ARROWHEAD_AUDIT__PATH": str(tmp_path / "audit.jsonl"),
        "ARROWHEAD_RETRIEVAL__MAX_UPLOAD_BYTES": "4000000",
    }
    secret = pair.key("create", "--name", "emma")
    assert pair.comes(200, secret) == [200, 200]
    other = Calls(pair.urls[1], secret)
    with serve_with(own) as running:
        site = Calls(running.url, secret)
        site.create("killed")
        status, job = site.upload("killed", "book.jsonl", snippets(0, 4000))
        assert status == 202, job
        while (site.call("GET", f"/v1/jobs/{job['id']}")[1]["progress"] or {"read": 0})["read"] == 0:
            time.sleep(0.01)
        running.process.send_signal(signal.SIGKILL)
        running.process.wait(120)
    assert other.call("GET", f"/v1/jobs/{job['id']}")[1]["state"] in ("running", "queued")
    with serve_with(own) as running:
        site = Calls(running.url, secret)
        assert site.ended((202, job))["state"] == "done"
        assert site.call("GET", "/v1/namespaces/killed")[1]["documents"] == 4000
    assert other.call("GET", f"/v1/jobs/{job['id']}")[1]["state"] == "done"


def test_a_second_server_on_the_same_folder_is_refused(pair: Pair) -> None:
    """In words, with the way out; a command that only reads works beside the first."""
    variables = pair.variables | {"ARROWHEAD_RETRIEVAL__DATA_DIR": str(pair.folder / "a" / "namespaces")}
    refused, listed = arrowhead_process(variables, "serve", "--port", "0"), arrowhead(variables, "namespace", "list")
    assert refused.returncode != 0 and "a folder of its own" in refused.stderr
    assert listed.returncode == 0, listed.stderr


def test_a_database_that_does_not_answer_is_one_line_at_the_start(pair: Pair) -> None:
    """With the status of a failure; the address is not told."""
    variables = pair.variables | {"ARROWHEAD_STATE__URL": "postgresql://anna:secret@127.0.0.1:1/none"}
    done = arrowhead_process(variables, "serve", "--port", "0")
    assert done.returncode != 0 and "database of shared state" in done.stderr
    assert "secret" not in done.stderr + done.stdout
