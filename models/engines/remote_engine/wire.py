"""Write requests of vLLM's token-in, token-out route and read its events.

The route is ``POST /inference/v1/generate`` of ``vllm serve --enable-scale-out``. Pure; knows nothing of HTTP.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from models.engines.base import Tokenizer
from models.engines.vllm_engine.sampling_fields import TableSizes, check_tables, sampling_fields, structured_field
from models.errors import ENGINE_FULL, GRAMMAR_INVALID, ModelError, UnsupportedParam
from models.types import GenerateParams

GENERATE: Final = "/inference/v1/generate"
SESSION: Final = b"x-session-id"
# What vLLM writes for a probability of zero, which JSON cannot hold.
_LOWEST: Final = -9999.0
# The places of one request in the tables of vLLM's sampler (0.32), where an entry too many would end the replica.
PLACES: Final = TableSizes(
    allowed_token_ids=1024, logit_bias=1024, stop_token_ids=128, bad_words=128, bad_word_tokens=1024
)
# Lowers a padded id so far that it is never sampled; the largest bias that vLLM's own API takes.
_NEVER: Final = -100.0


class ReplicaLost(Exception):
    """Signal that a replica did not answer, or not to the end; another one may."""


class ReplicaSilent(ReplicaLost):
    """Signal that a replica had its time and did not answer."""


class AddressNotPrivate(ReplicaLost):
    """Signal that a replica was not asked, as prompts would have passed a public network in clear text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """Say what a replica takes and needs.

    ``padded`` are the ids beyond the tokenizer that it would sample. ``has_priorities``: it schedules by priority.
    """

    model: str
    max_model_len: int
    padded: range = range(0)
    has_priorities: bool = False


@dataclass(frozen=True, slots=True)
class Probability:
    """Hold one candidate's natural-log probability, by the name that vLLM's own records have."""

    logprob: float


@dataclass(frozen=True, slots=True)
class Completion:
    """Hold the tokens of one event, in the form of vLLM's own records."""

    token_ids: tuple[int, ...] = ()
    finish_reason: str | None = None
    logprobs: tuple[Mapping[int, Probability], ...] = ()


@dataclass(frozen=True, slots=True)
class Event:
    """Hold one event; ``stopped_at`` is the stop string that the replica has found at its end."""

    completion: Completion
    stopped_at: str | None = None
    num_cached_tokens: int = 0

    @property
    def outputs(self) -> tuple[Completion]:
        return (self.completion,)

    def without(self, number: int) -> Event:
        """Return the event without its first ``number`` tokens."""
        done = self.completion
        return replace(
            self, completion=replace(done, token_ids=done.token_ids[number:], logprobs=done.logprobs[number:])
        )


@dataclass(frozen=True, slots=True)
class Usage:
    """Hold the cached tokens that the last event of a stream reports, None where the replica does not."""

    num_cached_tokens: int | None


def check_room(params: GenerateParams, dialect: Dialect) -> None:
    """Check that the request fits the tables of the replicas' sampler.

    Raises:
        UnsupportedParam: it does not; names the field.
    """
    check_tables(TableSizes(logit_bias=len(params.logit_bias) + len(dialect.padded)), PLACES)


def request_body(
    token_ids: Sequence[int], params: GenerateParams, tokenizer: Tokenizer, dialect: Dialect
) -> dict[str, Any]:
    """Return the body that continues ``token_ids``.

    The replica looks for stop strings too: it then ends at once, and its last event has the number of cached tokens. A
    model that thinks is not asked to: stop strings do not count in thoughts.
    """
    room = dialect.max_model_len - len(token_ids)
    fields = sampling_fields(params, room, tokenizer.eos_token_ids)
    bias = {str(token): value for token, value in params.logit_bias}
    fields["logit_bias"] = bias | {str(token): _NEVER for token in dialect.padded} or None
    fields["detokenize"] = False
    if params.stop and tokenizer.thinking is None:
        fields |= {"stop": list(params.stop), "include_stop_str_in_output": True, "detokenize": True}
    body = {
        "model": dialect.model,
        "token_ids": list(token_ids),
        "sampling_params": fields,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if params.grammar is not None:
        fields["structured_outputs"] = structured_field(params.grammar)
        # A grammar applies from the first token on, also to a reasoning model.
        body["reasoning_ended"] = True
    if params.cache_salt is not None:
        body["cache_salt"] = params.cache_salt
    if dialect.has_priorities and params.priority:
        # vLLM serves the smallest number first.
        body["priority"] = -params.priority
    return body


def read_event(data: Any) -> Event | Usage | None:
    """Return what one event says, None for nothing.

    Raises:
        ReplicaLost: it has another form.
        ReplicaRefused: it reports an error.
    """
    try:
        if "error" in data:
            raise ReplicaRefused.of(data["error"])
        if not data["choices"]:
            return _usage(data.get("usage"))
        choice = data["choices"][0]
        entries = (choice.get("logprobs") or {}).get("content") or ()
        completion = Completion(
            token_ids=tuple(choice.get("token_ids") or ()),
            finish_reason=choice.get("finish_reason"),
            logprobs=tuple(map(_candidates, entries)),
        )
        reason = choice.get("stop_reason")
    except (KeyError, TypeError, IndexError, ValueError, AttributeError) as error:
        raise ReplicaLost(f"an event has another form: {type(error).__name__}") from error
    if not isinstance(reason, str):
        return Event(completion)
    # Stop strings are found here too: to the reader of the tokens the text just goes on.
    return Event(replace(completion, finish_reason=None), stopped_at=reason)


class ReplicaRefused(Exception):
    """Signal that a replica answered with an error; ``status`` as in HTTP."""

    def __init__(self, status: int, message: str, param: str | None) -> None:
        super().__init__(message)
        self.status, self.message, self.param = status, message, param

    @classmethod
    def of(cls, error: Mapping[str, Any]) -> ReplicaRefused:
        """Read OpenAI's error object."""
        message = (str(error.get("message") or "").strip().splitlines() or ["no reason given"])[0]
        param = error.get("param")
        return cls(int(error.get("code") or 500), message[:500], param if isinstance(param, str) else None)

    def as_error(self, params: GenerateParams) -> ModelError | ReplicaLost:
        """Return the error of the request or, where another replica may answer it, ``ReplicaLost``."""
        if self.status == 429:
            return ModelError("the replica's queue is full", ENGINE_FULL)
        if self.status not in (400, 413, 422):
            return ReplicaLost(f"the replica answered with {self.status}")
        if params.grammar is not None and self.param is None:
            return ModelError(self.message, GRAMMAR_INVALID, param=params.grammar.param)
        return UnsupportedParam(self.message, param=self.param)


def binds_whole_output(params: GenerateParams) -> bool:
    """Return whether a grammar holds for the whole output, so that no rest of it can be sampled alone."""
    return params.grammar is not None and not params.grammar.triggers


def _usage(usage: Mapping[str, Any] | None) -> Usage | None:
    if usage is None:
        return None
    details = usage.get("prompt_tokens_details")
    return Usage(None if details is None else int(details.get("cached_tokens") or 0))


def _candidates(entry: Mapping[str, Any]) -> Mapping[int, Probability]:
    """Return the sampled token and the likeliest, by token."""
    every = [entry, *entry.get("top_logprobs", ())]
    return {int(candidate["token_id"]): Probability(_logprob(candidate["logprob"])) for candidate in every}


def _logprob(value: float) -> float:
    return -math.inf if value <= _LOWEST else float(value)
