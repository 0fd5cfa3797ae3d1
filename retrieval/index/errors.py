"""Errors of vector and lexical indices.

IndexFault
├── IndexInputInvalid     vectors, ids or columns that cannot be indexed; ``param`` names the one
├── IndexDamaged          a file is missing, cut or changed: its digest is not the manifest's
├── IndexMismatch         the index was made by another encoder, or is of another dimension, metric or schema
├── IndexWriteFailed      nothing could be written (disk full, no right); the old generation goes on serving
├── IndexBusy             another process writes to it
├── IndexOverloaded       as many searches as can wait for the device are waiting
├── IndexTooLarge         it would not fit the memory that it may take
└── BackendUnavailable    the library or the device of a back end is not there, or its probe failed
"""

from __future__ import annotations

from retrieval.errors import RetrievalError


class IndexFault(RetrievalError):
    """Anything that keeps an index from being read, searched or written."""


class IndexInputInvalid(IndexFault):
    pass


class IndexDamaged(IndexFault):
    hint = "restore the folder from a copy, or build the index again from its namespace: arrowhead index rebuild"


class IndexMismatch(IndexFault):
    hint = "use the encoder that the index was made with, or build it again: arrowhead index rebuild"


class IndexWriteFailed(IndexFault):
    retryable = True
    hint = "free disk space or mend the folder's rights, then run the same command again"


class IndexBusy(IndexFault):
    retryable = True
    hint = "wait until the other process is done"


class IndexOverloaded(IndexFault):
    retryable = True
    hint = "try again later"


class IndexTooLarge(IndexFault):
    hint = "choose a smaller index type, or raise the memory that it may take"


class BackendUnavailable(IndexFault):
    hint = "install faiss-cpu or faiss-gpu, or choose another back end: arrowhead doctor shows what works here"
