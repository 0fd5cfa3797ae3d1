"""Define and parse what the bodies of the OpenAI endpoints have in common, and the common parts of their replies.

There are three kinds of fields: those served; those that have no effect here and are accepted (``user``); and those of
OpenAI that are not served and are accepted only at values that mean "not used". All other fields are refused by name.
What a request demands of the output's form (JSON, a pattern, a choice, or calls of the client's tools) is bounded
before anything is compiled. Only the plain model obeys such demands: a method's answer has a form of its own.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field

from models.decoding.grammar import choice_grammar, json_grammar
from models.decoding.types import LoopFinish, Tool, ToolChoice, ToolUse
from models.types import Grammar
from server.api.declarations import OPTIONS, Reply
from server.api.http_io import Body
from server.api.vllm_passthrough.checks import LONGEST, check_shape
from server.errors import UNSUPPORTED_FIELD, RequestError
from server.methods.base import DIRECT, AnswerRequest, Message, Sampling
from server.wiring.services import ServedModel

MAX_MESSAGES = 512
MAX_TEXT = 1_000_000
# Each is applied at every token; the plain model on vLLM takes as many.
MAX_BIASES = 1024
_Stop = Annotated[list[Annotated[str, Field(min_length=1, max_length=256)]], Field(max_length=4)]


def _as_float(value: object) -> object:
    """Convert an integer to a float, since 1 is a valid JSON number for a float field."""
    try:
        return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
    except OverflowError:  # thousands of digits; the limits refuse it by name
        return math.inf


# The limits come first: pydantic omits those after a validator from the JSON schema.
Temperature = Annotated[float, Field(ge=0, le=2), BeforeValidator(_as_float)]
TopP = Annotated[float, Field(gt=0, le=1), BeforeValidator(_as_float)]
Penalty = Annotated[float, Field(ge=-2, le=2), BeforeValidator(_as_float)]
_Bias = Annotated[float, Field(ge=-100, le=100), BeforeValidator(_as_float)]
_TokenId = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,8})$")]
# Field -> values that mean "not used".
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "functions": (None, []),
    "function_call": (None, "none", "auto"),
    "modalities": (None, ["text"]),
    "audio": (None,),
    "prediction": (None,),
    "verbosity": (None, "medium"),
    "moderation": (None,),
    "prompt_cache_retention": (None, "in_memory", "in-memory"),
    "web_search_options": (None,),
    "best_of": (None, 1),
    "suffix": (None, ""),
    "service_tier": (None, "auto", "default"),
    "store": (None, False),
}
IGNORED = frozenset(
    {"user", "metadata", "safety_identifier", "prompt_cache_key", "prompt_cache_options", "reasoning_effort"}
)
OTHER_PARTS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("image_url", "input_image"), "images are not served: send text"),
    **dict.fromkeys(
        ("file", "input_file"),
        "files are not served: send text, or put the file into a namespace (docs/retrieval-http.md)",
    ),
    "input_audio": "sound is not served: send text",
}


def _checked_name(value: object) -> object:
    if isinstance(value, str) and not re.fullmatch(NAME, value):
        raise ValueError("a name has 1 to 64 letters (a-z, A-Z), digits, _ and -")
    return value


NAME: Final = r"^[a-zA-Z0-9_-]{1,64}$"
Name = Annotated[str, Field(pattern=NAME), BeforeValidator(_checked_name)]
MAX_TOOLS: Final = LONGEST["tools"]
_ANY_OBJECT: Final = {"type": "object"}
_Schema = Annotated[dict[str, Any], Field(description="a JSON schema, bounded in length, depth and repetition")]


class JsonSchemaFormat(Body):
    """Name a JSON schema that the answer satisfies."""

    name: Name
    description: str | None = None
    schema_: _Schema | None = Field(default=None, alias="schema")
    strict: bool | None = None


class TextFormat(Body):
    """Ask for text."""

    type: Literal["text"]


class JsonObjectFormat(Body):
    """Ask for a JSON object."""

    type: Literal["json_object"]


class SchemaFormat(Body):
    """Ask for JSON of a schema."""

    type: Literal["json_schema"]
    json_schema: JsonSchemaFormat


ResponseFormat = Annotated[TextFormat | JsonObjectFormat | SchemaFormat, Field(discriminator="type")]


class StructuredOutputs(Body):
    """Demand one of vLLM's forms of output."""

    json_: _Schema | str | None = Field(default=None, alias="json", description="a JSON schema, also as text")
    regex: str | None = Field(default=None, min_length=1)
    choice: list[Annotated[str, Field(min_length=1)]] | None = Field(default=None, min_length=1)
    json_object: bool | None = None


class FunctionDefinition(Body):
    """Describe a function that the client offers."""

    name: Name
    description: str | None = None
    parameters: _Schema | None = None
    strict: bool | None = None


class ToolDefinition(Body):
    """Offer a tool."""

    type: Literal["function"]
    function: FunctionDefinition


class FunctionName(Body):
    """Name a function."""

    name: Name


class NamedTool(Body):
    """Demand a call of one tool."""

    type: Literal["function"]
    function: FunctionName


Tools = Annotated[list[ToolDefinition], Field(max_length=MAX_TOOLS)]
Mode = Literal["none", "auto", "required"]
Choice = Mode | NamedTool


def answer_schema(form: ResponseFormat | None) -> dict[str, Any] | None:
    """Return the JSON schema that an answer must satisfy, None for text.

    Raises:
        RequestError: the schema is too large or too complex.
    """
    if form is None or isinstance(form, TextFormat):
        return None
    if isinstance(form, JsonObjectFormat):
        return dict(_ANY_OBJECT)
    schema = form.json_schema.schema_ or dict(_ANY_OBJECT)
    check_shape({"json_schema": {"schema": schema, "strict": form.json_schema.strict}}, "response_format")
    return schema


def grammar_of(form: ResponseFormat | None, demanded: StructuredOutputs | None) -> Grammar | None:
    """Return the grammar of the whole output, None for free text.

    Raises:
        RequestError: a schema or pattern is too large or too complex, or there is more than one demand.
    """
    schema = answer_schema(form)
    if demanded is None:
        return None if schema is None else json_grammar(schema, "response_format")
    name = "structured_outputs"
    given = [key for key, value in demanded.model_dump(by_alias=True).items() if value not in (None, False)]
    if len(given) != 1 or schema is not None:
        raise RequestError(f"{name}: one of json, regex, choice, json_object, and no response_format", param=name)
    check_shape(demanded.model_dump(by_alias=True, exclude_none=True), name)
    if demanded.regex is not None:
        return Grammar("regex", demanded.regex, param=name)
    if demanded.choice is not None:
        return choice_grammar(demanded.choice, name)
    return json_grammar(_parsed_schema(demanded.json_ or dict(_ANY_OBJECT)), name)


def tool_use_of(
    functions: Sequence[FunctionDefinition],
    choice: Mode | FunctionName | None,
    parallel: bool | None,
    answer: dict[str, Any] | None = None,
) -> ToolUse | None:
    """Return the use of tools that a request asks for, None where the model calls none.

    Raises:
        RequestError: a schema is too large or too complex, a name is given twice, or the choice names no tool.
    """
    if not functions:
        if choice not in (None, "none", "auto"):
            raise RequestError("tool_choice: needs tools", param="tool_choice")
        return None
    check_shape([{"function": function.model_dump(exclude_none=True)} for function in functions], "tools")
    shown = tuple(map(_tool, functions))
    if len({tool.name for tool in shown}) < len(shown):
        raise RequestError("tools: a name is given twice", param="tools")
    if choice == "none":
        return None
    requested = choice.name if isinstance(choice, FunctionName) else None
    allowed = tuple(tool for tool in shown if requested in (None, tool.name))
    if not allowed:
        raise RequestError("tool_choice: names none of the tools", param="tool_choice")
    how: ToolChoice = "named" if requested else "required" if choice == "required" else "auto"
    # A named tool is called once, as OpenAI does.
    once = how == "named" or parallel is False
    return ToolUse(tools=allowed, shown=shown, choice=how, parallel=not once, answer=answer)


def require_plain(served: ServedModel, ask: AnswerRequest, model: str, history: str = "messages") -> None:
    """Check that only the plain model is asked for a form of output or for calls of tools.

    ``history`` is the field of the request that has the messages.

    Raises:
        UNSUPPORTED_FIELD: a method is asked.
    """
    if served.name == DIRECT:
        return
    base, colon, _ = model.partition(":")
    plain = f"{base}, the plain model" if colon else "the plain model by its name"
    if ask.tools is not None or ask.site_tools:
        raise RequestError(f"tools: a method makes its calls itself; ask {plain}", UNSUPPORTED_FIELD, param="tools")
    if any(message.tool_calls or message.tool_call_id for message in ask.messages):
        raise RequestError(
            f"{history}: a method takes no calls of tools; ask {plain}", UNSUPPORTED_FIELD, param=history
        )
    if ask.grammar is not None:
        name = ask.grammar.param
        raise RequestError(f"{name}: a method's answer has its own form; ask {plain}", UNSUPPORTED_FIELD, param=name)


def _tool(function: FunctionDefinition) -> Tool:
    parameters: dict[str, Any] = function.parameters or {"type": "object", "properties": {}}
    shown = {"parameters": parameters} | function.model_dump(exclude_none=True, exclude={"strict", "type"})
    return Tool(function.name, {"type": "function", "function": shown}, parameters)


def _parsed_schema(schema: dict[str, Any] | str) -> dict[str, Any]:
    if isinstance(schema, dict):
        return schema
    try:
        parsed = json.loads(schema)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise RequestError("structured_outputs: json is no JSON schema", param="structured_outputs")
    check_shape({"json": parsed}, "structured_outputs")
    return parsed


class StreamOptions(Body):
    """Set options of a stream."""

    include_usage: bool = False
    include_obfuscation: bool = False


class TextPart(Body):
    """Provide a text part of a message."""

    type: Literal["text"]
    text: str = Field(max_length=MAX_TEXT)
    prompt_cache_breakpoint: dict[str, Any] | None = None


def refusal_as(kind: str) -> Callable[[object], object]:
    """Return how a refusal, a part of an earlier answer, is read as a part of type ``kind``."""

    def read(part: object) -> object:
        is_refusal = isinstance(part, dict) and part.get("type") == "refusal" and isinstance(part.get("refusal"), str)
        return {"type": kind, "text": part["refusal"]} if isinstance(part, dict) and is_refusal else part

    return read


def refuse_other_parts(content: object, place: str, served: Collection[str]) -> None:
    """Check that a message consists of parts that are served.

    Raises:
        UNSUPPORTED_FIELD: one is of another type; the message says what to send instead.
    """
    for number, part in enumerate(content if isinstance(content, list) else ()):
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(kind, str) and kind not in served:
            reason = OTHER_PARTS.get(kind, f"parts of type {kind[:64]!r} are not served: send text")
            raise RequestError(
                f"{place}.content[{number}]: {reason}", UNSUPPORTED_FIELD, param=f"{place}.content[{number}]"
            )


def _checked_arguments(text: str) -> str:
    try:
        is_object = isinstance(json.loads(text or "{}"), dict)
    except (ValueError, RecursionError):
        is_object = False
    if not is_object:
        raise ValueError("the arguments of a call are a JSON object")
    return text


Arguments = Annotated[str, Field(max_length=MAX_TEXT), AfterValidator(_checked_arguments)]


class FunctionMade(Body):
    """Repeat a call of a function."""

    name: Name
    arguments: Arguments


class ToolCallMade(Body):
    """Repeat a call that the model made in an earlier turn."""

    id: str = Field(min_length=1, max_length=128)
    type: Literal["function"]
    function: FunctionMade
    index: int | None = None

    def to_template(self) -> dict[str, Any]:
        """Return the call as chat templates read it, with its arguments as an object."""
        arguments = json.loads(self.function.arguments or "{}")
        return {"id": self.id, "type": "function", "function": {"name": self.function.name, "arguments": arguments}}


class ChatMessage(Body):
    """Provide one message of a chat."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Annotated[TextPart, BeforeValidator(refusal_as("text"))]] | None = None
    name: str | None = None
    # Members of our own answers, which clients send back with the history.
    annotations: list[dict[str, Any]] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    audio: None = None
    function_call: None = None
    tool_calls: Annotated[list[ToolCallMade], Field(max_length=128)] | None = None
    tool_call_id: str | None = Field(default=None, min_length=1, max_length=128)
    arrowhead: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        content = self.content or ""
        return content if isinstance(content, str) else "\n".join(part.text for part in content)

    def to_message(self) -> Message:
        role = "system" if self.role == "developer" else self.role
        calls = tuple(call.to_template() for call in self.tool_calls or ())
        return Message(role, self.text, calls, self.tool_call_id)


class Generation(Body):
    """Hold the fields that all requests for generated text have."""

    model: str = Field(min_length=1, max_length=512)
    n: int | None = Field(default=None, ge=1, le=128)
    seed: int | None = Field(default=None, ge=0, le=2**63 - 1)
    temperature: Temperature | None = None
    top_p: TopP | None = None
    top_k: int | None = Field(default=None, ge=-1, le=2**31 - 1, description="0 and -1 set no limit")
    min_p: Annotated[float, Field(ge=0, le=1), BeforeValidator(_as_float)] | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    repetition_penalty: Annotated[float, Field(gt=0, le=1000), BeforeValidator(_as_float)] | None = None
    logit_bias: Annotated[dict[_TokenId, _Bias], Field(max_length=MAX_BIASES)] | None = None
    stop: str | _Stop | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    arrowhead: dict[str, Any] | None = Field(default=None, description=OPTIONS)

    @property
    def stops(self) -> tuple[str, ...]:
        if isinstance(self.stop, str):
            return (self.stop,) if self.stop else ()
        return tuple(self.stop or ())

    @property
    def grammar(self) -> Grammar | None:
        return grammar_of(self.response_format, self.structured_outputs)

    @property
    def include_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)

    def _sampling(self, max_tokens: int | None, logprobs: int | None) -> Sampling:
        return Sampling(
            max_tokens=max_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=None if self.top_k is None else max(self.top_k, 0),
            min_p=self.min_p,
            frequency_penalty=self.frequency_penalty,
            presence_penalty=self.presence_penalty,
            repetition_penalty=self.repetition_penalty,
            logit_bias=tuple((int(token), bias) for token, bias in (self.logit_bias or {}).items()) or None,
            seed=self.seed,
            stop=self.stops,
            logprobs=logprobs,
        )


_Request = TypeVar("_Request", bound=Generation)


def check_stream_options(request: _Request) -> _Request:
    if request.stream_options is not None and not request.stream:
        raise RequestError("stream_options needs stream: true", param="stream_options")
    return request


def served_fields(
    body: object, unused: Mapping[str, tuple[Any, ...]] = NEUTRAL, ignored: Container[str] = IGNORED
) -> dict[str, Any]:
    """Return the body without the fields that have no effect."""
    if not isinstance(body, dict):
        raise RequestError("the body must be a JSON object")
    for name, neutral in unused.items():
        if name in body and not is_neutral(body[name], neutral):
            raise RequestError(f"{name}: is not served; leave {name} out", UNSUPPORTED_FIELD, param=name)
    return {name: value for name, value in body.items() if name not in unused and name not in ignored}


def is_neutral(value: object, neutral: Iterable[object]) -> bool:
    """Return whether a field's value requests nothing."""
    return any(_same(value, entry) for entry in neutral)


def _same(value: object, neutral: object) -> bool:
    """Return whether the values are equal and both or neither boolean: False is not 0, 0.0 is."""
    return value == neutral and isinstance(value, bool) == isinstance(neutral, bool)


Finish = Literal["stop", "length", "tool_calls"]


class PromptTokensDetails(Reply):
    """Count the prompt's tokens by kind."""

    cached_tokens: int


class Usage(Reply):
    """Count tokens; the model wrote completion_tokens, and injected replies count as prompt."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails


class RecordedCall(Reply):
    """Describe a call that a method made."""

    url: str
    status: str
    summary: str


class AnswerRecord(Reply):
    """Describe how an answer was found."""

    trace_id: str
    answer: str = Field(description="bare: without reference list and markers")
    finish_reason: LoopFinish
    calls: list[RecordedCall]
    egress: str = Field(description="what left this machine for the answer, in words")
