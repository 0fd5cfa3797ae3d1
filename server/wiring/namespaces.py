"""Open the namespaces of a data folder by the settings, with the back ends of their indices.

What opens an index is imported when the first one is opened: commands that only read a namespace's counts need not wait
for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from models.encoders.base import Encoder
from retrieval.corpus.namespaces.namespace import TOKENS
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import Backends
from retrieval.corpus.store.base import Target
from retrieval.corpus.store.sqlite_stores import SqlitePassageStores
from retrieval.errors import NamespaceInvalid
from retrieval.index.base import VectorIndex
from retrieval.index.spec import GIB, BackendName, IndexSpec
from retrieval.index.token_store import verify_files as verify_tokens
from retrieval.lexical.base import LexicalIndex
from retrieval.lexical.tantivy_files import IntactFiles
from retrieval.lexical.tantivy_files import verify_files as verify_words
from server.settings.retrieval import RetrievalSettings

if TYPE_CHECKING:
    from retrieval.index.backends.card import Card
    from retrieval.index.segments.snapshot import IndexSnapshot
    from retrieval.storage.database import SharedDatabase

_DRIVER: Final = Path("/proc/driver/nvidia/version")


def build_namespaces(
    settings: RetrievalSettings,
    data_dir: Path,
    encoder: Callable[[str], Encoder],
    database: SharedDatabase | None = None,
    card: Card | None = None,
) -> Namespaces:
    """Return the namespaces of ``data_dir``, or of ``database`` where there is one; ``encoder`` loads one by its id.

    ``card`` is where vectors are searched, None for the one that the settings name, if any.
    """
    opener = _VectorOpener(backend_name(settings), search_device(settings), card or vector_card(settings))
    backends = Backends(
        stores=SqlitePassageStores,
        encoders=encoder,
        vectors=opener.vectors,
        words=_WordsOpener().words,
        vector_rows=_vector_rows,
        vector_recall=_vector_recall,
        check_files=_check_files,
    )
    if database is None:
        return Namespaces(data_dir, backends)
    from server.wiring.shared_passages import SharedBackends, shared_root

    root = shared_root(data_dir)
    return Namespaces(root, SharedBackends(root, database, backends).backends())


def backend_name(settings: RetrievalSettings) -> BackendName:
    """Return the vector back end; ``auto`` is torch on a GPU that the encoders may use, else faiss on the CPU."""
    if settings.backend != "auto":
        return settings.backend
    return "torch" if uses_card(settings) else "faiss"


def search_device(settings: RetrievalSettings) -> str:
    """Return the device on which vectors are searched."""
    return "cpu" if backend_name(settings) == "faiss" else settings.device.replace("auto", "cuda")


# Of the card, for one search of vectors.
SCRATCH_BYTES: Final = GIB


def vector_card(settings: RetrievalSettings) -> Card | None:
    """Return the GPU on which vectors are searched, not opened yet; None where the processor searches them."""
    backend, device = backend_name(settings), search_device(settings)
    if backend != "faiss-gpu" and not device.startswith("cuda"):
        return None
    from retrieval.index.backends.card import Card
    from retrieval.index.backends.faiss_cpu import FaissCpuBackend
    from retrieval.index.open import backend_of
    from retrieval.index.segments.manifest import OpenOptions

    options = OpenOptions(device=device, scratch_bytes=SCRATCH_BYTES)
    measured = device if device.startswith("cuda") else "cuda:0"
    return Card(
        lambda: backend_of(backend, options), FaissCpuBackend(), lambda: _free_memory(measured), keep=SCRATCH_BYTES
    )


def _free_memory(device: str) -> int:
    from models.torch_runtime.devices import free_memory

    return free_memory(device)


def uses_card(settings: RetrievalSettings) -> bool:
    """Return whether encoders, and with them indices, run on a GPU."""
    return is_on_card(settings.device)


def is_on_card(device: str) -> bool:
    """Return whether a device is a GPU; looks for the driver, as importing torch would take seconds."""
    return device.startswith("cuda") or (device == "auto" and _DRIVER.exists())


class _VectorOpener:
    """Open vector indices for namespaces, and reuse what was read and checked before.

    When a folder has changed, its earlier segments are not read again, since segments are immutable.
    """

    def __init__(self, backend: BackendName, device: str, card: Card | None) -> None:
        self._backend = backend
        self._device = device
        self._card = card
        self._known: dict[Path, IndexSnapshot] = {}
        self._lock = threading.Lock()

    def vectors(self, folder: Path, encoder: Encoder, write: bool) -> VectorIndex:
        from retrieval.index.open import create_index, open_index
        from retrieval.index.segments.manifest import OpenOptions
        from retrieval.index.segments.storage import Storage

        # A writer needs no GPU: every back end opens what it writes.
        backend: BackendName = "faiss" if write else self._backend
        options = OpenOptions(
            write=write, device="cpu" if write else self._device, backend=None if write else self._card
        )
        spec = IndexSpec(dim=encoder.dim, metric=encoder.metric, encoder=encoder.fingerprint.as_dict(), backend=backend)
        # A killed process may have left the folders of an incomplete index.
        if write and not Storage(folder, options.disk).exists():
            return create_index(folder, spec, options)
        if backend != self._backend:
            return open_index(folder, spec, options)
        with self._lock:
            # An open index of a deleted folder would keep its files on the disk.
            self._known = {place: view for place, view in self._known.items() if place.exists()}
            known = self._known.get(folder)
        index = open_index(folder, spec, options, known)
        with self._lock:
            self._known[folder] = index.view
        return index


class _WordsOpener:
    """Open indices of words, and read no file a second time to check it."""

    def __init__(self) -> None:
        self._intact = IntactFiles()

    def words(self, folder: Path, name: str, _: bool) -> LexicalIndex:
        if name == "tantivy":
            from retrieval.lexical.tantivy_index import open_tantivy

            return open_tantivy(folder, intact=self._intact)
        raise NamespaceInvalid(f"there is no lexical back end {name!r}: tantivy or none", param="words")


def _vector_rows(folder: Path) -> int:
    from retrieval.index.open import committed_rows

    return committed_rows(folder)


def _vector_recall(folder: Path) -> float | None:
    from retrieval.index.open import committed_recall

    return committed_recall(folder)


def _check_files(folder: Path, target: Target) -> None:
    if target == "words":
        return verify_words(folder)
    if target == TOKENS:
        return verify_tokens(folder)
    from retrieval.index.open import verify_files as verify_vectors

    return verify_vectors(folder)
