"""Define the records that cross the engine boundary.

Frozen, free of torch, safe to import anywhere.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields, replace
from typing import Final, Literal

Dtype = Literal["auto", "float32", "bfloat16", "float16"]
FinishReason = Literal["stop", "length", "abort"]
# The stop reason of a text that ended with ``length`` because it repeated itself.
REPETITION: Final = "repetition"


@dataclass(frozen=True, slots=True)
class Grammar:
    """Define the constraint that sampled text must satisfy.

    ``structural_tag``: ``spec`` is the JSON text of an xgrammar structural tag (free text until a trigger, then
    constrained). ``regex`` and ``json_schema``: the whole output must match ``spec``. ``lark``: it must match the rule
    ``start`` of a Lark grammar, of the part of Lark that llguidance and xgrammar both read: rules of strings,
    alternatives and repetitions, no directives. ``param`` is the request's field that asks for it, which errors name.
    """

    kind: Literal["structural_tag", "regex", "json_schema", "lark"]
    spec: str
    param: str = "grammar"

    @property
    def triggers(self) -> tuple[str, ...]:
        """Return the strings that end the free text of a structural tag, () for a grammar without free text."""
        if self.kind != "structural_tag":
            return ()
        try:
            form = json.loads(self.spec)["format"]
            return tuple(form["triggers"]) if form["type"] == "triggered_tags" else ()
        except (ValueError, KeyError, TypeError):
            return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateParams:
    """Define how one continuation is sampled.

    ``temperature`` 0 is greedy. ``top_k`` 0 means no limit. ``min_p`` leaves out tokens less likely than this share of
    the best one. ``frequency_penalty`` counts how often, ``presence_penalty`` whether the model has written a token;
    ``repetition_penalty`` also covers tokens of the prompt. ``logit_bias`` has a token id once. ``written`` are the
    prompt's tokens that the model wrote itself, earlier in an answer with inserted text; None where the prompt is all
    given and nothing will be inserted. ``logprobs`` is the number of alternatives to report
    beside each sampled token (0 reports the sampled one alone, None reports nothing). ``cache_salt`` separates
    prefix caches that must not be shared. ``pause_at`` is the one of ``stop`` behind which the answer may go on with
    inserted text: until then an engine may keep the sequence, which ``abort`` of the answer's id frees. Higher
    ``priority`` goes first where the engine schedules by priority.
    ``stop_on_repetition`` ends a text that repeats itself with ``length`` and the stop reason ``REPETITION``; what
    ``written`` has at the end of the prompt counts as its beginning.
    """

    max_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    written: tuple[int, ...] | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    pause_at: str | None = None
    ignore_eos: bool = False
    logprobs: int | None = None
    grammar: Grammar | None = None
    cache_salt: str | None = None
    priority: int = 0
    stop_on_repetition: bool = False


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """Hold the natural-log probability of one sampled token, and the most likely alternatives, best first."""

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """Hold the output of one step of a stream.

    ``text`` never contains a stop string or the text after it; text that could still become a stop string is withheld.
    ``token_ids`` are all tokens sampled in this step, also those that spell the stop string or overshoot it, so the
    concatenated ids may decode to more than the concatenated text. ``reasoning`` is what the model thinks before it
    answers, which is no part of ``text``; the first ``num_reasoning_tokens`` ids are its text and marks. The counts are
    set on the last delta of a stream (the one with ``finish_reason``): ``num_cached_tokens`` prompt tokens came from
    the prefix cache and were not computed again.
    """

    text: str = ""
    reasoning: str = ""
    token_ids: tuple[int, ...] = ()
    num_reasoning_tokens: int = 0
    logprobs: tuple[TokenLogprob, ...] | None = None
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None
    num_prompt_tokens: int = 0
    num_cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class EngineStats:
    """Count requests and tokens since the engine started.

    ``tokens_forced`` are those of ``tokens_generated`` that a grammar forced, so that no step decoded them,
    ``tokens_drafted`` those that the model chose in the step of an earlier token, as a draft had them.
    ``kv_cache_used`` is the share of the KV cache memory in use, None where the engine does not report it: in use by
    sequences in the engine (vllm), or by cached prefixes (transformers, whose sequences have separate memory).
    """

    running: int = 0
    waiting: int = 0
    requests_finished: int = 0
    prompt_tokens_computed: int = 0
    prompt_tokens_cached: int = 0
    tokens_generated: int = 0
    tokens_forced: int = 0
    tokens_drafted: int = 0
    kv_cache_used: float | None = None

    def with_request(self, num_prompt_tokens: int, num_cached: int, num_sampled: int) -> EngineStats:
        """Add a request that has ended."""
        return replace(
            self,
            requests_finished=self.requests_finished + 1,
            prompt_tokens_computed=self.prompt_tokens_computed + max(0, num_prompt_tokens - num_cached),
            prompt_tokens_cached=self.prompt_tokens_cached + num_cached,
            tokens_generated=self.tokens_generated + num_sampled,
        )

    def plus(self, other: EngineStats) -> EngineStats:
        """Add the counters of two sources that share one KV cache."""
        counts = {name: getattr(self, name) + getattr(other, name) for name in _COUNTS}
        return EngineStats(**counts, kv_cache_used=self.kv_cache_used or other.kv_cache_used)


_COUNTS = tuple(counter.name for counter in fields(EngineStats) if counter.name != "kv_cache_used")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """Say where a server is that computes for this one, and how it is reached.

    ``url`` has no path: https, or http to an address of a private network. ``connect_s`` bounds a connection.
    """

    url: str
    api_key: str | None = field(default=None, repr=False)
    connect_s: float = 3.0
