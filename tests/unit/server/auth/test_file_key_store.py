"""The file of keys: what it keeps, who may not touch it, and that it is whole whatever happens."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from server.auth.authentication import FileKeyStore
from server.auth.keys import MAX_ACTIVE, KeyStoreError, NewKey, Scopes
from server.errors import KEY_REFUSED, SCOPE_INVALID, RequestError
from server.types import key_digest, key_id

ROOT = Path(__file__).parents[4]
# Makes and revokes keys until it is killed; says so when the first one is there.
WRITER = """
import sys
from pathlib import Path
from server.auth.authentication import FileKeyStore
from server.auth.keys import NewKey
store = FileKeyStore(Path(sys.argv[1]))
for number in range(100_000):
    store.create(NewKey(name=f"{sys.argv[2]}-{number}"))
    store.revoke(f"{sys.argv[2]}-{number}")
    print(number, flush=True)
"""


@pytest.fixture
def store(tmp_path: Path) -> FileKeyStore:
    return FileKeyStore(tmp_path / "deep" / "keys.json")


def test_the_secret_is_shown_once_and_not_kept(store: FileKeyStore) -> None:
    """The file has its SHA-256, its id is the form that logs and settings use, and only its owner can read it."""
    secret, made = store.create(NewKey(name="anna"))
    text = store.path.read_text()

    assert secret.startswith("ah-") and len(secret) == 46
    assert (made.digest, made.id) == (key_digest(secret), key_id(secret))
    assert made.digest in text and secret not in text and secret[3:] not in text
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("name", ["", " ", "-x", "a\nb", "x" * 65, "1a2b3c4d", "a/b", "anna "])
def test_a_name_is_one_line_and_no_id(store: FileKeyStore, name: str) -> None:
    """Or nobody could tell it in a table, or from a key's id."""
    with pytest.raises(RequestError, check=KEY_REFUSED.is_of):
        store.create(NewKey(name=name))
    assert not store.path.exists()


@pytest.mark.parametrize(
    "scopes",
    [
        {"requests_per_minute": 0},
        {"tokens_per_minute": -1},
        {"requests_per_minute": 10**10},
        {"methods": ()},
        {"methods": ("a b",)},
        {"namespaces": ("../x",)},
        {"namespaces": ("x",) * 201},
    ],
)
def test_scopes_that_cannot_be_are_refused(scopes: dict[str, object]) -> None:
    """By the class itself, so that the file cannot hold them either."""
    with pytest.raises(RequestError, check=SCOPE_INVALID.is_of):
        Scopes(**scopes)  # type: ignore[arg-type]


def _damaged(text: str) -> list[str]:
    """Variants of a good file that must not be read."""
    good = json.loads(text)
    key = good["keys"][0]
    wrong = [
        {"digest": "0" * 64}, {"id": "00000000"}, {"created": "yesterday"}, {"created": "2026-01-01T00:00:00"},
        {"revoked": 1}, {"name": 5}, {"scopes": {"requests_per_minute": 0}}, {"scopes": {"egress": "on"}},
        {"scopes": {"may_change": "yes"}},
    ]  # fmt: skip
    files = [good | {"keys": [key | change]} for change in wrong]
    files += [good | {"format": 2}, good | {"keys": None}, [], {"keys": []}]
    return ["", "{", text[: len(text) // 2], "\x00", *(json.dumps(file) for file in files)]


def test_a_damaged_file_is_refused_without_its_words(store: FileKeyStore) -> None:
    """Whatever is wrong in it: no key is taken from the rest, and nothing is written over it."""
    _, made = store.create(NewKey(name="anna"))
    for text in _damaged(store.path.read_text()):
        store.path.write_text(text)
        with pytest.raises(KeyStoreError) as refused:
            store.known()
        assert made.digest not in refused.value.message
        with pytest.raises(KeyStoreError):
            store.create(NewKey(name="ben"))
        assert store.path.read_text() == text


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_write_is_refused(store: FileKeyStore, mode: int) -> None:
    """They could give themselves a key."""
    store.create(NewKey(name="anna"))
    store.path.chmod(mode)
    with pytest.raises(KeyStoreError, match="others can write"):
        store.known()


def test_no_ordinary_file_is_refused(tmp_path: Path) -> None:
    """A folder, a pipe: at once."""
    os.mkfifo(tmp_path / "pipe")
    for name in ("", "pipe"):
        with pytest.raises(KeyStoreError):
            FileKeyStore(tmp_path / name).known()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")
def test_an_administrator_does_not_take_the_file_away(store: FileKeyStore) -> None:
    """It stays with the user of the folder it was made in, and later with its own."""
    store.path.parent.mkdir()
    os.chown(store.path.parent, 1234, 1234)
    for name in ("anna", "ben"):
        store.create(NewKey(name=name))
        assert {path.stat().st_uid for path in store.path.parent.iterdir()} == {1234}


def test_a_link_stays_a_link(store: FileKeyStore, tmp_path: Path) -> None:
    """The file behind it is changed, also where there is none yet."""
    link = tmp_path / "link.json"
    link.symlink_to(store.path)
    for name in ("anna", "ben"):
        FileKeyStore(link).create(NewKey(name=name))
    assert link.is_symlink() and len(store.known()) == len(FileKeyStore(link).known()) == 2


def test_keys_are_bounded(store: FileKeyStore) -> None:
    """A loop that makes keys ends with an error, and what is there stays."""
    store.create(NewKey(name="first"))
    content = json.loads(store.path.read_text())
    content["keys"] *= MAX_ACTIVE
    store.path.write_text(json.dumps(content))
    with pytest.raises(RequestError, match="revoke some", check=KEY_REFUSED.is_of):
        store.create(NewKey(name="one more"))
    assert len(store.known()) == MAX_ACTIVE


def test_two_at_once_lose_nothing(store: FileKeyStore) -> None:
    """Each takes the other's keys along."""
    threads = [
        threading.Thread(target=lambda who=who: [store.create(NewKey(name=f"{who}{n}")) for n in range(10)])
        for who in "abc"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({key.name for key in store.known()}) == 30


@pytest.mark.server
def test_a_killed_process_leaves_a_whole_file(store: FileKeyStore) -> None:
    """SIGKILL in the middle of making and revoking: the next process reads it and goes on."""
    for who in ("a", "b"):
        command = [sys.executable, "-c", WRITER, str(store.path), who]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(7 if who == "a" else 20):
                process.stdout.readline()
            process.kill()
        names = [key.name for key in store.known() if key.name.startswith(who)]
        assert names == [f"{who}-{n}" for n in range(len(names))] and len(names) >= 7
        store.create(NewKey(name=f"after {who}"))
    assert sorted(path.name for path in store.path.parent.iterdir()) == ["keys.json", "keys.json.lock"]
