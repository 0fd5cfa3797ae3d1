"""Keep the original PDFs of a namespace, so that their pages can be shown.

They stand in ``NAME/originals/`` beside the indices, each under the digest of its content, readable by their owner
alone. They cannot be rebuilt from the store, and exports do not have them: adding the file again brings one back.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Final

from retrieval.corpus.store.base import FILE_ID
from retrieval.errors import DocumentUnreadable, NamespaceDamaged
from retrieval.storage.files import Disk, digest_file, make_folder, sync

FOLDER: Final = "originals"
_SUFFIX: Final = ".pdf"
_BLOCK: Final = 1 << 20
_ID: Final = re.compile(rf"{FILE_ID}([0-9a-f]{{64}})")


class Originals:
    """Manage the original files of one namespace; changes require its lock."""

    def __init__(self, namespace_folder: Path, disk: Disk | None = None) -> None:
        self._folder = namespace_folder / FOLDER
        self._disk = disk or Disk()

    def path(self, document_id: str) -> Path | None:
        """Return where a document's file is, or None where there is none."""
        found = _ID.fullmatch(document_id)
        path = self._folder / f"{found[1]}{_SUFFIX}" if found else None
        return path if path is not None and path.is_file() else None

    def keep(self, source: Path, digest: str) -> None:
        """Copy a file, which has this SHA-256, unless it is here already; a kill leaves it whole or absent.

        Raises:
            DocumentUnreadable: the file changed since its digest was taken, or cannot be read.
            NamespaceDamaged: the copy cannot be written.
        """
        target = self._folder / f"{digest}{_SUFFIX}"
        if target.is_file():
            return
        with self._replacing(target) as draft:
            with source.open("rb") as file:
                written = self._disk.write(draft, lambda put: _copy(file.read, put))
            if written.sha256 != digest:
                raise DocumentUnreadable(f"{source}: it changed while it was read; add it again")

    @contextlib.contextmanager
    def _replacing(self, target: Path) -> Iterator[Path]:
        """Give the path of a draft that becomes ``target`` at the end of the block, unless the block fails."""
        draft = self._folder / f"{target.name.split('.')[0]}.tmp"
        try:
            make_folder(self._folder)
            draft.unlink(missing_ok=True)
            yield draft
            draft.rename(target)
            sync(self._folder)
        except OSError as error:
            raise NamespaceDamaged(f"{target}: cannot be written: {error.strerror}") from error
        finally:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)

    def faults(self) -> Iterator[str]:
        """Yield a sentence for each file that is not what was written."""
        for path in sorted(self._folder.iterdir()) if self._folder.is_dir() else ():
            try:
                if path.name.endswith(_SUFFIX) and digest_file(path).sha256 != path.name.removesuffix(_SUFFIX):
                    yield f"{path.name} is not what was added; add the file again"
            except OSError as error:
                yield f"{path.name} cannot be read: {error}"

    def prune(self, known: Callable[[list[str]], Collection[str]]) -> None:
        """Remove the files of documents that ``known`` does not return, and what a killed process left."""
        if not self._folder.is_dir():
            return
        paths = [(f"{FILE_ID}{path.name.split('.')[0]}", path) for path in self._folder.iterdir()]
        kept = known([document_id for document_id, _ in paths])
        for document_id, path in paths:
            if document_id not in kept or not path.name.endswith(_SUFFIX):
                with contextlib.suppress(OSError):
                    path.unlink()


def _copy(read: Callable[[int], bytes], put: Callable[[bytes], int]) -> None:
    while block := read(_BLOCK):
        put(block)
