"""`arrowhead models pull`: denied by default, logged, and the licence shown before anything is fetched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hub_server import COMMIT, Hub, allow_library, serve_hub

from server.cli.main import main

FILES = {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": b"weights" * 100}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for kind in ("DATA", "STATE", "CONFIG"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path))
    allow_library(monkeypatch)
    return tmp_path / "arrowhead"


def test_nothing_is_fetched_unless_it_is_allowed(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The hub is not asked, and no line of the log says that it was."""
    with serve_hub(Hub(dict(FILES))) as hub:
        monkeypatch.setenv("ARROWHEAD_MODEL__HUB_URL", hub.address)
        assert main(["models", "pull", "lab/tiny"]) == 1
        assert hub.asked == []
    assert "model.allow_download is false; set it, or give --allow-download" in capsys.readouterr().err
    assert not home.exists()


def test_a_fetch_shows_the_licence_and_is_logged(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The log has a line before the hub is asked and one after, without the model's name in clear."""
    with serve_hub(Hub(dict(FILES), licence="llama3.1")) as hub:
        monkeypatch.setenv("ARROWHEAD_MODEL__HUB_URL", hub.address)
        assert main(["models", "pull", "lab/tiny", "--revision", COMMIT, "--allow-download"]) == 0
        out = capsys.readouterr().out
        assert "licence: llama3.1" in out and f"commit {COMMIT}" in out
        assert main(["models", "pull", "lab/tiny", "--revision", "v9", "--allow-download"]) == 1
    folder = home / "models" / f"lab--tiny@{COMMIT[:12]}"
    assert main(["models", "verify", str(folder)]) == 0
    lines = [json.loads(line) for line in (home / "audit.jsonl").read_text().splitlines()]
    events = [(line["event"], line.get("status")) for line in lines if line["event"] in ("send", "reply")]
    assert events == [("send", None), ("reply", "ok"), ("send", None), ("reply", "failed")]
    assert "lab/tiny" not in (home / "audit.jsonl").read_text()
    assert main(["audit", "verify"]) == 0
