"""A model is fetched whole, at one commit, with each file checked; nothing else is left or taken."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hub_server import COMMIT, Hub, allow_library, serve_hub

from models.catalog import ModelRequest, card_from_request
from models.errors import ModelNotFound
from models.hub import fetch, fetched_folder, look_up, verify

FOLDER = f"lab--tiny@{COMMIT[:12]}"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    allow_library(monkeypatch)
    files = {
        "config.json": b'{"max_position_embeddings": 512}',
        "tokenizer.json": b"{}",
        "model.safetensors": bytes(range(256)) * 400,
        "pytorch_model.bin": b"pickle",
        "original/model.safetensors": b"copy",
        "run.py": b"print()",
    }
    with serve_hub(Hub(files)) as served:
        yield served


def _fetched(hub: Hub, into: Path) -> Path:
    return fetch(look_up("lab/tiny", "main", hub.address), into, hub.address)


def test_the_folder_is_whole_and_can_be_served_by_its_id(hub: Hub, tmp_path: Path) -> None:
    """No program, no pickle and no second copy of the weights is in it."""
    model = look_up("lab/tiny", None, hub.address)
    assert (model.commit, model.licence, model.size) == (COMMIT, "apache-2.0", 102_434)
    folder = fetch(model, tmp_path, hub.address)
    names = {path.name for path in folder.rglob("*")}
    assert names == {"config.json", "tokenizer.json", "model.safetensors", "arrowhead.json", "SHA256SUMS"}
    assert json.loads((folder / "arrowhead.json").read_text())["revision"] == COMMIT
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == [FOLDER]
    card = card_from_request(ModelRequest(source="lab/tiny"), tmp_path)
    assert (card.name, card.source, card.licence, card.context_length) == ("tiny", str(folder), "apache-2.0", 512)


def test_a_copy_is_checked_without_the_hub(hub: Hub, tmp_path: Path) -> None:
    """As after carrying it to a site without internet."""
    folder = _fetched(hub, tmp_path)
    assert verify(folder) == 3
    (folder / "model.safetensors").write_bytes(b"x")
    with pytest.raises(ModelNotFound, match=r"model\.safetensors is damaged"):
        verify(folder)
    (folder / "tokenizer.json").unlink()
    (folder / "model.safetensors").write_bytes(hub.files["model.safetensors"])
    with pytest.raises(ModelNotFound, match=r"tokenizer\.json is missing"):
        verify(folder)
    with pytest.raises(ModelNotFound, match="SHA256SUMS cannot be read"):
        verify(tmp_path)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_a_file_that_is_not_the_announced_one_is_refused(name: str, hub: Hub, tmp_path: Path) -> None:
    """By sha256 where the hub gives it, else by git's digest; the next try fetches it anew."""
    content = hub.files[name]
    hub.announced[name] = content
    hub.files[name] = content[:-1] + b"!"
    with pytest.raises(ModelNotFound, match=f"{name} is not the file that the hub announced"):
        _fetched(hub, tmp_path)
    assert not (tmp_path / FOLDER).exists()
    hub.files[name] = content
    assert _fetched(hub, tmp_path).is_dir()


def test_an_interrupted_fetch_goes_on(hub: Hub, tmp_path: Path) -> None:
    """Files that are whole are not fetched again."""
    draft = tmp_path / f".{FOLDER}.draft"
    hub.announced["model.safetensors"] = hub.files["model.safetensors"] + b"more"
    with pytest.raises(ModelNotFound):
        _fetched(hub, tmp_path)
    assert (draft / "tokenizer.json").is_file() and not (tmp_path / FOLDER).exists()
    hub.announced.clear()
    hub.asked.clear()
    assert verify(_fetched(hub, tmp_path)) == 3
    assert not any(line.startswith("GET") and line.endswith("tokenizer.json") for line in hub.asked)
    assert not draft.exists()


def test_a_connection_that_ends_early_loses_nothing(hub: Hub, tmp_path: Path) -> None:
    """The rest is asked for, at once or by the next try, and the whole is checked."""
    hub.cut["model.safetensors"] = 5_000
    try:
        folder = _fetched(hub, tmp_path)
    except ModelNotFound:
        assert not (tmp_path / FOLDER).exists()
        folder = _fetched(hub, tmp_path)
    assert (folder / "model.safetensors").read_bytes() == hub.files["model.safetensors"] and not hub.cut


def test_what_is_here_is_not_fetched_again(hub: Hub, tmp_path: Path) -> None:
    folder = _fetched(hub, tmp_path)
    hub.asked.clear()
    assert _fetched(hub, tmp_path) == folder
    assert not any("resolve" in line for line in hub.asked)


def test_what_a_hub_lacks_is_named(hub: Hub, tmp_path: Path) -> None:
    """An unknown revision or model, weights in pickles alone, a hub that does not answer."""
    with pytest.raises(ModelNotFound, match=r"lab/tiny \(v9\) at http://127"):
        look_up("lab/tiny", "v9", hub.address)
    with pytest.raises(ModelNotFound, match=r"lab/other \(main\)"):
        look_up("lab/other", None, hub.address)
    with pytest.raises(ModelNotFound, match="is no hub id"):
        look_up("../etc", None, hub.address)
    with pytest.raises(ModelNotFound, match=r"lab/tiny \(main\) at http://127\.0\.0\.1:9"):
        look_up("lab/tiny", None, "http://127.0.0.1:9")
    del hub.files["model.safetensors"], hub.files["original/model.safetensors"]
    with pytest.raises(ModelNotFound, match="no weights in safetensors"):
        look_up("lab/tiny", None, hub.address)


def test_a_place_that_cannot_be_written_is_named(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(ModelNotFound, match="could not be written to"):
        _fetched(hub, tmp_path / "taken")


def test_of_several_commits_one_must_be_named(tmp_path: Path) -> None:
    for commit in ("a" * 12, "b" * 12):
        (tmp_path / f"lab--tiny@{commit}").mkdir()
    assert fetched_folder("lab/tiny", "b" * 40, tmp_path) == tmp_path / f"lab--tiny@{'b' * 12}"
    assert fetched_folder("lab/tiny", "c" * 40, tmp_path) is None
    assert fetched_folder("lab/other", None, tmp_path) is None
    with pytest.raises(ModelNotFound, match="several commits"):
        fetched_folder("lab/tiny", None, tmp_path)
