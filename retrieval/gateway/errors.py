"""Errors of the gateway itself (start-up and data). What a caller of the service sees is NCBI's own error bodies.

GatewayError
├── GatewayDataError    a sample file or the store does not hold what it must
├── GatewayBusyError    another import is at work on the store
├── GatewayBindError    a non-loopback address without leave
└── GatewayPortError      nothing can listen there
"""

from __future__ import annotations

from retrieval.errors import RetrievalError


class GatewayError(RetrievalError):
    """Anything that keeps the gateway from starting."""


class GatewayDataError(GatewayError):
    hint = "a sample's store is built again when its file is deleted; a site's comes back by importing its files again"


class GatewayBusyError(GatewayError):
    hint = "wait until the other import is done"


class GatewayBindError(GatewayError):
    hint = "bind 127.0.0.1, or allow remote clients explicitly"


class GatewayPortError(GatewayError):
    hint = "choose another port"
