"""The kill test of imports: it kills, and it would see a torn store."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from retrieval.gateway.store.open import STORE_NAME
from scripts import crash_import
from scripts.make_ncbi_sample import write_sample
from scripts.samples.world import World


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ncbi")
    write_sample(folder, World(3, 100, 100, 100), lambda _: None)
    return folder


@pytest.mark.server
def test_kills_leave_whole_files_or_none(files: Path, tmp_path: Path) -> None:
    """A few kills, the script's own way; the documented figure is that of a thousand."""
    tally = crash_import.run(files, tmp_path, 5, 1)
    assert (tally.kills, tally.torn) == (5, 0)


@pytest.mark.parametrize(
    "harm",
    ["DELETE FROM pubmed WHERE uid = (SELECT max(uid) FROM pubmed)", "DELETE FROM imported WHERE kind = 'clinvar'"],
)
def test_half_a_file_is_seen(files: Path, tmp_path: Path, harm: str) -> None:
    """Rows without their import, or an import without all of its rows."""
    whole, _ = crash_import.undisturbed(files, tmp_path)
    assert crash_import.is_sound(tmp_path, whole)
    with sqlite3.connect(tmp_path / STORE_NAME) as store:
        store.execute(harm)
    store.close()
    assert not crash_import.is_sound(tmp_path, whole)
