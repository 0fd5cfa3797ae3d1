"""Define the errors of the models layer.

ArrowheadError              root of every error this project raises on purpose
└── ModelError
    ├── ModelNotFound       no such model, or its files are missing or damaged
    │   └── EncoderUnusable its files are present, but would give no vectors or wrong ones
    ├── EngineUnavailable   stopped or failed
    │   └── EngineLoading   still loading
    ├── EncoderUnavailable  the server that computes its vectors does not answer
    ├── EngineOverloaded    its queue is full
    ├── ContextTooLong      prompt and answer do not fit the model's context
    ├── GrammarInvalid      the grammar does not compile
    └── UnsupportedParam    the engine does not support what a parameter asks
"""

from __future__ import annotations

from typing import ClassVar


class ArrowheadError(Exception):
    """Serve as the root of every error that the project raises on purpose.

    ``retryable``: the same request may succeed later. ``hint``: what the user can do.
    """

    retryable: ClassVar[bool] = False
    hint: ClassVar[str] = ""

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class ModelError(ArrowheadError):
    """Report a problem with weights, tokens or the engine."""


class ModelNotFound(ModelError):
    """Report a model that does not exist or whose files are missing or damaged."""

    hint = "arrowhead models lists what is installed"


class EncoderUnusable(ModelNotFound):
    """Report encoder files that are present but would give no vectors or wrong ones."""

    hint = "the message says what is missing; nothing is guessed, because wrong vectors look like right ones"


class EngineUnavailable(ModelError):
    """Report an engine that is stopped or has failed."""

    retryable = True
    hint = "GET /ready tells when the model is loaded"


class EngineLoading(EngineUnavailable):
    """Report an engine that is still loading."""


class EncoderUnavailable(ModelError):
    """Report a remote encoder whose server does not answer."""

    retryable = True
    hint = "start the server at this address, or correct retrieval.encoder_urls"


class EngineOverloaded(ModelError):
    """Report that the engine's queue is full."""

    retryable = True
    hint = "try again later"


class ContextTooLong(ModelError):
    """Report a prompt and answer that do not fit the model's context."""

    hint = "shorten the input or lower max_tokens"


class GrammarInvalid(ModelError):
    """Report a grammar that does not compile or allows no further token."""


class UnsupportedParam(ModelError):
    """Report a parameter that the engine does not support."""

    hint = "leave the parameter out, or serve the model with another engine"
