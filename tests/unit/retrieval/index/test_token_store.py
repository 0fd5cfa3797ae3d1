"""Token vectors on the disk."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from models.encoders.hashing import HashingEncoder
from retrieval.errors import INDEX_MISMATCH, IndexDamaged, IndexFault
from retrieval.index.token_store import FILE, TokenStore

FINGERPRINT = HashingEncoder(dim=16).fingerprint
CODES = [np.arange(6, dtype=np.uint8).reshape(3, 2), np.zeros((0, 2), np.uint8)]


def test_what_was_committed_is_read(tmp_path: Path) -> None:
    """By an open reader, too; what was not is gone after a crash."""
    writer = TokenStore(tmp_path / "tokens", FINGERPRINT, write=True)
    reader = TokenStore(tmp_path / "tokens", FINGERPRINT, write=False)
    writer.put([5, 7], CODES)
    assert not reader.get([5, 7])
    writer.commit()
    assert reader.get([5])[5].tolist() == CODES[0].tolist()
    assert reader.get([7])[7].shape == (0, 2)
    assert reader.missing([5, 6, 7]) == [6]
    assert len(reader) == 2
    writer.delete([5])
    writer.close()
    assert len(TokenStore(tmp_path / "tokens", FINGERPRINT, write=True)) == 2
    with pytest.raises(IndexFault, match="opened for reading"):
        reader.put([1], CODES[:1])


def test_a_reader_meets_a_new_store_whole_or_not_at_all(tmp_path: Path) -> None:
    for number in range(40):
        folder = tmp_path / str(number)
        with ThreadPoolExecutor(1) as pool:
            made = pool.submit(TokenStore, folder, FINGERPRINT, write=True)
            while not (folder.exists() or made.done()):
                pass
            TokenStore(folder, FINGERPRINT, write=False).close()
            made.result().close()


def test_another_encoder_is_refused(tmp_path: Path) -> None:
    """Its codes mean other things."""
    TokenStore(tmp_path, FINGERPRINT, write=True).close()
    with pytest.raises(IndexFault, match="another encoder", check=INDEX_MISMATCH.is_of):
        TokenStore(tmp_path, replace(FINGERPRINT, revision="2"), write=False)


def test_damage_is_reported(tmp_path: Path) -> None:
    """A changed row, a file of other bytes, and no file."""
    store = TokenStore(tmp_path, FINGERPRINT, write=True)
    store.put([5], CODES[:1])
    store.commit()
    store.close()
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("UPDATE code SET data = x'ffff'")
    with pytest.raises(IndexDamaged, match="passage 5"):
        TokenStore(tmp_path, FINGERPRINT, write=False).get([5])
    (tmp_path / FILE).write_bytes(b"no database at all, but long enough to be one" * 40)
    for write in (False, True):
        with pytest.raises(IndexDamaged):
            TokenStore(tmp_path, FINGERPRINT, write=write)
    with pytest.raises(IndexDamaged):
        TokenStore(tmp_path / "none", FINGERPRINT, write=False)
