"""Define the errors of documents and namespaces.

CorpusError
├── NamespaceInvalid      an invalid name or setting; ``param`` names it
├── NamespaceUnknown      no namespace has this name
├── NamespaceExists       a namespace of this name exists already
├── NamespaceBusy         another process changes it
├── NamespaceDamaged      its store cannot be read, or does not agree with its indices
├── DocumentUnknown       a namespace has no document, or no page of one, by this id or name
├── DocumentUnreadable    a file is not a document of its kind, or is truncated, damaged or locked
└── DocumentTooLarge      reading it exceeds the limit of time or memory
"""

from __future__ import annotations

from retrieval.errors import RetrievalError


class CorpusError(RetrievalError):
    """Report any fault of documents or namespaces."""


class NamespaceInvalid(CorpusError):
    """Report an invalid name or setting; ``param`` names it."""


class NamespaceUnknown(CorpusError):
    """Report that no namespace has this name."""

    hint = "arrowhead namespace list shows what there is"


class NamespaceExists(CorpusError):
    """Report that a namespace of this name exists already."""

    hint = "choose another name, or add to the one there is"


class NamespaceBusy(CorpusError):
    """Report that another process changes the namespace."""

    retryable = True
    hint = "wait until the other process is done"


class NamespaceDamaged(CorpusError):
    """Report a store that cannot be read or does not agree with its indices."""

    hint = "arrowhead namespace verify tells what is wrong; restore it from an export, or add its sources again"


class DocumentUnknown(CorpusError):
    """Report that a namespace has no document, or no page of one, by this id or name."""

    hint = "arrowhead namespace documents lists what it has"


class DocumentUnreadable(CorpusError):
    """Report a file that is not a document of its kind, or is truncated, damaged or locked."""


class DocumentTooLarge(CorpusError):
    """Report a document whose reading exceeds its limit of time or memory."""

    hint = "split the file, or raise retrieval.file_timeout_s or retrieval.file_memory_mib in the settings"
