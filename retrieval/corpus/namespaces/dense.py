"""Open the vectors of a namespace and their encoder, one pair for each encoder that it has."""

from __future__ import annotations

import hashlib
import json
import threading
from pathlib import Path
from typing import Final

from models.encoders.base import Encoder
from retrieval.corpus.errors import NamespaceDamaged
from retrieval.corpus.namespaces.settings import VECTORS, Backends
from retrieval.corpus.store.base import PassageStore, PassageWriter, Target
from retrieval.index.base import VectorIndex
from retrieval.index.errors import IndexMismatch

_FURTHER: Final = f"{VECTORS}-"


class DenseIndex:
    """Hold one encoder of a namespace and the index of its vectors, both opened on first use.

    Thread-safe.
    """

    def __init__(
        self, place: tuple[Path, Target, str], store: PassageStore, backends: Backends, *, write: bool
    ) -> None:
        """``place``: the namespace's folder, the index's name in the journal, and the encoder's id."""
        folder, self.target, self.encoder_id = place
        self.folder = folder / folder_name(self.target)
        self._store = store
        self._backends = backends
        self._write = write
        self._lock = threading.RLock()
        self._encoder: Encoder | None = None
        self._vectors: VectorIndex | None = None

    @property
    def encoder(self) -> Encoder:
        """Return the encoder.

        Raises:
            IndexMismatch: the stored vectors are of another encoder.
        """
        with self._lock:
            if self._encoder is None:
                encoder = self._backends.encoders(self.encoder_id)
                known = self._store.meta(fingerprint_key(self.target))
                if known and known != fingerprint_text(encoder):
                    place = f"{self.folder.parent.name}/{self.folder.name}"
                    raise IndexMismatch(f"the vectors of {place} are of another encoder than {encoder.name}")
                self._encoder = encoder
            return self._encoder

    @property
    def known_as(self) -> str:
        """Return the name of the encoder that made the stored vectors, whatever path it was loaded from."""
        known = self._store.meta(fingerprint_key(self.target))
        return str(json.loads(known)["encoder_id"]) if known else self.encoder_id

    @property
    def vectors(self) -> VectorIndex:
        """Return the index.

        Raises:
            NamespaceDamaged: it does not exist yet, so it cannot be read.
        """
        with self._lock:
            if self._vectors is None:
                if not self._write and not has_files(self.folder):
                    raise NamespaceDamaged(f"the index of {self.target} of {self.folder.parent.name} is not made yet")
                self._vectors = self._backends.vectors(self.folder, self.encoder, self._write)
            return self._vectors

    def note_encoder(self, writer: PassageWriter) -> None:
        """Record the fingerprint of the encoder, unless one is recorded already."""
        if not self._store.meta(fingerprint_key(self.target)):
            with writer.transaction():
                writer.set_meta(fingerprint_key(self.target), fingerprint_text(self.encoder))

    def close(self) -> None:
        with self._lock:
            if self._vectors is not None:
                self._vectors.close()
            self._vectors = None


def folder_name(target: Target) -> str:
    """Return the name of an index's folder; an encoder's id can be a path, so of further ones it has a digest."""
    _, further, encoder_id = target.partition(":")
    return f"{_FURTHER}{hashlib.sha256(encoder_id.encode()).hexdigest()[:16]}" if further else target


def further_folders(folder: Path) -> list[Path]:
    """Return the folders of the vectors of further encoders below a namespace's folder, listed in it or not."""
    return sorted(path for path in folder.glob(f"{_FURTHER}*") if path.is_dir())


def fingerprint_key(target: Target) -> str:
    """Return the key under which the store has the fingerprint of the encoder of vectors."""
    _, further, encoder_id = target.partition(":")
    return f"fingerprint:{encoder_id}" if further else "fingerprint"


def fingerprint_text(encoder: Encoder) -> str:
    return json.dumps(encoder.fingerprint.as_dict(), sort_keys=True)


def has_files(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())
