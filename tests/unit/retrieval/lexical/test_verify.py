"""What searches do not notice, a look at every byte does."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from retrieval.errors import IndexDamaged
from retrieval.lexical.tantivy_index import TantivyIndex, open_tantivy
from retrieval.passages import Passage

WORDS = ["asthma", "eczema", "psoriasis", "interleukin", "IL-6", "TNF-α", "mice", "cells", "trial"]


def passages(count: int) -> list[Passage]:
    texts = [" ".join(WORDS[number % place] for place in range(1, 10)) for number in range(count)]
    return [Passage(passage_id=number + 1, document_id="d", title="", text=text) for number, text in enumerate(texts)]


@pytest.fixture
def made(tmp_path: Path) -> Path:
    index = open_tantivy(tmp_path / "index")
    index.add(passages(300))
    index.commit()
    index.delete([5, 6, 7])
    index.commit()
    index.verify()
    index.close()
    return tmp_path / "index"


@pytest.mark.parametrize("suffix", ["term", "idx", "pos", "fieldnorm", "fast", "store", "del", "json"])
@pytest.mark.parametrize("harm", ["cut", "half", "changed", "missing"])
def test_no_damage_to_a_tantivy_file_goes_unnoticed(made: Path, suffix: str, harm: str) -> None:
    """Each file is told at opening, searching or verifying, always as damage and never as another error."""
    for number, path in enumerate(made.glob(f"[!.]*.{suffix}")):
        folder = made.parent / f"harmed-{number}"
        shutil.copytree(made, folder)
        content = path.read_bytes()
        if harm == "missing":
            (folder / path.name).unlink()
        else:
            half = len(content) // 2
            changed = content[:half] + bytes([content[half] ^ 0xFF]) + content[half + 1 :]
            # The last byte of the JSON files is a line's end.
            kept = {"cut": content[:-3], "half": content[:half], "changed": changed}[harm]
            (folder / path.name).write_bytes(kept)
        index: TantivyIndex | None = None
        with pytest.raises(IndexDamaged):
            index = open_tantivy(folder)
            with contextlib.suppress(IndexDamaged):
                index.search("asthma il6 mice cells", 400)
            index.verify()
        if index is not None:
            index.close()


def test_files_of_a_killed_writer_are_no_damage(made: Path) -> None:
    """Nobody reads them."""
    (made / "0123456789abcdef0123456789abcdef.term").write_bytes(b"half writ")
    index = open_tantivy(made)
    index.verify()
    index.close()


@pytest.mark.server
@pytest.mark.parametrize("seed", range(4))
def test_no_damage_ends_the_process(made: Path, tmp_path: Path, seed: int) -> None:
    """Bytes changed, lost, added or exchanged at random places of any file: an error, or an index that works."""
    root = Path(__file__).parents[4]
    command = [sys.executable, str(root / "tests/data/words_child.py"), str(made), str(tmp_path), str(seed), "100"]
    ended = subprocess.run(command, env={"PYTHONPATH": str(root)}, capture_output=True, text=True, timeout=300)
    told = ended.stdout.splitlines()

    assert (ended.returncode, len(told)) == (0, 200), f"{told[-1:]} {ended.stderr[-500:]}"
    assert [line for line in told if "FAILED" in line] == []
    assert sum("IndexDamaged" in line for line in told) > 50
