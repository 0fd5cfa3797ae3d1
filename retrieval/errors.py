"""Define the errors of the retrieval layer; clients of the gateway see NCBI's own error bodies instead."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from models.errors import ArrowheadError, Fault
from retrieval.types import Route

_LATER: Final = "wait until the other process is done"

NAMESPACE_EXISTS: Final = Fault(409, "namespace_exists", "choose another name, or add to the one there is")
# Reading a document exceeds its limit of time or memory.
DOCUMENT_TOO_LARGE: Final = Fault(
    413,
    "document_too_large",
    "split the file, or raise retrieval.file_timeout_s or retrieval.file_memory_mib in the settings",
)

INDEX_INPUT_INVALID: Final = Fault(422, "invalid_vectors")
# The index has another encoder, dimension, metric or schema.
INDEX_MISMATCH: Final = Fault(
    500, "index_mismatch", "use the encoder that the index was made with, or build it again: arrowhead index rebuild"
)
# The previous generation stays in service.
INDEX_NOT_WRITTEN: Final = Fault(
    507,
    "index_not_written",
    "free disk space or mend the folder's rights, then run the same command again",
    retryable=True,
)
INDEX_BUSY: Final = Fault(409, "index_busy", _LATER, retryable=True)
INDEX_FULL: Final = Fault(429, "queue_full", "try again later", retryable=True)
INDEX_TOO_LARGE: Final = Fault(
    507, "index_too_large", "choose a smaller index type, or raise the memory that it may take"
)
# The library or device of a back end is missing, or its probe search failed.
BACKEND_UNAVAILABLE: Final = Fault(
    503,
    "index_backend_missing",
    "install faiss-cpu or faiss-gpu, or choose another back end: arrowhead doctor shows what works here",
)

GRAPH_NODE_UNKNOWN: Final = Fault(500, "retrieval_error")
GRAPH_SOURCE_UNAVAILABLE: Final = Fault(500, "retrieval_error", retryable=True)
# A file to import is truncated, damaged or of another form, or a server's reply is not a graph.
GRAPH_INVALID: Final = Fault(500, "retrieval_error")
# A stored graph is incomplete, or not of this encoder.
GRAPH_DAMAGED: Final = Fault(
    500, "retrieval_error", "arrowhead graph verify tells what is wrong; import the graph's files again"
)
GRAPH_BUSY: Final = Fault(500, "retrieval_error", _LATER, retryable=True)

STATE_UNAVAILABLE: Final = Fault(
    503, "state_unavailable", "state.url names the database; repeat the request when it is back"
)
RECORDS_UNREADABLE: Final = Fault(
    503, "state_unavailable", "free disk space, mend the file's rights, or put it back from a backup", retryable=True
)
# A namespace has no document, or no page of one, by this id or name.
DOCUMENT_UNKNOWN: Final = Fault(404, "document_not_found", "arrowhead namespace documents lists what it has")

# The call table does not allow the call; ``param`` names the part.
CALL_REJECTED: Final = Fault(
    502, "ncbi_error", "only E-utilities and BLAST calls of the call table can be made", kind="CallRejected"
)
EGRESS_REFUSED: Final = Fault(
    403,
    "egress_refused",
    "egress.mode and egress.allow of the server, and arrowhead.egress of the request, decide what may leave",
    kind="NcbiRefusedByEgress",
)
# The rate limit outlasted all retries.
NCBI_THROTTLED: Final = Fault(
    503, "ncbi_throttled", "set ncbi.api_key for 10 requests per second", retryable=True, kind="NcbiThrottled"
)
# A 5xx reply, a refused or reset connection, or failed name resolution.
NCBI_UNAVAILABLE: Final = Fault(502, "ncbi_error", retryable=True, kind="NcbiUnavailable")
# NCBI shows this address a page for people (a CAPTCHA, a notice of misuse), which no retry mends.
NCBI_BLOCKED: Final = Fault(
    502,
    "ncbi_error",
    "set ncbi.email and ncbi.api_key, and write to NCBI, which blocks addresses of scripts that it cannot reach",
    kind="NcbiBlocked",
)
# The institution's egress service took no call, so that nothing was sent to NCBI for it.
EGRESS_SERVICE_UNAVAILABLE: Final = Fault(
    502,
    "ncbi_error",
    "egress.service_url names the service; `arrowhead egress serve` runs it",
    retryable=True,
    kind="EgressServiceUnavailable",
)
# Of calls that did not leave.
NOT_SENT: Final = (EGRESS_REFUSED, EGRESS_SERVICE_UNAVAILABLE)
NCBI_TIMEOUT: Final = Fault(504, "ncbi_timeout", retryable=True, kind="NcbiTimeout")
NCBI_TOO_LARGE: Final = Fault(502, "ncbi_error", "ask for fewer records (retmax)", kind="NcbiTooLarge")
# A reply is not in the requested format.
NCBI_MALFORMED: Final = Fault(502, "ncbi_error", retryable=True, kind="NcbiMalformed")
# An error message in a 200 or 400 body.
NCBI_REPLY_ERROR: Final = Fault(502, "ncbi_error", kind="NcbiReplyError")
# The search failed, expired or has an unknown RID.
BLAST_FAILED: Final = Fault(502, "ncbi_error", kind="BlastFailed")
# The database was replaced since the search, which must be submitted again.
BLAST_DATABASE_REPLACED: Final = Fault(502, "ncbi_error", retryable=True, kind="DatabaseReplaced")

GATEWAY_BUSY: Final = Fault(500, "retrieval_error", _LATER)
GATEWAY_NOT_LOCAL: Final = Fault(500, "retrieval_error", "bind 127.0.0.1, or allow remote clients explicitly")
PORT_TAKEN: Final = Fault(500, "retrieval_error", "choose another port")
BLAST_DATABASE: Final = Fault(
    500, "retrieval_error", "make the database again from its FASTA files, or take its folder away"
)


class RetrievalError(ArrowheadError):
    """Report a failure to find evidence."""

    fault = Fault(500, "retrieval_error")


class DatabaseUnavailable(RetrievalError):
    """Report that the database of shared passages does not answer, or refuses; the message never has its address."""

    fault = Fault(
        503,
        "passages_unavailable",
        "start the database that state.url names; the log has the kind of its error",
        retryable=True,
    )


class NcbiError(RetrievalError):
    """Report a failed NCBI call; ``url`` has no API key and no e-mail address."""

    fault = Fault(502, "ncbi_error")

    def __init__(
        self, message: str, fault: Fault | None = None, *, param: str | None = None, url: str = "", attempts: int = 0
    ) -> None:
        super().__init__(message, fault, param=param)
        self.url = url
        self.attempts = attempts
        self.route: Route | None = None


class ImportFileError(RetrievalError):
    """Signal that a file to import cannot be read, is truncated or damaged, or is of another kind.

    ``line`` is 1-based, ``offset`` counts bytes of the file on disk; None where unknown.
    """

    fault = Fault(
        500, "retrieval_error", "check that the download is complete, and that it is the file whose kind was named"
    )

    def __init__(self, path: Path, reason: str, *, line: int | None = None, offset: int | None = None) -> None:
        place = f" line {line}:" if line is not None else f" byte {offset}:" if offset is not None else ""
        super().__init__(f"{path}:{place} {reason}")
        self.path = path
        self.reason = reason
        self.line = line
        self.offset = offset


class GatewayDataError(RetrievalError):
    """Signal that a sample file or the store is unreadable, damaged or incomplete."""

    fault = Fault(
        500,
        "retrieval_error",
        "a sample's store is built again when its file is deleted; a site's comes back by importing its files again",
    )


class CorpusError(RetrievalError):
    """Report any fault of documents or namespaces."""

    fault = Fault(500, "corpus_error")


class NamespaceInvalid(CorpusError):
    """Report an invalid name or setting; ``param`` names it."""

    fault = Fault(422, "invalid_namespace")


class NamespaceUnknown(CorpusError):
    """Report that no namespace has this name."""

    fault = Fault(404, "namespace_not_found", "arrowhead namespace list shows what there is")


class NamespaceBusy(CorpusError):
    """Report that another process changes the namespace."""

    fault = Fault(409, "namespace_busy", "wait until the other process is done", retryable=True)


class NamespaceDamaged(CorpusError):
    """Report a store that cannot be read or does not agree with its indices."""

    fault = Fault(
        500,
        "namespace_damaged",
        "arrowhead namespace verify tells what is wrong; restore it from an export, or add its sources again",
    )


class DocumentUnreadable(CorpusError):
    """Report a file that is not a document of its kind, or is truncated, damaged or locked."""

    fault = Fault(422, "document_unreadable")


class IndexFault(RetrievalError):
    """Report that an index cannot be read, searched or written."""

    fault = Fault(500, "index_error")


class IndexDamaged(IndexFault):
    """Report that a file is missing, truncated or changed."""

    fault = Fault(
        500,
        "index_damaged",
        "restore the folder from a copy, or build the index again from its namespace: arrowhead index rebuild",
    )


class GraphError(RetrievalError):
    """Report any fault of the knowledge graph."""
