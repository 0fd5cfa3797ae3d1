"""Define the errors of vector and lexical indices.

IndexFault
├── IndexInputInvalid     vectors, ids or columns that cannot be indexed; ``param`` names the invalid one
├── IndexDamaged          a file is missing, truncated or changed: its digest differs from the manifest's
├── IndexMismatch         the index has another encoder, dimension, metric or schema
├── IndexWriteFailed      a write failed (disk full, no permission); the previous generation stays in service
├── IndexBusy             another process writes to the index
├── IndexOverloaded       the queue of searches for the device is full
├── IndexTooLarge         the index would exceed its memory limit
└── BackendUnavailable    the library or device of a back end is missing, or its probe search failed
"""

from __future__ import annotations

from retrieval.errors import RetrievalError


class IndexFault(RetrievalError):
    """Report that an index cannot be read, searched or written."""


class IndexInputInvalid(IndexFault):
    """Report that vectors, ids, columns or arguments are invalid."""


class IndexDamaged(IndexFault):
    """Report that a file is missing, truncated or changed."""

    hint = "restore the folder from a copy, or build the index again from its namespace: arrowhead index rebuild"


class IndexMismatch(IndexFault):
    """Report that the index has another encoder, dimension, metric or schema."""

    hint = "use the encoder that the index was made with, or build it again: arrowhead index rebuild"


class IndexWriteFailed(IndexFault):
    """Report that a write failed; the previous generation stays in service."""

    retryable = True
    hint = "free disk space or mend the folder's rights, then run the same command again"


class IndexBusy(IndexFault):
    """Report that another process writes to the index."""

    retryable = True
    hint = "wait until the other process is done"


class IndexOverloaded(IndexFault):
    """Report that the search queue is full."""

    retryable = True
    hint = "try again later"


class IndexTooLarge(IndexFault):
    """Report that the index would exceed the available memory or disk space."""

    hint = "choose a smaller index type, or raise the memory that it may take"


class BackendUnavailable(IndexFault):
    """Report that a back end's library or device is missing, or that its probe search failed."""

    hint = "install faiss-cpu or faiss-gpu, or choose another back end: arrowhead doctor shows what works here"
