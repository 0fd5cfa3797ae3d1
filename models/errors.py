"""Errors of the models layer.

ArrowheadError              root of every error this project raises on purpose
└── ModelError
    ├── ModelNotFound       no such model, or its files are missing or damaged
    │   └── EncoderUnusable its files are there, but would give no vectors or wrong ones
    ├── EngineUnavailable   stopped or dead
    │   └── EngineLoading   not there yet
    ├── EngineOverloaded    its queue is full
    ├── ContextTooLong      prompt and answer do not fit the model's context
    ├── GrammarInvalid      the grammar does not compile
    └── UnsupportedParam    the engine cannot do what a parameter asks
"""

from __future__ import annotations

from typing import ClassVar


class ArrowheadError(Exception):
    """Root of the tree. ``retryable``: the same request may succeed later. ``hint``: what the reader can do."""

    retryable: ClassVar[bool] = False
    hint: ClassVar[str] = ""

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class ModelError(ArrowheadError):
    """Anything wrong with weights, tokens or the engine."""


class ModelNotFound(ModelError):
    hint = "arrowhead models lists what is installed"


class EncoderUnusable(ModelNotFound):
    hint = "the message says what is missing; nothing is guessed, because wrong vectors look like right ones"


class EngineUnavailable(ModelError):
    retryable = True
    hint = "GET /ready tells when the model is loaded"


class EngineLoading(EngineUnavailable):
    pass


class EngineOverloaded(ModelError):
    retryable = True
    hint = "try again later"


class ContextTooLong(ModelError):
    hint = "shorten the input or lower max_tokens"


class GrammarInvalid(ModelError):
    pass


class UnsupportedParam(ModelError):
    hint = "leave the parameter out, or serve the model with another engine"
