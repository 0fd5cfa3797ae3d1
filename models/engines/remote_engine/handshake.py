"""Check that a replica serves the same model with the same tokens, and learn what its requests need.

A replica of another model, tokenizer or version would answer, and wrongly; it is refused by name instead. Weights
cannot be compared over its API.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import Any, Final

from models.engines.base import Tokenizer
from models.engines.remote_engine.connection import Connection, Reply, events_of, read_whole
from models.engines.remote_engine.wire import GENERATE, PLACES, Dialect, ReplicaLost, ReplicaRefused, Usage, read_event
from models.errors import EngineUnavailable

log = logging.getLogger(__name__)

# Words, numbers, spaces, symbols and scripts that tokenizers split differently; nothing that spells a control token.
_SAMPLE: Final = (
    "PSMB10 (LMP10) lies at 16q22.1;  rs1217074595 \n\tβ-catenin, naïve T cells: 0.05 mg/kg → 基因 😀 ~`x_y`"
)
# A replica under load answers a request for one token late.
_PROBE_S: Final = 120.0
_ASK_S: Final = 15.0
# Entries of the bias table that are left for requests.
_BIAS_OF_REQUESTS: Final = 512
_HOW: Final = "start it with: vllm serve … --enable-scale-out --enable-prompt-tokens-details"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Say what this server takes the replicas for.

    ``model_vocabulary`` is the number of ids that the model's config has, None where it is not known.
    ``max_model_len`` applies where the replica takes more.
    """

    model: str
    tokenizer: Tokenizer
    model_vocabulary: int | None
    max_model_len: int | None


async def agree(connection: Connection, expected: Expected) -> Dialect:
    """Return what the replica takes.

    Raises:
        EngineUnavailable: it serves something else, or without what is needed; the message says what to do.
        ReplicaLost: it does not answer.
    """
    served = await _max_model_len(connection, expected)
    await _check_tokens(connection, expected)
    return Dialect(
        model=expected.model,
        max_model_len=min(served, expected.max_model_len or served),
        has_priorities=await _has_priorities(connection, expected),
        padded=_padded(connection, expected),
    )


async def _max_model_len(connection: Connection, expected: Expected) -> int:
    reply = await connection.ask("/v1/models", _ASK_S)
    if reply.status in (401, 403):
        raise _refusal(
            connection, "it refuses the key: set model.api_key to that of the replicas (vllm serve --api-key)"
        )
    models = {model["id"]: model for model in _members(reply, "data") if isinstance(model, dict) and "id" in model}
    served = models.get(expected.model)
    if served is None:
        raise _refusal(
            connection,
            f"it serves {', '.join(sorted(models)) or 'no model'} and not {expected.model}: name the served model "
            "with model.served_name, or start it with --served-model-name",
        )
    length = served.get("max_model_len")
    if not isinstance(length, int):
        raise ReplicaLost(f"{connection.url} does not say how long its context is")
    return length


async def _check_tokens(connection: Connection, expected: Expected) -> None:
    """Compare the tokens of a sample, where the replica's /tokenize can be reached; a router may not pass it on."""
    body = {"model": expected.model, "prompt": _SAMPLE, "add_special_tokens": False}
    reply = await connection.ask("/tokenize", _ASK_S, body)
    if reply.status in (404, 405, 501):
        log.warning("tokenizer not compared: url=%s has no /tokenize", connection.url)
        return
    theirs, ours = _members(reply, "tokens"), expected.tokenizer.encode(_SAMPLE)
    if theirs != ours:
        raise _refusal(
            connection,
            f"its tokenizer is another one: a sample text has {len(theirs)} tokens there and {len(ours)} here, or "
            "others; load the model that the replicas serve (model.name)",
        )


async def _has_priorities(connection: Connection, expected: Expected) -> bool:
    """Check the route, with a grammar, the last id and what is counted; return whether priorities are taken.

    The grammar also lets the replica prepare its vocabulary, which takes seconds at the first one.
    """
    last = expected.tokenizer.vocab_size - 1
    try:
        usage, has_priorities = await _generate(connection, expected.model, last, -1), True
    except ReplicaRefused:
        has_priorities = False
        try:
            usage = await _generate(connection, expected.model, last, 0)
        except ReplicaRefused as error:
            if error.status >= 500:
                raise ReplicaLost(f"{connection.url} answered with {error.status}") from error
            if error.status in (403, 404):
                raise _refusal(connection, f"its token-in, token-out route is off: {_HOW}") from error
            raise _refusal(connection, f"it does not take token id {last}: {error.message}") from error
    if usage is None or usage.num_cached_tokens is None:
        raise _refusal(connection, f"it does not count cached tokens: {_HOW}")
    return has_priorities


def _padded(connection: Connection, expected: Expected) -> range:
    """Return the ids without a token, which the replica may sample unless each request has a bias against them."""
    padded = range(expected.tokenizer.vocab_size, expected.model_vocabulary or 0)
    if len(padded) > PLACES.logit_bias - _BIAS_OF_REQUESTS:
        raise _refusal(
            connection,
            f"its model has {len(padded)} ids without a token, and a request can keep at most "
            f"{PLACES.logit_bias - _BIAS_OF_REQUESTS} from being sampled: serve it with the engine vllm",
        )
    return padded


async def _generate(connection: Connection, model: str, token_id: int, priority: int) -> Usage | None:
    """Generate one token after ``token_id``, and return what is counted.

    Raises:
        ReplicaRefused: the replica answers with an error.
    """
    body = {
        "model": model,
        "token_ids": [token_id],
        "sampling_params": {"max_tokens": 1, "temperature": 0.0, "structured_outputs": {"regex": "."}},
        "stream": True,
        "stream_options": {"include_usage": True},
        "priority": priority,
    }
    usage: Usage | None = None
    async with connection.bounded(_PROBE_S), connection.open(GENERATE, body) as response:
        if response.status_code != 200:
            raise refusal_of(Reply(response.status_code, await read_whole(response)))
        async for data in events_of(response):
            event = read_event(data)
            usage = event if isinstance(event, Usage) else usage
    return usage


def refusal_of(reply: Reply) -> ReplicaRefused:
    """Return the error that a reply with another status than 200 reports."""
    try:
        error = json.loads(reply.body)["error"]
        return ReplicaRefused.of({**error, "code": reply.status})
    except (ValueError, KeyError, TypeError):
        return ReplicaRefused(reply.status, f"the replica answered with {reply.status}", None)


def _members(reply: Reply, name: str) -> list[Any]:
    """Return the list that a reply has under ``name``.

    Raises:
        ReplicaLost: it has none; the replica is not ready.
    """
    content = reply.json()
    if reply.status != 200 or not isinstance(content, dict) or not isinstance(content.get(name), list):
        raise ReplicaLost(f"the replica answered with {reply.status}")
    members: list[Any] = content[name]
    return members


def _refusal(connection: Connection, reason: str) -> EngineUnavailable:
    return EngineUnavailable(f"model.url: {connection.url}: {reason}")
