"""Define and parse the bodies of ``POST /v1/responses``; knows nothing of models or methods.

Where nothing is stored, fields that name an earlier response are refused, with an alternative. Items of our own answers
that clients send back with the history (reasoning, searches) do not affect the next answer and are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, ValidationError

from models.decoding.types import ToolUse
from server.api.answers import file_search, site_tools
from server.api.declarations import MODEL, OPTIONS, QUESTION, Reply, Schema, with_unused
from server.api.http_io import Body, first_error
from server.api.openai.schemas import (
    MAX_MESSAGES,
    MAX_TEXT,
    Temperature,
    TopP,
    is_neutral,
    refuse_other_parts,
    tool_use_of,
)
from server.api.responses.functions import FUNCTION_ITEMS, Content, FunctionChoice, FunctionTools, joined, text_of
from server.api.responses.state import NOTHING_KEPT, Kept
from server.api.vllm_passthrough.history import CLIENTS_OWN, SKIPPED
from server.errors import UNSUPPORTED_FIELD, RequestError
from server.methods.base import Message, Sampling

LOGPROBS: Final = "message.output_text.logprobs"
_NOT_STORED: Final = "responses are not stored here (state.responses_key_file): send the earlier items in input"
# Field -> values that mean "not used", and the error text for any other value.
NEUTRAL: Final[Mapping[str, tuple[tuple[Any, ...], str]]] = {
    "previous_response_id": ((None,), _NOT_STORED),
    "conversation": ((None,), _NOT_STORED),
    "store": (
        (None, False),
        "responses are not stored here (state.responses_key_file): send false, or leave store out",
    ),
    "background": ((None, False), "answers are given while the client waits: use stream: true"),
    "max_tool_calls": ((None,), "is not served: arrowhead.max_calls is genegpt's limit"),
    "prompt": ((None,), "prompt templates are not kept here: send instructions and input"),
    "truncation": ((None, "disabled"), "is not served: leave earlier items out of input"),
    "context_management": ((None, []), "is not served: leave earlier items out of input"),
    **{
        name: (neutral, f"is not served; leave {name} out")
        for name, neutral in (
            ("service_tier", (None, "auto", "default")),
            ("moderation", (None,)),
            ("prompt_cache_retention", (None, "in_memory", "in-memory")),
            ("access_programs", (None, [])),
            ("background_options", (None, {})),
            ("image", (None,)),
        )
    },
}
IGNORED: Final = frozenset({"prompt_cache_options", "reasoning", "stream_options"})
_PARTS: Final = frozenset({"input_text", "output_text", "text", "refusal"})
_Include = Literal[
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
]

_EVENTS: Final = (
    *(f"response.{state}" for state in ("created", "in_progress", "completed", "incomplete", "failed")),
    *(f"response.output_item.{what}" for what in ("added", "done")),
    *(
        f"response.{kind}_search_call.{what}"
        for kind in ("web", "file")
        for what in ("in_progress", "searching", "completed")
    ),
    *(
        f"response.mcp_{kind}.{what}"
        for kind in ("list_tools", "call")
        for what in ("in_progress", "completed", "failed")
    ),
    *(f"response.{kind}_call_arguments.{what}" for kind in ("mcp", "function") for what in ("delta", "done")),
    *(f"response.reasoning_summary_part.{what}" for what in ("added", "done")),
    *(f"response.reasoning_summary_text.{what}" for what in ("delta", "done")),
    *(f"response.content_part.{what}" for what in ("added", "done")),
    *(f"response.output_text.{what}" for what in ("delta", "annotation.added", "done")),
    "error",
)


class ResponseMessage(Body):
    """Provide a message of the history.

    ``id``, ``status`` and ``phase`` are members of answers that clients send back.
    """

    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: Content
    id: str | None = None
    status: str | None = None
    phase: str | None = None

    def to_message(self) -> Message:
        return Message("system" if self.role == "developer" else self.role, text_of(self.content))


class ResponseFormat(Body):
    """Request the text format."""

    type: Literal["text"] = "text"


class ResponseText(Body):
    """Set the format and verbosity of the text."""

    format: ResponseFormat | None = None
    verbosity: Literal["medium"] | None = None


class Fields(Body):
    """Define the fields that are used as sent."""

    model: str = Field(min_length=1, max_length=512)
    instructions: str | None = Field(default=None, max_length=MAX_TEXT)
    stream: bool | None = None
    max_output_tokens: int | None = Field(default=None, ge=1)
    temperature: Temperature | None = None
    top_p: TopP | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    include: list[_Include] | None = None
    text: ResponseText | None = None
    tools: FunctionTools | None = None
    tool_choice: FunctionChoice | None = None
    parallel_tool_calls: bool | None = None
    metadata: Annotated[dict[str, Annotated[str, Field(max_length=512)]], Field(max_length=16)] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    arrowhead: dict[str, Any] | None = Field(default=None, description=OPTIONS)


def _describe(schema: Schema) -> None:
    with_unused(schema, {name: values for name, (values, _) in NEUTRAL.items()}, IGNORED)
    schema["properties"]["tools"]["anyOf"] += [file_search.tools_schema(), site_tools.tools_schema()]
    schema["properties"]["input"]["anyOf"][1]["items"] = {"description": "a message, or an item of an earlier reply"}
    schema["examples"] = [{"model": MODEL, "input": QUESTION}]


class ResponseRequest(Fields):
    """Request a response of the Responses API."""

    model_config = ConfigDict(json_schema_extra=_describe)
    input: Annotated[str, Field(max_length=MAX_TEXT)] | Annotated[list[ResponseMessage], Field(max_length=MAX_MESSAGES)]


class ResponseUsage(Reply):
    """Count a response's tokens."""

    input_tokens: int
    output_tokens: int
    total_tokens: int


class OutputItem(Reply):
    """Describe one item of a response's output."""

    id: str
    type: Literal[
        "message", "reasoning", "web_search_call", "file_search_call", "mcp_list_tools", "mcp_call", "function_call"
    ]
    status: str


class ResponseReply(Reply):
    """Describe a response."""

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
    incomplete_details: dict[str, Any] | None
    model: str
    output: list[OutputItem]
    store: bool
    usage: ResponseUsage | None


class ResponseEvent(Reply):
    """Describe one event of a streamed response."""

    type: Annotated[str, Field(json_schema_extra={"enum": list(_EVENTS)})]
    sequence_number: int


@dataclass(frozen=True, slots=True)
class ResponsesRequest:
    """Hold a parsed request; ``messages`` is ``input`` after ``instructions``.

    ``tools`` are those of the request, which the response repeats; ``site_tools`` those of ``mcp`` among them, and
    ``tool_use`` says which functions the model may call. Fields that are accepted only at neutral values are omitted.
    """

    fields: Fields
    messages: tuple[Message, ...]
    tool_use: ToolUse | None = None
    tools: tuple[Any, ...] = ()
    site_tools: tuple[str, ...] = ()
    kept: Kept = NOTHING_KEPT

    @property
    def wants_results(self) -> bool:
        return "file_search_call.results" in (self.fields.include or ())

    @property
    def wants_logprobs(self) -> bool:
        return LOGPROBS in (self.fields.include or ())

    @property
    def sampling(self) -> Sampling:
        return Sampling(
            max_tokens=self.fields.max_output_tokens,
            temperature=self.fields.temperature,
            top_p=self.fields.top_p,
            logprobs=(self.fields.top_logprobs or 0) if self.wants_logprobs else None,
        )


def parse_responses(body: object) -> ResponsesRequest:
    """Parse the body of a request.

    Raises:
        RequestError: a value is not valid; ``param`` names the field.
        UNSUPPORTED_FIELD: a field is not served; ``param`` names it.
    """
    if not isinstance(body, dict):
        raise RequestError("the body must be a JSON object")
    _refuse_what_is_not_served(body)
    excluded = {"input", *NEUTRAL, *IGNORED}
    try:
        fields = Fields.model_validate({name: value for name, value in body.items() if name not in excluded})
    except ValidationError as error:
        raise first_error(error) from None
    messages = joined(_messages(body.get("input")))
    if not any(one.tool_call_id or (one.role == "user" and one.content.strip()) for one in messages):
        raise RequestError("input: there is no user message with text", param="input")
    if fields.instructions:
        messages.insert(0, Message("system", fields.instructions))
    use = tool_use_of(fields.tools or (), fields.tool_choice, fields.parallel_tool_calls)
    request = ResponsesRequest(fields, tuple(messages), use)
    if fields.top_logprobs and not request.wants_logprobs:
        raise RequestError(f"top_logprobs: needs include: ['{LOGPROBS}']", param="top_logprobs")
    return request


def _refuse_what_is_not_served(body: Mapping[str, Any]) -> None:
    for name, (neutral, remedy) in NEUTRAL.items():
        if name in body and not is_neutral(body[name], neutral):
            raise RequestError(f"{name}: {remedy}", UNSUPPORTED_FIELD, param=name)
    tools = body.get("tools")
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict) and tool.get("type") != "function":
            raise RequestError(
                "tools: function, file_search and mcp are served; methods make their calls themselves",
                UNSUPPORTED_FIELD,
                param="tools",
            )
    text = body.get("text")
    shape = text.get("format") if isinstance(text, dict) else None
    if isinstance(shape, dict) and shape.get("type") in ("json_schema", "json_object"):
        raise RequestError("text.format: only text is served; leave it out", UNSUPPORTED_FIELD, param="text.format")
    if body.get("reasoning") is not None and not isinstance(body["reasoning"], dict):
        raise RequestError("reasoning: input should be a valid dictionary", param="reasoning")


def _messages(value: object) -> list[Message]:
    if isinstance(value, str):
        if len(value) > MAX_TEXT:
            raise RequestError(f"input: at most {MAX_TEXT} characters are taken", param="input")
        return [Message("user", value)]
    if not isinstance(value, list):
        raise RequestError("input: must be text or a list of items", param="input")
    if len(value) > MAX_MESSAGES:
        raise RequestError(f"input: at most {MAX_MESSAGES} items are taken", param="input")
    return [message for place, item in enumerate(value) if (message := read_item(item, f"input[{place}]"))]


def read_item(item: object, place: str) -> Message | None:
    """Return the message of an input item, None for an item that does not affect the next answer."""
    if not isinstance(item, dict):
        raise RequestError(f"{place}: must be an item", param=place)
    kind = item.get("type", "message")
    if not isinstance(kind, str):
        raise RequestError(f"{place}.type: must be text", param=f"{place}.type")
    if kind in SKIPPED or kind.startswith(CLIENTS_OWN):
        return None
    if kind == "item_reference":
        raise RequestError(f"{place}: references are not read; send the item itself", UNSUPPORTED_FIELD, param=place)
    read = ResponseMessage if kind == "message" else FUNCTION_ITEMS.get(kind)
    if read is None:
        raise RequestError(
            f"{place}: items of type {kind[:64]!r} are not served; send messages",
            UNSUPPORTED_FIELD,
            param=f"{place}.type",
        )
    refuse_other_parts(item.get("content"), place, _PARTS)
    try:
        return read.model_validate(item).to_message()
    except ValidationError as error:
        raise first_error(error, place) from None
