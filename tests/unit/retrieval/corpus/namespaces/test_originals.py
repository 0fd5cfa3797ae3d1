"""The original files of a namespace."""

from __future__ import annotations

import errno
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from retrieval.corpus.namespaces.originals import Originals
from retrieval.errors import DocumentUnreadable, NamespaceDamaged
from retrieval.storage.files import Disk, FileDigest

DATA = b"%PDF-1.4 and more"
DIGEST = sha256(DATA).hexdigest()


class FullDisk(Disk):
    """A disk without room."""

    def write(self, path: Path, fill: Callable[[Callable[[bytes], int]], None]) -> FileDigest:
        path.write_bytes(b"%PDF")
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "paper.pdf"
    path.write_bytes(DATA)
    return path


def test_a_file_that_changed_meanwhile_is_not_kept(tmp_path: Path, source: Path) -> None:
    """Its pages would not be those of the passages."""
    with pytest.raises(DocumentUnreadable, match="changed"):
        Originals(tmp_path / "ns").keep(source, "0" * 64)
    assert list((tmp_path / "ns" / "originals").iterdir()) == []


def test_a_full_disk_is_named_and_leaves_no_part(tmp_path: Path, source: Path) -> None:
    """The draft goes with the error."""
    with pytest.raises(NamespaceDamaged, match="No space left"):
        Originals(tmp_path / "ns", FullDisk()).keep(source, DIGEST)
    assert list((tmp_path / "ns" / "originals").iterdir()) == []


def test_what_no_document_has_goes(tmp_path: Path, source: Path) -> None:
    """Drafts of killed processes, and files of documents that were removed."""
    originals = Originals(tmp_path / "ns")
    originals.keep(source, DIGEST)
    folder = tmp_path / "ns" / "originals"
    (folder / f"{'1' * 64}.tmp").write_bytes(b"part")
    (folder / f"{'2' * 64}.pdf").write_bytes(b"old")
    originals.prune(lambda ids: {one for one in ids if one == f"sha256:{DIGEST}"})
    assert [path.name for path in folder.iterdir()] == [f"{DIGEST}.pdf"]


@pytest.mark.parametrize("document_id", ["PMID:1", "sha256:../../etc/passwd", "sha256:" + "0" * 64, "sha256:", ""])
def test_only_ids_of_files_have_a_path(tmp_path: Path, document_id: str) -> None:
    """No id leads out of the folder."""
    assert Originals(tmp_path / "ns").path(document_id) is None
