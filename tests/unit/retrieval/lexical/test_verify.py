"""What searches do not notice, a look at every byte does."""

from __future__ import annotations

import contextlib
import shutil
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
