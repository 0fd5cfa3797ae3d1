"""The state of audit log and gateway as the page tells it."""

from __future__ import annotations

from pathlib import Path

from server.settings.schema import Settings
from server.web.routes import status_of


def _settings(tmp_path: Path, mode: str) -> Settings:
    egress = {"mode": mode}
    ncbi = {"email": "a@b.example"}
    return Settings.model_validate(
        {
            "egress": egress,
            "ncbi": ncbi,
            "gateway": {"data_dir": str(tmp_path / "gateway")},
            "audit": {"path": str(tmp_path / "audit.jsonl")} if mode != "off" else {},
        }
    )


def test_nothing_is_logged_where_nothing_can_leave(tmp_path: Path) -> None:
    """And the gateway's sample is counted by database."""
    told = status_of(_settings(tmp_path, "off"))

    assert told["audit"] == {"recording": False, "bytes": 0, "last": None}
    assert told["gateway"]["gene"] > 0


def test_the_log_is_told_with_its_size_and_last_line(tmp_path: Path) -> None:
    """Before the first line it is empty."""
    settings = _settings(tmp_path, "local-first")
    assert status_of(settings)["audit"] == {"recording": True, "bytes": 0, "last": None}
    (tmp_path / "audit.jsonl").write_text("{}\n")

    told = status_of(settings)["audit"]
    assert (told["recording"], told["bytes"]) == (True, 3)
    assert told["last"] > 0


def test_a_store_that_cannot_be_read_has_no_records(tmp_path: Path) -> None:
    """The page still shows the rest."""
    (tmp_path / "gateway").write_text("no folder")

    assert status_of(_settings(tmp_path, "off"))["gateway"] == {}
