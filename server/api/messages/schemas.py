"""Define and parse the bodies of ``POST /v1/messages``; knows nothing of models or methods.

Blocks of our own answers that clients send back with the history (thinking, searches) do not affect the next answer
and are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import ConfigDict, Field, ValidationError

from server.api.declarations import MODEL, OPTIONS, QUESTION, Reply, Schema, with_unused
from server.api.http_io import Body, first_error
from server.api.openai.schemas import MAX_MESSAGES, MAX_TEXT, AnswerRecord, TopP, is_neutral
from server.errors import UNSUPPORTED_FIELD, RequestError
from server.methods.base import Message, Sampling

_OWN_TOOLS: Final = "is not served: methods make their calls themselves"
# Field -> values that mean "not used", and the error text for any other value.
NEUTRAL: Final[Mapping[str, tuple[tuple[Any, ...], str]]] = {
    "tools": ((None, []), f"{_OWN_TOOLS}; the plain model takes tools on the vLLM engine"),
    "tool_choice": ((None, {"type": "auto"}, {"type": "none"}), _OWN_TOOLS),
    "service_tier": ((None, "auto", "standard_only"), "is not served; leave service_tier out"),
    "container": ((None,), "code is not run here; leave container out"),
    "mcp_servers": ((None, []), "is not served; leave mcp_servers out"),
    "context_management": ((None, {}), "is not served: leave earlier messages out"),
    "output_config": ((None, {}), "only text is served; leave output_config out"),
}
IGNORED: Final = frozenset({"cache_control"})
# Blocks of earlier answers that say nothing to a model.
PASSED_OVER: Final = frozenset({"thinking", "redacted_thinking", "server_tool_use", "web_search_tool_result"})
_OTHER_BLOCKS: Final[Mapping[str, str]] = {
    "image": "images are not served: send text",
    "document": "documents are not served: send text, or put the document into a namespace (docs/retrieval-http.md)",
    "tool_use": "calls of tools are not served: send text",
    "tool_result": "results of tools are not served: send text",
}


class TextBlock(Body):
    """Provide a text; ``citations`` are of an earlier answer, and ``cache_control`` changes nothing."""

    type: Literal["text"]
    text: str = Field(max_length=MAX_TEXT)
    citations: list[dict[str, Any]] | None = None
    cache_control: dict[str, Any] | None = None


_Text = Annotated[str, Field(max_length=MAX_TEXT)] | list[TextBlock]


class Turn(Body):
    """Provide a message of the user or an earlier answer."""

    role: Literal["user", "assistant"]
    content: _Text


class Thinking(Body):
    """Ask for the steps before the answer; their length is not bounded."""

    type: Literal["enabled", "adaptive", "disabled"]
    budget_tokens: int | None = Field(default=None, ge=1)
    display: Literal["summarized", "omitted"] | None = None


def _describe(schema: Schema) -> None:
    with_unused(schema, {name: values for name, (values, _) in NEUTRAL.items()}, IGNORED)
    length = {"max_tokens": 64} if "max_tokens" in schema["properties"] else {}
    schema["examples"] = [{"model": MODEL, "messages": [{"role": "user", "content": QUESTION}]} | length]


class CountRequest(Body):
    """Ask how many tokens messages have, before what a method adds to them."""

    model_config = ConfigDict(json_schema_extra=_describe)
    model: str = Field(min_length=1, max_length=512)
    messages: list[Turn] = Field(min_length=1, max_length=MAX_MESSAGES)
    system: _Text | None = None
    thinking: Thinking | None = None

    def conversation(self) -> tuple[Message, ...]:
        """Return the system's text, where there is one, and the messages."""
        system = [Message("system", _joined(self.system))] if self.system else []
        return (*system, *(Message(turn.role, _joined(turn.content)) for turn in self.messages))


class MessageRequest(CountRequest):
    """Request a message in Anthropic's form."""

    max_tokens: int = Field(ge=1)
    stop_sequences: Annotated[list[Annotated[str, Field(min_length=1, max_length=256)]], Field(max_length=4)] | None = (
        None
    )
    stream: bool | None = None
    temperature: Annotated[float, Field(ge=0, le=1, strict=False)] | None = None
    top_p: TopP | None = None
    top_k: int | None = Field(default=None, ge=0, le=2**31 - 1)
    metadata: dict[str, Any] | None = Field(default=None, max_length=16)
    arrowhead: dict[str, Any] | None = Field(default=None, description=OPTIONS)

    @property
    def shows_thinking(self) -> bool:
        return self.thinking is not None and self.thinking.type != "disabled"

    @property
    def sampling(self) -> Sampling:
        return Sampling(
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            stop=tuple(self.stop_sequences or ()),
        )


class MessageUsage(Reply):
    """Count a message's tokens."""

    input_tokens: int
    output_tokens: int


class ContentBlock(Reply):
    """Describe one block of a message."""

    type: Literal["text", "thinking", "server_tool_use", "web_search_tool_result"]


class MessageReply(Reply):
    """Describe a message."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[ContentBlock]
    stop_reason: Literal["end_turn", "max_tokens", "stop_sequence"]
    stop_sequence: str | None
    usage: MessageUsage
    arrowhead: AnswerRecord


class MessageCount(Reply):
    """Count the tokens of messages."""

    input_tokens: int


EVENTS: Final = (
    *("message_start", "content_block_start", "content_block_delta", "content_block_stop"),
    *("message_delta", "message_stop", "error"),
)


class MessageEvent(Reply):
    """Describe one event of a streamed message."""

    type: Annotated[str, Field(json_schema_extra={"enum": list(EVENTS)})]


_Request = TypeVar("_Request", bound=CountRequest)


def parse_message(body: object) -> MessageRequest:
    """Parse the body of a request for a message.

    Raises:
        RequestError: a value is not valid; ``param`` names the field.
        UNSUPPORTED_FIELD: a field or a block is not served; ``param`` names it.
    """
    request = _parsed(MessageRequest, body)
    if request.messages[-1].role == "assistant":
        place = f"messages[{len(request.messages) - 1}]"
        raise RequestError(
            f"{place}: an answer that is begun is not continued; end with a message of the user",
            UNSUPPORTED_FIELD,
            param=place,
        )
    return request


def parse_count(body: object) -> CountRequest:
    """Parse the body of a request for a count; it raises like ``parse_message``."""
    return _parsed(CountRequest, body)


def _parsed(kind: type[_Request], body: object) -> _Request:
    if not isinstance(body, dict):
        raise RequestError("the body must be a JSON object")
    for name, (neutral, remedy) in NEUTRAL.items():
        if name in body and not is_neutral(body[name], neutral):
            raise RequestError(f"{name}: {remedy}", UNSUPPORTED_FIELD, param=name)
    fields = {name: value for name, value in body.items() if name not in {*NEUTRAL, *IGNORED}}
    if isinstance(fields.get("messages"), list):
        fields["messages"] = [_readable(turn, f"messages[{n}]") for n, turn in enumerate(fields["messages"])]
    try:
        request = kind.model_validate(fields)
    except ValidationError as error:
        raise first_error(error) from None
    if not any(turn.role == "user" and turn.content.strip() for turn in request.conversation()):
        raise RequestError("messages: there is no user message with text", param="messages")
    return request


def _readable(turn: object, place: str) -> object:
    """Return a message without the blocks that are passed over; refuse those that are not served."""
    if not isinstance(turn, dict) or not isinstance(turn.get("content"), list):
        return turn
    kept = []
    for number, block in enumerate(turn["content"]):
        kind = block.get("type") if isinstance(block, dict) else None
        if isinstance(kind, str) and kind in PASSED_OVER:
            continue
        if isinstance(kind, str) and kind != "text":
            where = f"{place}.content[{number}]"
            reason = _OTHER_BLOCKS.get(kind, f"blocks of type {kind[:64]!r} are not served: send text")
            raise RequestError(f"{where}: {reason}", UNSUPPORTED_FIELD, param=where)
        kept.append(block)
    return turn | {"content": kept}


def _joined(text: str | list[TextBlock]) -> str:
    return text if isinstance(text, str) else "\n".join(block.text for block in text)
