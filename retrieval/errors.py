"""Define the errors of the retrieval layer; clients of the gateway see NCBI's own error bodies instead.

RetrievalError
├── DatabaseUnavailable          the database of shared passages does not answer, or refuses
├── ImportFileError              a file to import is unreadable, damaged or of another kind
├── CorpusError                  documents and namespaces
│   ├── NamespaceInvalid         an invalid name or setting; ``param`` names it
│   ├── NamespaceUnknown         no namespace has this name
│   ├── NamespaceExists          a namespace of this name exists already
│   ├── NamespaceBusy            another process changes it
│   ├── NamespaceDamaged         its store cannot be read, or does not agree with its indices
│   ├── DocumentUnknown          a namespace has no document, or no page of one, by this id or name
│   ├── DocumentUnreadable       a file is not a document of its kind, or is truncated, damaged or locked
│   └── DocumentTooLarge         reading it exceeds the limit of time or memory
├── IndexFault                   a vector or lexical index
│   ├── IndexInputInvalid        vectors, ids or columns that cannot be indexed; ``param`` names the invalid one
│   ├── IndexDamaged             a file is missing, truncated or changed: its digest differs from the manifest's
│   ├── IndexMismatch            the index has another encoder, dimension, metric or schema
│   ├── IndexWriteFailed         a write failed (disk full, no permission); the previous generation stays in service
│   ├── IndexBusy                another process writes to the index
│   ├── IndexOverloaded          the queue of searches for the device is full
│   ├── IndexTooLarge            the index would exceed its memory limit
│   └── BackendUnavailable       the library or device of a back end is missing, or its probe search failed
├── GraphError                   the knowledge graph
│   ├── GraphNodeUnknown         the graph has no node of this name or id
│   ├── GraphSourceUnavailable   the graph's server does not answer, or not in time
│   ├── GraphSourceMalformed     the server's reply is not a graph
│   ├── GraphFileInvalid         a file to import is truncated, damaged or of another form; file and line are named
│   ├── GraphDamaged             the store is incomplete, or not of this encoder
│   └── GraphBusy                another process is building the graph
├── GatewayError                 the gateway cannot start or work on its data
│   ├── GatewayDataError         a sample file or the store is unreadable, damaged or incomplete
│   │   └── BlastDatabaseError   a BLAST database cannot be built, or is incomplete
│   ├── GatewayBusyError         another import is running on the store
│   ├── GatewayBindError         a non-loopback address without explicit permission
│   └── GatewayPortError         the address and port cannot be bound
└── NcbiError                    all have ``url`` (without key and e-mail), ``attempts`` and ``route``
    ├── CallRejected             the call table does not allow the call; ``param`` names the part
    ├── NcbiRefusedByEgress      the egress mode does not allow it
    ├── NcbiThrottled            429 or "rate limit exceeded", retries exhausted
    ├── NcbiUnavailable          5xx, connection refused, reset, name resolution
    │   ├── NcbiBlocked          a page for people (CAPTCHA, blocked address) in place of data; not tried again
    │   └── EgressServiceUnavailable   the institution's egress service took no call; nothing was sent to NCBI
    ├── NcbiTimeout              no (complete) reply in time
    ├── NcbiTooLarge             reply over the size limit
    ├── NcbiMalformed            not in the requested format (truncated JSON, an HTML error page)
    ├── NcbiReplyError           NCBI's own error text in a 200 or 400 body
    └── BlastFailed              RID unknown, search failed or expired
"""

from __future__ import annotations

from pathlib import Path

from models.errors import ArrowheadError
from retrieval.types import Route


class RetrievalError(ArrowheadError):
    """Report a failure to find evidence."""


class DatabaseUnavailable(RetrievalError):
    """Report that the database of shared passages does not answer, or refuses; the message never has its address."""

    retryable = True
    hint = "start the database that state.url names; the log has the kind of its error"


class NcbiError(RetrievalError):
    """Report a failed NCBI call; ``url`` has no API key and no e-mail address."""

    def __init__(self, message: str, *, param: str | None = None, url: str = "", attempts: int = 0) -> None:
        super().__init__(message, param=param)
        self.url = url
        self.attempts = attempts
        self.route: Route | None = None


class CallRejected(NcbiError):
    """Report a call that the call table does not allow; ``param`` names the part."""

    hint = "only E-utilities and BLAST calls of the call table can be made"


class NcbiRefusedByEgress(NcbiError):
    """Report a call that the egress mode does not allow."""

    hint = "egress.mode and egress.allow of the server, and arrowhead.egress of the request, decide what may leave"


class NcbiThrottled(NcbiError):
    """Report that NCBI's rate limit outlasted all retries."""

    retryable = True
    hint = "set ncbi.api_key for 10 requests per second"


class NcbiUnavailable(NcbiError):
    """Report a 5xx reply, a refused or reset connection, or failed name resolution."""

    retryable = True


class NcbiBlocked(NcbiUnavailable):
    """Report that NCBI shows this address a page for people (a CAPTCHA, a notice of misuse), which no retry mends."""

    retryable = False
    hint = "set ncbi.email and ncbi.api_key, and write to NCBI, which blocks addresses of scripts that it cannot reach"


class EgressServiceUnavailable(NcbiUnavailable):
    """Report that the institution's egress service took no call, so that nothing was sent to NCBI for it."""

    hint = "egress.service_url names the service; `arrowhead egress serve` runs it"


class NcbiTimeout(NcbiError):
    """Report that no complete reply arrived in time."""

    retryable = True


class NcbiTooLarge(NcbiError):
    """Report a reply over the size limit."""

    hint = "ask for fewer records (retmax)"


class NcbiMalformed(NcbiError):
    """Report a reply that is not in the requested format."""

    retryable = True


class NcbiReplyError(NcbiError):
    """Report an error message that NCBI sent in a 200 or 400 body."""


class BlastFailed(NcbiError):
    """Report a BLAST search that failed, expired or has an unknown RID."""


class ImportFileError(RetrievalError):
    """Signal that a file to import cannot be read, is truncated or damaged, or is of another kind.

    ``line`` is 1-based, ``offset`` counts bytes of the file on disk; None where unknown.
    """

    hint = "check that the download is complete, and that it is the file whose kind was named"

    def __init__(self, path: Path, reason: str, *, line: int | None = None, offset: int | None = None) -> None:
        place = f" line {line}:" if line is not None else f" byte {offset}:" if offset is not None else ""
        super().__init__(f"{path}:{place} {reason}")
        self.path = path
        self.reason = reason
        self.line = line
        self.offset = offset


class GatewayError(RetrievalError):
    """Signal a failure that keeps the gateway from starting."""


class GatewayDataError(GatewayError):
    """Signal that a sample file or the store is unreadable, damaged or incomplete."""

    hint = "a sample's store is built again when its file is deleted; a site's comes back by importing its files again"


class GatewayBusyError(GatewayError):
    """Signal that another import is running on the store."""

    hint = "wait until the other import is done"


class BlastDatabaseError(GatewayDataError):
    """Signal that a BLAST database cannot be built, or is incomplete."""

    hint = "make the database again from its FASTA files, or take its folder away"


class GatewayBindError(GatewayError):
    """Signal a non-loopback address without explicit permission."""

    hint = "bind 127.0.0.1, or allow remote clients explicitly"


class GatewayPortError(GatewayError):
    """Signal that the address and port cannot be bound."""

    hint = "choose another port"


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


class GraphError(RetrievalError):
    """Report any fault of the knowledge graph."""


class GraphNodeUnknown(GraphError):
    """Report that the graph has no node of this name or id."""


class GraphSourceUnavailable(GraphError):
    """Report that the graph's server does not answer, or not in time."""

    retryable = True


class GraphSourceMalformed(GraphError):
    """Report that the server's reply is not a graph."""


class GraphFileInvalid(GraphError):
    """Report that a file to import is truncated, damaged or of another form."""


class GraphDamaged(GraphError):
    """Report that a stored graph is incomplete, or not of this encoder."""

    hint = "arrowhead graph verify tells what is wrong; import the graph's files again"


class GraphBusy(GraphError):
    """Report that another process is building the graph."""

    retryable = True
    hint = "wait until the other import is done"
