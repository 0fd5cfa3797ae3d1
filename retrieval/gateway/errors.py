"""Errors of the gateway itself (start-up and data). What a caller of the service sees is NCBI's own error bodies.

GatewayError
├── GatewayDataError    a sample file or the store does not hold what it must
│   └── BlastDatabaseError  a BLAST database cannot be made, or is not whole
├── GatewayBindError    a non-loopback address without leave
└── GatewayPortError      nothing can listen there
"""

from __future__ import annotations

from retrieval.errors import RetrievalError


class GatewayError(RetrievalError):
    """Anything that keeps the gateway from starting."""


class GatewayDataError(GatewayError):
    hint = "delete the gateway's data directory; it is built again at the next start"


class BlastDatabaseError(GatewayDataError):
    hint = "make the database again from its FASTA files, or take its folder away"


class GatewayBindError(GatewayError):
    hint = "bind 127.0.0.1, or allow remote clients explicitly"


class GatewayPortError(GatewayError):
    hint = "choose another port"
