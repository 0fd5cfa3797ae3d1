"""The shared state is written to a file, read into another database, and a server goes on with it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from http_calls import SETTINGS, snippets
from http_calls import Site as Calls

from server.auth.keys import NewKey
from server.state.database import Database
from server.state.keys import PostgresKeyStore

if TYPE_CHECKING:
    from postgres_server import Postgres

pytestmark = pytest.mark.slow
SCRIPTS = Path(__file__).parents[2] / "deploy" / "scale-out"
ASK = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 8}


def run(postgres: Postgres, script: str, file: Path, url: str) -> subprocess.CompletedProcess[str]:
    """One of the shipped scripts, which finds the database in libpq's variables."""
    import psycopg

    of = psycopg.conninfo.conninfo_to_dict(url)
    variables = {"PGHOST": str(of["host"]), "PGUSER": str(of["user"]), "PGDATABASE": str(of["dbname"])}
    path = f"{postgres.programs}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", str(SCRIPTS / script), str(file)], env={"PATH": path} | variables, capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip


def test_keys_traces_and_jobs_of_a_backup_go_on_in_another_database(
    postgres: Postgres, serve_with: Callable[..., AbstractContextManager[Any]], tmp_path: Path
) -> None:
    """A job runs while the backup is made; its server, with the same data folder, finishes it after the restore."""
    old, new, file = postgres.new_database(), postgres.new_database(empty=True), tmp_path / "state.dump"
    settings = SETTINGS | {
        "ARROWHEAD_RETRIEVAL__DATA_DIR": str(tmp_path / "namespaces"),
        "ARROWHEAD_RETRIEVAL__MAX_UPLOAD_BYTES": "4000000",
    }
    keys = PostgresKeyStore(Database(old))
    secret, _ = keys.create(NewKey(name="anna"))
    revoked, _ = keys.create(NewKey(name="ben"))
    keys.revoke("ben")
    keys.close()
    with serve_with(settings | {"ARROWHEAD_STATE__URL": old}) as running:
        site = Calls(running.url, secret)
        status, answer = site.call("POST", "/v1/chat/completions", ASK)
        assert status == 200, answer
        site.create("books")
        status, job = site.upload("books", "book.jsonl", snippets(0, 4000))
        assert status == 202, job
        while (site.call("GET", f"/v1/jobs/{job['id']}")[1]["progress"] or {"read": 0})["read"] == 0:
            time.sleep(0.01)
        done = run(postgres, "backup.sh", file, old)
        assert (done.returncode, done.stderr) == (0, "")
        assert file.stat().st_mode & 0o777 == 0o600
        running.process.send_signal(signal.SIGKILL)
        running.process.wait(120)
    done = run(postgres, "restore.sh", file, new)
    assert (done.returncode, done.stderr) == (0, "")
    with Database(new).connection() as connection:
        row = connection.execute(
            "SELECT state, file_bytes > 0 FROM arrowhead_jobs WHERE id = %s", (job["id"],)
        ).fetchone()
    assert row == ("running", True)
    with serve_with(settings | {"ARROWHEAD_STATE__URL": new}) as running:
        site = Calls(running.url, secret)
        assert site.ended((202, job))["state"] == "done"
        assert site.call("GET", "/v1/namespaces/books")[1]["documents"] == 4000
        assert site.call("GET", f"/v1/traces/{answer['id']}")[0] == 200
        assert Calls(running.url, revoked).call("GET", "/v1/models")[0] == 401


def test_what_cannot_be_done_changes_nothing(postgres: Postgres, tmp_path: Path) -> None:
    """No file of a database without our tables, none where it cannot be written, no restore over tables."""
    empty, ours = postgres.new_database(empty=True), postgres.new_database()
    assert run(postgres, "backup.sh", tmp_path / "empty.dump", empty).returncode != 0
    assert list(tmp_path.iterdir()) == []
    assert run(postgres, "backup.sh", tmp_path / "ours.dump", ours).returncode == 0
    refused = run(postgres, "restore.sh", tmp_path / "ours.dump", ours)
    assert refused.returncode == 1 and "restore into an empty one" in refused.stderr
    cut = tmp_path / "cut.dump"
    cut.write_bytes((tmp_path / "ours.dump").read_bytes()[:2000])
    assert run(postgres, "restore.sh", cut, empty).returncode != 0
    assert run(postgres, "restore.sh", tmp_path / "ours.dump", empty).returncode == 0
