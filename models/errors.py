"""Define the base of all errors of this project, and the errors of the models layer.

An error says with a ``Fault`` what became of a request. It has a class of its own where code catches it by name.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Fault(NamedTuple):
    """Hold the HTTP status and the code of an error, what the user can do, and whether a repetition may succeed.

    ``kind`` is its name in traces, logs and counts, where that is not the class's.
    """

    status: int
    code: str
    hint: str = ""
    retryable: bool = False
    kind: str = ""

    def is_of(self, error: BaseException | None) -> bool:
        """Return whether an error has this fault; one that a trace kept is equal, but not the same object."""
        return isinstance(error, ArrowheadError) and (error.fault is self or (bool(self.kind) and error.fault == self))


ENGINE_LOADING: Final = Fault(503, "model_not_ready", "GET /ready tells when the model is loaded", retryable=True)
# A loaded engine has died.
ENGINE_DIED: Final = Fault(
    503, "engine_unavailable", "GET /ready tells when the model is loaded", retryable=True, kind="EngineDied"
)
ENGINE_FULL: Final = Fault(429, "queue_full", "try again later", retryable=True)
ENCODER_UNAVAILABLE: Final = Fault(
    503, "encoder_unavailable", "start the server at this address, or correct retrieval.encoder_urls", retryable=True
)
# Its files are present, but would give no vectors or wrong ones.
ENCODER_UNUSABLE: Final = Fault(
    503,
    "model_missing",
    "the message says what is missing; nothing is guessed, because wrong vectors look like right ones",
)
CONTEXT_TOO_LONG: Final = Fault(400, "context_length_exceeded", "shorten the input or lower max_tokens")
# The grammar does not compile, or allows no further token.
GRAMMAR_INVALID: Final = Fault(422, "invalid_grammar")


def kind_of(error: BaseException) -> str:
    """Return the name of an error in traces, logs and counts."""
    return error.fault.kind if isinstance(error, ArrowheadError) and error.fault.kind else type(error).__name__


class ArrowheadError(Exception):
    """Serve as the root of every error that the project raises on purpose.

    ``retry_after_s`` is when a repetition may succeed, None where that is unknown.
    """

    fault: Fault = Fault(500, "internal_error")
    retry_after_s: int | None = None

    def __init__(
        self, message: str, fault: Fault | None = None, *, param: str | None = None, retry_after_s: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.retry_after_s = retry_after_s
        self.fault = fault or self.fault

    @property
    def retryable(self) -> bool:
        return self.fault.retryable

    @property
    def hint(self) -> str:
        return self.fault.hint


class ModelError(ArrowheadError):
    """Report a problem with weights, tokens or the engine."""

    fault = Fault(500, "model_error")


class ModelNotFound(ModelError):
    """Report a model that does not exist or whose files are missing or damaged."""

    fault = Fault(503, "model_missing", "arrowhead models lists what is installed")


class EngineUnavailable(ModelError):
    """Report an engine that is stopped or has failed."""

    fault = Fault(503, "engine_unavailable", "GET /ready tells when the model is loaded", retryable=True)


class UnsupportedParam(ModelError):
    """Report a parameter that the engine does not support."""

    fault = Fault(422, "unsupported_parameter", "leave the parameter out, or serve the model with another engine")
