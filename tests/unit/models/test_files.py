"""Files of models: what is no JSON object, no room, and a lock that another one has, are told by name."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from models.errors import ModelNotFound
from models.files import check_room, first_line, locked, read_json, sha256_of, write_json


def test_what_is_no_object_is_refused_by_its_path(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    write_json(file, {"a": 1})
    assert read_json(file) == {"a": 1}
    for text in ("[1]", "{", "[" * 100_000):
        file.write_text(text)
        with pytest.raises(ModelNotFound, match=r"a\.json"):
            read_json(file)
    with pytest.raises(ModelNotFound, match=r"b\.json cannot be read"):
        read_json(tmp_path / "b.json")


def test_a_digest_is_that_of_the_whole_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x" * 300_000)
    assert sha256_of(tmp_path / "a") == hashlib.sha256(b"x" * 300_000).hexdigest()


def test_a_folder_without_room_is_named_with_the_remedy(tmp_path: Path) -> None:
    check_room(tmp_path, 1, "m")
    with pytest.raises(ModelNotFound, match=r"and m needs 1000000000\.0 GB; make room"):
        check_room(tmp_path, 10**18, "m", "; make room")


def test_a_lock_is_waited_for_and_then_given_up(tmp_path: Path) -> None:
    path = tmp_path / "l"
    with (
        pytest.raises(ModelNotFound, match="another process is fetching m"),
        locked(path, 0.0, "fetching m"),
        locked(path, 0.3, "fetching m"),
    ):
        pass
    with locked(path, 0.0, "fetching m"):
        pass


def test_an_error_without_words_has_its_type() -> None:
    assert first_line(ValueError("one\ntwo")) == "one"
    assert first_line(ValueError()) == "ValueError"
