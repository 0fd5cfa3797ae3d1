"""Define the errors of the knowledge graph.

GraphError
├── GraphNodeUnknown         the graph has no node of this name or id
├── GraphSourceUnavailable   the graph's server does not answer, or not in time
├── GraphSourceMalformed     the server's reply is not a graph
├── GraphFileInvalid         a file to import is truncated, damaged or of another form; file and line are named
├── GraphDamaged             the store is incomplete, or not of this encoder
└── GraphBusy                another process is building the graph
"""

from __future__ import annotations

from retrieval.errors import RetrievalError


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
