"""Errors of the knowledge graph.

GraphError
├── GraphNodeUnknown         the graph has no node of this name or id
├── GraphSourceUnavailable   the graph's server does not answer, or not in time
├── GraphSourceMalformed     it answers something that is no graph
├── GraphFileInvalid         a file to import is cut, damaged or of another form; file and line are named
├── GraphDamaged             the store is not whole, or not of this encoder
└── GraphBusy                another process builds it
"""

from __future__ import annotations

from retrieval.errors import RetrievalError


class GraphError(RetrievalError):
    """Anything wrong with the knowledge graph."""


class GraphNodeUnknown(GraphError):
    pass


class GraphSourceUnavailable(GraphError):
    retryable = True


class GraphSourceMalformed(GraphError):
    pass


class GraphFileInvalid(GraphError):
    pass


class GraphDamaged(GraphError):
    hint = "arrowhead graph verify tells what is wrong; import the graph's files again"


class GraphBusy(GraphError):
    retryable = True
    hint = "wait until the other import is done"
