"""Errors that end an evaluation. What goes wrong with one question is a record, not an error.

EvalError
├── DatasetInvalid     the questions cannot be read
├── RunFileInvalid     no record file, or a damaged one
├── RunMismatch        the record file is of another run
├── RunBusy            another process writes the record file
├── EndpointRefuses    the endpoint will refuse every question: key, model, address
└── EndpointGone       nothing listens, or so many requests failed in a row that going on makes no sense
"""

from __future__ import annotations

from models.errors import ArrowheadError


class EvalError(ArrowheadError):
    """An evaluation cannot go on."""


class DatasetInvalid(EvalError):
    pass


class RunFileInvalid(EvalError):
    hint = "write to another file with --out"


class RunMismatch(EvalError):
    hint = "write to another file with --out, or repeat the options of the first run"


class RunBusy(EvalError):
    retryable = True
    hint = "wait for the other process, or write to another file with --out"


class EndpointRefuses(EvalError):
    hint = "see --base-url, --model and --api-key"


class EndpointGone(EvalError):
    retryable = True
    hint = "the same command goes on where this one ended; --retry-failed also asks again what failed"
