"""Errors of documents and namespaces.

CorpusError
├── NamespaceInvalid      a name or a setting that cannot be; ``param`` names it
├── NamespaceUnknown      there is none of this name
├── NamespaceExists       there is one already
├── NamespaceBusy         another process changes it
├── NamespaceDamaged      its store cannot be read, or does not agree with its indices
├── DocumentUnreadable    a file is no document of its kind, or is cut, damaged or locked
└── DocumentTooLarge      reading it took more time or memory than it may
"""

from __future__ import annotations

from retrieval.errors import RetrievalError


class CorpusError(RetrievalError):
    """Anything wrong with documents or namespaces."""


class NamespaceInvalid(CorpusError):
    pass


class NamespaceUnknown(CorpusError):
    hint = "arrowhead namespace list shows what there is"


class NamespaceExists(CorpusError):
    hint = "choose another name, or add to the one there is"


class NamespaceBusy(CorpusError):
    retryable = True
    hint = "wait until the other process is done"


class NamespaceDamaged(CorpusError):
    hint = "arrowhead namespace verify tells what is wrong; restore it from an export, or add its sources again"


class DocumentUnreadable(CorpusError):
    pass


class DocumentTooLarge(CorpusError):
    hint = "split the file, or raise the limits of corpus.* in the settings"
