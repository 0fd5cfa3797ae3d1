"""The file of traces stays within its bound, and one key's traces push out no other's."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from server.traces import FILE_NAME, TraceFile


def _lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / FILE_NAME).read_text().splitlines()]


def _trace(name: str, size: int = 100) -> str:
    return json.dumps({"id": name, "text": "x" * size})


def test_the_file_never_exceeds_its_bound(tmp_path: Path) -> None:
    """The newest traces are there, whole and in order; one that is too long alone is left out."""
    file, sizes = TraceFile(tmp_path / "new", 10_000), []
    for number in range(500):
        assert file.append("1a2b3c4d", _trace(str(number)))
        sizes.append((tmp_path / "new" / FILE_NAME).stat().st_size)
    assert not file.append("1a2b3c4d", _trace("long", 10_000))
    numbers = [int(line["id"]) for line in _lines(tmp_path / "new")]

    assert max(sizes) <= 10_000
    assert numbers == list(range(numbers[0], 500)) and len(numbers) > 20
    assert {line["key_id"] for line in _lines(tmp_path / "new")} == {"1a2b3c4d"}


def test_a_busy_key_pushes_out_its_own_traces(tmp_path: Path) -> None:
    """Those of a key that asks little stay, though they are older than all of the busy one's."""
    file = TraceFile(tmp_path, 10_000)
    for number in range(10):
        file.append("aaaaaaaa", _trace(f"quiet {number}"))
    for number in range(1000):
        file.append("bbbbbbbb", _trace(f"busy {number}"))
    found = [line["id"] for line in _lines(tmp_path)]

    assert found[:10] == [f"quiet {number}" for number in range(10)]
    assert found[-1] == "busy 999" and len(found) > 20


def test_two_busy_keys_share_the_file(tmp_path: Path) -> None:
    """Each keeps its newest, about as many as the other, and a server without keys is one of them."""
    file = TraceFile(tmp_path, 20_000)
    for number in range(300):
        file.append("", _trace(f"a {number}"))
        file.append("bbbbbbbb", _trace(f"b {number}", 400))
    held = {
        key: sum(len(json.dumps(line)) for line in _lines(tmp_path) if line["key_id"] == key)
        for key in ("", "bbbbbbbb")
    }

    assert min(held.values()) > 3000 and sum(held.values()) <= 20_000
    assert [line["id"] for line in _lines(tmp_path)][-2:] == ["a 299", "b 299"]


def test_torn_lines_are_counted(tmp_path: Path) -> None:
    """They have no key and go when their share is over."""
    (tmp_path / FILE_NAME).write_text('{"id": "torn\n' * 400)
    file = TraceFile(tmp_path, 6000)
    for number in range(100):
        file.append("bbbbbbbb", _trace(f"b {number}"))

    assert (tmp_path / FILE_NAME).stat().st_size <= 6000
    assert (tmp_path / FILE_NAME).read_text().splitlines()[-1].startswith('{"key_id": "bbbbbbbb", "id": "b 99"')


def test_concurrent_writers_lose_no_line(tmp_path: Path) -> None:
    """Two objects, as two processes have them, while the file is compacted again and again."""

    def write(key: str) -> None:
        file = TraceFile(tmp_path, 12_000)
        for number in range(200):
            file.append(key, _trace(str(number)))

    threads = [threading.Thread(target=write, args=(key,)) for key in ("aaaaaaaa", "bbbbbbbb")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for key in ("aaaaaaaa", "bbbbbbbb"):
        numbers = [int(line["id"]) for line in _lines(tmp_path) if line["key_id"] == key]
        assert numbers == list(range(numbers[0], 200)) and len(numbers) > 10
