"""Define the errors of the gateway itself (start-up and data); clients of the service see NCBI's own error bodies.

GatewayError
├── GatewayDataError        a sample file or the store is unreadable, damaged or incomplete
│   └── BlastDatabaseError  a BLAST database cannot be built, or is incomplete
├── GatewayBusyError        another import is running on the store
├── GatewayBindError        a non-loopback address without explicit permission
└── GatewayPortError        the address and port cannot be bound
"""

from __future__ import annotations

from retrieval.errors import RetrievalError


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
