"""``arrowhead audit``: whether the log is whole, and its lines."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from server.audit.chain import AuditRecord, digest_of
from server.audit.log import AuditLog
from server.cli.main import main

CALL = AuditRecord(
    event="send", request_id="chatcmpl-7f-0", key_id="1a2b3c4d", mode="ncbi", decision="allowed",
    where="eutils.ncbi.nlm.nih.gov", endpoint="esearch", db="gene", classes=("symbol",), request_bytes=120,
    params={"db": "gene", "term": "LMP10"},
)  # fmt: skip


def _log(folder: Path) -> AuditLog:
    moment = datetime(2026, 1, 31, 8, 0, 0, 123456, tzinfo=UTC)
    return AuditLog(folder / "audit.jsonl", level="metadata", max_bytes=10**6, now=lambda: moment)


def _written(folder: Path, number: int) -> Path:
    log = _log(folder)
    for _ in range(number):
        log.append(CALL)
    log.close()
    return log.path


def _arrowhead(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = main(["audit", *arguments])
    return status, capsys.readouterr().out


def test_the_command_verifies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """0 and the last hash, to be kept elsewhere; 1 and the first wrong line."""
    path = _written(tmp_path, 2)
    status, said = _arrowhead(capsys, "verify", str(path))
    assert (status, said) == (
        0,
        f"whole: 3 lines, numbers 1 to 3, last hash {digest_of(path.read_bytes()[:-1].splitlines()[-1])}\n",
    )

    path.write_bytes(path.read_bytes().replace(b'"db":"gene"', b'"db":"xene"', 1))
    assert _arrowhead(capsys, "verify", str(path)) == (1, f"broken: {path}: line 2 is not as it was written\n")
    assert main(["audit", "verify", str(tmp_path / "none")]) == 1


def test_a_machine_without_a_log_is_told_so(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                            monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """Nothing is wrong there: status 0. A file that was named and is missing is an error, and so is a lost log."""
    for name in [name for name in os.environ if name.startswith("ARROWHEAD_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = tmp_path / "arrowhead" / "audit.jsonl"
    for verb in ("verify", "show"):
        assert _arrowhead(capsys, verb) == (
            0,
            f"no log: {path} does not exist, so nothing was recorded here under these settings\n",
        )
        assert _arrowhead(capsys, verb, str(path))[0] == 1

    _written(tmp_path / "arrowhead", 2).unlink()
    status, said = _arrowhead(capsys, "verify")
    assert status == 1 and "the last 3 line(s) are missing" in said


def test_the_command_finds_the_servers_log(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                           monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """By the settings, else in the XDG state folder."""
    for name in [name for name in os.environ if name.startswith("ARROWHEAD_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    _written(tmp_path / "arrowhead", 1)
    assert _arrowhead(capsys, "verify")[0] == 0

    monkeypatch.setenv("ARROWHEAD_AUDIT__PATH", str(_written(tmp_path / "other", 4)))
    assert _arrowhead(capsys, "verify")[1].startswith("whole: 5 lines")


def test_the_command_shows_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All, one request's, those since a time; for a reader or as they stand in the file."""
    path = _written(tmp_path, 2)
    log = _log(tmp_path)
    log.append(AuditRecord(event="stop"))
    log.close()

    _, shown = _arrowhead(capsys, "show", str(path))
    assert "2026-01-31T08:00:00.123Z" in shown and "allowed ncbi eutils.ncbi.nlm.nih.gov esearch gene symbol" in shown
    _, one = _arrowhead(capsys, "show", str(path), "--request-id", "chatcmpl-7f", "--json")
    assert [json.loads(line)["seq"] for line in one.splitlines()] == [2, 3]
    assert _arrowhead(capsys, "show", str(path), "--request-id", "chatcmpl")[1] == ""
    assert _arrowhead(capsys, "show", str(path), "--since", "2026-02-01")[1] == ""
    assert len(_arrowhead(capsys, "show", str(path), "--since", "2026-01-31")[1].splitlines()) == 4
    assert main(["audit", "show", str(path), "--since", "yesterday"]) == 2
