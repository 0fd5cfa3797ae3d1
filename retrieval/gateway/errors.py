"""Errors of the gateway itself (start-up and data). What a caller of the service sees is NCBI's own error bodies.

GatewayError
├── GatewayDataError    a sample file or the store does not hold what it must
│   └── BlastDatabaseError  a BLAST database cannot be made, or is not whole
├── GatewayBusyError    another import is at work on the store
├── ImportFileError     a file to import cannot be read, is cut or damaged, or is of another kind
├── GatewayBindError    a non-loopback address without leave
└── GatewayPortError      nothing can listen there
"""

from __future__ import annotations

from pathlib import Path

from retrieval.errors import RetrievalError


class GatewayError(RetrievalError):
    """Anything that keeps the gateway from starting."""


class GatewayDataError(GatewayError):
    hint = "a sample's store is built again when its file is deleted; a site's comes back by importing its files again"


class GatewayBusyError(GatewayError):
    hint = "wait until the other import is done"


class ImportFileError(GatewayError):
    """``line`` is 1-based, ``offset`` counts bytes of the file as it lies on the disk; None where unknown."""

    hint = "check that the download is complete, and that it is the file whose kind was named"

    def __init__(self, path: Path, reason: str, *, line: int | None = None, offset: int | None = None) -> None:
        place = f" line {line}:" if line is not None else f" byte {offset}:" if offset is not None else ""
        super().__init__(f"{path}:{place} {reason}")
        self.path = path
        self.reason = reason
        self.line = line
        self.offset = offset


class BlastDatabaseError(GatewayDataError):
    hint = "make the database again from its FASTA files, or take its folder away"


class GatewayBindError(GatewayError):
    hint = "bind 127.0.0.1, or allow remote clients explicitly"


class GatewayPortError(GatewayError):
    hint = "choose another port"
