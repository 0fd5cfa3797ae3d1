"""Errors that end an evaluation. What goes wrong with one question is a record, not an error."""

from __future__ import annotations

from models.errors import ArrowheadError


class EvalError(ArrowheadError):
    """An evaluation cannot go on: a file is damaged or of another run, or the endpoint refuses every question."""


class DatasetInvalid(EvalError):
    """The questions cannot be read."""


class RunFileInvalid(EvalError):
    """The record file is damaged, of another run, or written by another process."""

    hint = "write to another file with --out, or repeat the options of the first run"


class EndpointRefuses(EvalError):
    """The endpoint will refuse every question: key, model, address."""

    hint = "see --base-url, --model and --api-key"


class EndpointGone(EvalError):
    """Nothing listens, or so many requests failed in a row that going on makes no sense."""

    retryable = True
    hint = "the same command goes on where this one ended; --retry-failed also asks again what failed"
