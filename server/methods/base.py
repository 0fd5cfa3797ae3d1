"""Define the input of a method and the events that it yields, with the token ids, limits and usage that methods share.

Knows nothing of HTTP, OpenAI's formats or how an answer is rendered.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import astuple, dataclass, field, replace
from operator import add
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from models.card import ModelCard
from models.decoding.types import CallStatus, LoopFinish, LoopUsage, ToolUse
from models.engines.base import Engine
from models.errors import ArrowheadError, Fault
from models.types import Delta, Grammar, TokenLogprob

if TYPE_CHECKING:
    from retrieval.corpus.search.ranking import RankedPassage

Channel = Literal["answer", "reasoning"]
Origin = Literal["sampled", "injected"]
# ``partial``: a part of the answer rests on nothing that was read, or a part of the question is not answered.
# ``not_found``: the right thing was searched for, and nothing is there. ``abstained``: something was read, but no
# answer stands in it. ``cut``: a limit ended the answer.
AnswerOutcome = Literal["answered", "partial", "not_found", "abstained", "out_of_scope", "call_failed", "cut"]
# By name, in the order of lists: who only needs the names does not wait for the methods' libraries.
METHOD_NAMES: Final = ("genegpt", "kg-rag", "medrag", "i-medrag", "clinfo", "weiseeule")
# The plain model, and what chooses among all.
DIRECT: Final = "direct"
AUTO: Final = "auto"
# Those that search namespaces.
NAMESPACE_METHODS: Final = frozenset({"medrag", "i-medrag", "clinfo", "weiseeule"})


class OptionInvalid(ArrowheadError):
    """Signal an invalid option; ``param`` is ``arrowhead.KEY``."""

    fault = Fault(422, "invalid_option")


@dataclass(frozen=True, slots=True)
class Message:
    """Hold one message of a chat.

    ``tool_calls`` are calls that the model made, as OpenAI's objects whose arguments are parsed; ``tool_call_id`` names
    the call that a message of role ``tool`` replies to.
    """

    role: str
    content: str
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    tool_call_id: str | None = None

    @property
    def as_template(self) -> dict[str, Any]:
        """Return the message as chat templates read it."""
        fields: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.tool_calls:
            fields["tool_calls"] = list(self.tool_calls)
        if self.tool_call_id is not None:
            fields["tool_call_id"] = self.tool_call_id
        return fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Hold the sampling parameters of the request; None leaves the choice to the method."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: tuple[tuple[int, float], ...] | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    logprobs: int | None = None

    @property
    def shape(self) -> dict[str, Any]:
        """Return the parameters of ``GenerateParams`` that shape the distribution, those that the request sets."""
        return {name: value for name in _SHAPE if (value := getattr(self, name)) is not None}


_SHAPE: Final = (
    "top_p",
    "top_k",
    "min_p",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "logit_bias",
    "seed",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRequest:
    """Hold the request for one answer.

    ``prompt`` is set instead of ``messages`` where the client sent plain text. ``key_id`` names the API key of the
    request, "" on a server without keys. ``namespaces`` are those that the request may read, None for all; of shared
    ones, always the names that there were when the request began. ``grammar`` and ``tools`` are for the plain model
    alone. ``salt`` is that of the prefix cache (``Services.salt_for``), None for the key's id. ``methods`` are those
    that Auto may choose from, None for all. ``documents``: ids of those whose passages may be read, None for all.
    ``site_tools`` are the site's MCP servers whose tools the plain model may call, ``SERVER/TOOL`` for one tool.
    ``keeps_here``: nothing may leave for it, whatever its key allows.
    """

    request_id: str
    messages: tuple[Message, ...] = ()
    prompt: str | None = None
    sampling: Sampling = Sampling()
    options: Mapping[str, Any] = field(default_factory=dict)
    key_id: str = ""
    namespaces: frozenset[str] | None = None
    grammar: Grammar | None = None
    tools: ToolUse | None = None
    salt: str | None = None
    methods: frozenset[str] | None = None
    documents: frozenset[str] | None = None
    site_tools: tuple[str, ...] = ()
    keeps_here: bool = False

    @property
    def cache_salt(self) -> str | None:
        """Return the salt that separates prefix caches, by default those of different keys.

        With a shared cache, the time to first token reveals earlier prompts of other keys.
        """
        return (self.key_id if self.salt is None else self.salt) or None

    @property
    def instruction(self) -> str:
        """Return the client's system prompts, one paragraph each, "" for none."""
        return "\n\n".join(m.content.strip() for m in self.messages if m.role == "system" and m.content.strip())

    @property
    def question(self) -> str:
        """Return the prompt, or the last user message without the earlier turns."""
        if self.prompt is not None:
            return self.prompt.strip()
        return next((m.content.strip() for m in reversed(self.messages) if m.role == "user"), "")


# Events, in the order in which they occur.


@dataclass(frozen=True, slots=True)
class Step:
    """Report the method's progress as one line of text.

    ``counts``: how many articles a review has at each stage so far, by the names of its flow.
    """

    text: str
    counts: Mapping[str, int] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Carry new text to show; the ``answer`` pieces joined are the whole answer as it is shown.

    ``is_ours``: the server wrote it (a reference list, a note), not the model.
    """

    text: str
    channel: Channel = "answer"
    logprobs: tuple[TokenLogprob, ...] | None = None
    is_ours: bool = False


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """Report a complete call of a client's tool, which the client makes; ``arguments`` is the text of a JSON object."""

    id: str
    name: str
    arguments: str
    ordinal: int


@dataclass(frozen=True, slots=True)
class TranscriptDelta:
    """Carry new text of the token sequence as the model sees it, sampled or injected."""

    text: str
    origin: Origin = "sampled"
    logprobs: tuple[TokenLogprob, ...] | None = None


@dataclass(frozen=True, slots=True)
class ToolsListed:
    """Report the tools of one of the site's servers, as MCP describes them; ``fault`` is why there are none."""

    server: str
    tools: tuple[Mapping[str, Any], ...] = ()
    fault: str = ""


@dataclass(frozen=True, slots=True)
class CallMade:
    """Report a call, with ``url`` as the model wrote it; ``arguments`` are those of a tool, as JSON."""

    url: str
    ordinal: int
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class CallReplied:
    """Report the reply to a call.

    ``summary`` is a short phrase (``3 ids``). ``record`` is JSON-able and goes into the trace.
    """

    url: str
    ordinal: int
    status: CallStatus
    summary: str
    seconds: float
    num_tokens: int
    record: Mapping[str, Any]


SourceStatus = Literal["current", "retracted", "superseded"]


@dataclass(frozen=True, slots=True)
class Source:
    """Hold a text that an answer may rest on.

    ``number`` is that by which the model cites it, None where it cannot. ``records`` are the single records within the
    text, () where it is one.
    """

    text: str
    number: int | None = None
    title: str = ""
    records: tuple[str, ...] = ()
    status: SourceStatus = "current"


@dataclass(frozen=True, slots=True)
class EvidenceRead:
    """Carry sources that the answer may rest on, before it begins; injected text of the transcript counts as well."""

    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Retrieved:
    """Report a completed search of local data.

    ``queries`` are the queries as they were searched for, ``sources`` the addresses of the hits, best first, and
    ``passages`` those of namespaces.
    """

    queries: tuple[str, ...]
    sources: tuple[str, ...] = ()
    passages: tuple[RankedPassage, ...] = ()


@dataclass(frozen=True, slots=True)
class Reference:
    """Refer to a record that the answer was read from.

    ``start`` and ``end`` are the offsets of its marker in the shown answer. ``text`` is the passage that was read, ""
    where the record is not stored.
    """

    number: int
    title: str
    url: str
    start: int = 0
    end: int = 0
    text: str = ""

    def moved(self, by: int) -> Reference:
        """Return the reference with its marker so many characters further on; (0, 0) is no place."""
        return replace(self, start=self.start + by, end=self.end + by) if self.end else self


@dataclass(frozen=True, slots=True)
class Evidence:
    """List the references of the answer."""

    references: tuple[Reference, ...]


MismatchKind = Literal["number", "identifier", "record", "citation", "retracted", "superseded"]


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Name a part of a sentence that its sources do not have; ``start`` and ``end`` are offsets in the sentence.

    ``detail`` is a clause for the reader.
    """

    kind: MismatchKind
    text: str
    start: int
    end: int
    detail: str


# ``unchecked``: nothing that was checked speaks for or against the sentence.
SupportVerdict = Literal["supported", "contradicted", "unsupported", "unchecked"]


@dataclass(frozen=True, slots=True)
class SentenceSupport:
    """Label one sentence of an answer with what it rests on.

    ``start`` and ``end`` are offsets in the shown answer. ``probability`` is that of ``supported``, None where no
    verifier read the sentence. ``citations`` are the numbers of its sources, ``quote`` the nearest sentence of one.
    ``num_checked`` counts its numbers and identifiers that were looked up in the sources.
    """

    start: int
    end: int
    verdict: SupportVerdict
    probability: float | None = None
    citations: tuple[int, ...] = ()
    quote: str = ""
    num_checked: int = 0
    mismatches: tuple[Mismatch, ...] = ()

    @property
    def record(self) -> dict[str, Any]:
        """Return the JSON form of the label."""
        return {
            "start": self.start,
            "end": self.end,
            "verdict": self.verdict,
            "probability": None if self.probability is None else round(self.probability, 4),
            "citations": list(self.citations),
            "quote": self.quote,
            "checked": self.num_checked,
            "mismatches": [{"kind": one.kind, "text": one.text, "detail": one.detail} for one in self.mismatches],
        }


@dataclass(frozen=True, slots=True)
class Support:
    """Hold the labels of an answer's sentences, in order.

    Only a request for it changes the text: ``dropped`` lists the sentences that were left out.
    """

    sentences: tuple[SentenceSupport, ...] = ()
    dropped: tuple[str, ...] = ()

    @property
    def unsupported(self) -> tuple[SentenceSupport, ...]:
        return tuple(one for one in self.sentences if one.verdict in ("unsupported", "contradicted"))

    @property
    def record(self) -> dict[str, Any]:
        """Return the JSON form of the labels, for replies and traces."""
        record: dict[str, Any] = {
            "sentences": [one.record for one in self.sentences],
            "supported": sum(one.verdict == "supported" for one in self.sentences),
            "unchecked": sum(one.verdict == "unchecked" for one in self.sentences),
            "unsupported": len(self.unsupported),
        }
        return record | ({"dropped": list(self.dropped)} if self.dropped else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """End the answer.

    ``answer`` has neither reference list nor markers. ``details`` is JSON-able (mask, prompt, limits). ``outcome`` is
    None for the plain model alone; any other than ``answered`` is also told in the shown text. ``support`` is None
    where sentences were not checked.
    """

    answer: str
    finish_reason: LoopFinish = "stop"
    stop_reason: str | int | None = None
    usage: LoopUsage
    details: Mapping[str, Any] = field(default_factory=dict)
    outcome: AnswerOutcome | None = None
    support: Support | None = None


Event = (
    Step
    | TextDelta
    | ToolCalled
    | ToolsListed
    | TranscriptDelta
    | CallMade
    | CallReplied
    | EvidenceRead
    | Retrieved
    | Evidence
    | Done
)


class Method(Protocol):
    """Answer questions with one model; safe for concurrent calls."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str:
        """Return one sentence for ``/v1/models``."""
        ...

    def check(self, ask: AnswerRequest) -> None:
        """Validate the request as far as possible before any work.

        Raises:
            OptionInvalid: an option is unknown or has a wrong value.
            ArrowheadError: another reason to refuse the request.
        """
        ...

    def answer(self, ask: AnswerRequest) -> AsyncGenerator[Event, None]:
        """Yield the events of the answer; the last one is ``Done``.

        Closing the iterator stops generation and pending calls.
        """
        ...


def uses_chat_template(engine: Engine, card: ModelCard) -> bool:
    """Return whether the model chats: its loaded tokenizer decides, unless the settings name the form."""
    return card.prompt_form != "base" and engine.tokenizer.has_chat_template


def plain_ids(engine: Engine, text: str) -> list[int]:
    """Return the tokens of a text that begins a sequence, as the model was trained to read it."""
    return engine.tokenizer.encode_start(text)


def ids_of(ask: AnswerRequest, engine: Engine, card: ModelCard) -> list[int]:
    """Return the prompt tokens for the plain model.

    Raises:
        UnsupportedParam: the chat template refuses the chat.
    """
    if ask.prompt is not None:
        return plain_ids(engine, ask.prompt)
    if uses_chat_template(engine, card):
        shown = [tool.definition for tool in ask.tools.shown] if ask.tools else []
        return engine.tokenizer.encode_chat([message.as_template for message in ask.messages], tools=shown)
    last = max(i for i, m in enumerate(ask.messages) if m.role == "user")
    earlier = [m.content.strip() for i, m in enumerate(ask.messages) if i != last and m.content.strip()]
    return plain_ids(engine, "\n\n".join([*earlier, f"Question: {ask.messages[last].content.strip()}\nAnswer:"]))


def answer_limit(requested: int | None, usual: int, most: int, engine: Engine) -> int:
    """Return the most tokens that a method lets the model write.

    The client's number counts up to ``most``, the server's limit. Without one it is ``usual``, and ``most`` for a model
    that thinks before it answers.
    """
    if requested is not None:
        return min(requested, most)
    return most if engine.tokenizer.thinking is not None else min(usual, most)


def answer_logprobs(delta: Delta) -> tuple[TokenLogprob, ...] | None:
    """Return the log-probabilities of the delta's tokens, those of its thinking left out."""
    return None if delta.logprobs is None else delta.logprobs[delta.num_reasoning_tokens :]


def usage_of(prompt_tokens: int, sampled: int, cached: int) -> LoopUsage:
    """Return the token usage of what was generated in one piece; ``cached`` of the prompt's tokens were computed."""
    return LoopUsage(
        prompt_tokens=prompt_tokens,
        sampled_tokens=sampled,
        cached_tokens=cached,
        computed_tokens=prompt_tokens - cached + sampled,
        segments=1,
    )


def add_usage(one: LoopUsage, other: LoopUsage) -> LoopUsage:
    """Return the sum of the usages of two calls for one answer."""
    return LoopUsage(*map(add, astuple(one), astuple(other)))
