"""Open one encoder of a namespace with the index of its vectors, and name what belongs to them on the disk."""

from __future__ import annotations

import hashlib
import json
import threading
from pathlib import Path
from typing import Final

from models.encoders.base import Encoder, lacks_tokens
from retrieval.corpus.namespaces.settings import VECTORS, Backends
from retrieval.corpus.store.base import PassageStore, PassageWriter, Target
from retrieval.errors import INDEX_MISMATCH, IndexFault, NamespaceDamaged, NamespaceInvalid
from retrieval.index.base import VectorIndex

FURTHER: Final = f"{VECTORS}-"


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
            IndexFault: the stored vectors are of another encoder.
        """
        with self._lock:
            if self._encoder is None:
                encoder = self._backends.encoders(self.encoder_id)
                known = self._store.meta(fingerprint_key(self.target))
                if known and known != fingerprint_text(encoder):
                    place = f"{self.folder.parent.name}/{self.folder.name}"
                    raise IndexFault(
                        f"the vectors of {place} are of another encoder than {encoder.name}", INDEX_MISMATCH
                    )
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
                if not self._write and not self._backends.storage.exists(self.folder):
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
    return f"{FURTHER}{hashlib.sha256(encoder_id.encode()).hexdigest()[:16]}" if further else target


def fingerprint_key(target: Target) -> str:
    """Return the key under which the store has the fingerprint of the encoder of vectors."""
    _, further, encoder_id = target.partition(":")
    return f"fingerprint:{encoder_id}" if further else "fingerprint"


def require_tokens(namespace: str, encoder: Encoder) -> None:
    """Check that an encoder gives the token vectors that a namespace stores.

    Passages without them would be ordered after all others by late interaction.

    Raises:
        NamespaceInvalid: it is remote and does not give them.
    """
    if lacks_tokens(encoder):
        raise NamespaceInvalid(
            f"namespace {namespace} stores token vectors, and {encoder.name} runs at a server that gives none: change "
            "it where the encoder runs in the process (without retrieval.encoder_urls), or create the namespace "
            "without token vectors (--no-tokens)",
            param="tokens",
        )


def fingerprint_text(encoder: Encoder) -> str:
    return json.dumps(encoder.fingerprint.as_dict(), sort_keys=True)


def is_dense(target: Target) -> bool:
    """Return whether an index is one of vectors."""
    return target.partition(":")[0] == VECTORS
