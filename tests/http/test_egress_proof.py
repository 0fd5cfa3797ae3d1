"""``arrowhead egress prove`` asks a server of its own, and its exit status says whether something left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _run(environment: dict[str, str], folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    settings = {"HOME": str(folder), "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)} | environment
    return subprocess.run(
        [sys.executable, "-m", "server", "egress", *words], cwd=folder, env=settings, text=True, capture_output=True
    )


@pytest.mark.server
def test_a_server_that_keeps_everything_is_proven(environment: dict[str, str], tmp_path: Path) -> None:
    """Its look-ups are answered here; every method was asked, and the statement can be checked and not changed."""
    local = {name: value for name, value in environment.items() if not name.endswith(("EUTILS_URL", "BLAST_URL"))}
    # A database that servers share is left alone, so that nobody listening there does no harm.
    shared = {
        "ARROWHEAD_STATE__URL": "postgresql://nobody@127.0.0.1:9/none",
        "ARROWHEAD_RETRIEVAL__STORAGE": "postgresql",
    }
    made = _run(local | shared, tmp_path, "prove")
    statement = json.loads((tmp_path / "egress-proof.json").read_text())

    assert (made.returncode, statement["verdict"]) == (0, "nothing left"), made.stdout + made.stderr
    assert {"scripted:genegpt", "scripted:medrag"} <= {asked["model"] for asked in statement["asked"]}
    assert statement["inside"] > 0
    assert _run(local, tmp_path, "check", "egress-proof.json", "--key", statement["public_key"]).returncode == 0
    (tmp_path / "egress-proof.json").write_text(json.dumps(statement | {"egress": "off!"}))
    changed = _run(local, tmp_path, "check", "egress-proof.json")
    assert changed.returncode == 1 and "changed after it was signed" in changed.stderr


@pytest.mark.server
def test_what_leaves_is_named(environment: dict[str, str], tmp_path: Path) -> None:
    """An address of nobody (TEST-NET-1), asked by GeneGPT."""
    away = {"ARROWHEAD_NCBI__EUTILS_URL": "http://192.0.2.1:9", "ARROWHEAD_NCBI__BLAST_URL": "http://192.0.2.1:9"}
    more = {"ARROWHEAD_NCBI__EMAIL": "someone@example.org", "ARROWHEAD_NCBI__TOTAL_TIMEOUT_S": "1"}
    made = _run(environment | away | more, tmp_path, "prove", "--egress", "ncbi")

    assert made.returncode == 1, made.stdout + made.stderr
    assert "left: connection 192.0.2.1 9" in made.stdout
    assert "something left: egress ncbi" in made.stdout


@pytest.mark.server
def test_a_server_that_does_not_start_is_told_with_its_log(environment: dict[str, str], tmp_path: Path) -> None:
    made = _run(environment, tmp_path, "prove", "--script", str(tmp_path / "nothing.json"))
    assert made.returncode != 0 and "nothing.json" in made.stderr
