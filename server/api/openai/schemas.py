"""Define and parse the request bodies of the OpenAI endpoints; knows nothing of models or methods.

There are three kinds of fields: those served; those that have no effect here and are accepted (``user``); and those of
OpenAI that are not served and are accepted only at values that mean "not used". All other fields are refused by name.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, ConfigDict, Field, ValidationError

from models.decoding.tool_calls import ToolUse
from models.types import Grammar
from server.api.declarations import GIVEN, HAS_TEXT, OPTIONS, QUESTION, Schema, require_with, user_message, with_unused
from server.api.http_request import Body, first_error
from server.api.openai.constraints import (
    NAME,
    Choice,
    ResponseFormat,
    StructuredOutputs,
    Tools,
    answer_schema,
    grammar_of,
    tool_use_of,
)
from server.errors import InvalidRequest, UnsupportedField
from server.methods.base import Message, Sampling

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
    "reasoning_effort": (None,),
    "verbosity": (None,),
    "web_search_options": (None,),
    "best_of": (None, 1),
    "suffix": (None, ""),
    "service_tier": (None, "auto", "default"),
    "store": (None, False),
}
IGNORED = frozenset({"user", "metadata", "safety_identifier", "prompt_cache_key"})


class StreamOptions(Body):
    """Set options of a stream."""

    include_usage: bool = False
    include_obfuscation: bool = False


class TextPart(Body):
    """Provide a text part of a message."""

    type: Literal["text"]
    text: str = Field(max_length=MAX_TEXT)


class FunctionMade(Body):
    """Repeat a call of a function."""

    name: str = Field(pattern=NAME)
    arguments: str = Field(max_length=MAX_TEXT)


class ToolCallMade(Body):
    """Repeat a call that the model made in an earlier turn."""

    id: str = Field(min_length=1, max_length=128)
    type: Literal["function"]
    function: FunctionMade
    index: int | None = None

    def to_template(self) -> dict[str, Any]:
        """Return the call as chat templates read it, with its arguments as an object.

        Raises:
            InvalidRequest: the arguments are no JSON object.
        """
        try:
            arguments = json.loads(self.function.arguments or "{}")
        except (ValueError, RecursionError):
            arguments = None
        if not isinstance(arguments, dict):
            raise InvalidRequest("messages: the arguments of a call are no JSON object", param="messages")
        return {"id": self.id, "type": "function", "function": {"name": self.function.name, "arguments": arguments}}


class ChatMessage(Body):
    """Provide one message of a chat."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart] | None = None
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


class _Generation(Body):
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


def _add_rules(schema: Schema) -> None:
    """Add to the JSON schema what ``_served`` and ``_checked`` check."""
    with_unused(schema, NEUTRAL, IGNORED)
    require_with(schema, "stream_options", "stream")


def _add_chat_rules(schema: Schema) -> None:
    """Add to the JSON schema what ``parse_chat`` checks."""
    _add_rules(schema)
    require_with(schema, "top_logprobs", "logprobs")
    both = {"max_tokens": GIVEN, "max_completion_tokens": GIVEN}
    schema["allOf"].append({"not": {"required": list(both), "properties": both}})
    schema["examples"] = [{"model": "model", "messages": [{"role": "user", "content": QUESTION}]}]


class ChatRequest(_Generation):
    """Request a chat completion."""

    model_config = ConfigDict(json_schema_extra=_add_chat_rules)
    messages: list[ChatMessage] = Field(
        min_length=1, max_length=MAX_MESSAGES, json_schema_extra={"contains": user_message()}
    )
    max_completion_tokens: int | None = Field(default=None, ge=1)
    logprobs: bool | None = None
    top_logprobs: int | None = Field(default=None, ge=0, le=20)
    tools: Tools | None = None
    tool_choice: Choice | None = None
    parallel_tool_calls: bool | None = None

    @property
    def tool_use(self) -> ToolUse | None:
        use = tool_use_of(self.tools, self.tool_choice, self.parallel_tool_calls, answer_schema(self.response_format))
        if use is not None and self.structured_outputs is not None:
            raise InvalidRequest("structured_outputs: not together with tools", param="structured_outputs")
        return use

    @property
    def sampling(self) -> Sampling:
        return self._sampling(
            self.max_completion_tokens or self.max_tokens, (self.top_logprobs or 0) if self.logprobs else None
        )


def _add_completion_rules(schema: Schema) -> None:
    """Add to the JSON schema what ``parse_completion`` checks."""
    _add_rules(schema)
    both = {"echo": {"const": True}, "logprobs": GIVEN}
    schema["allOf"].append({"not": {"required": list(both), "properties": both}})
    schema["examples"] = [{"model": "model", "prompt": "The official gene symbol of LMP10 is"}]


class CompletionRequest(_Generation):
    """Request completions of one prompt or several."""

    model_config = ConfigDict(json_schema_extra=_add_completion_rules)
    prompt: (
        Annotated[str, Field(max_length=MAX_TEXT, json_schema_extra=HAS_TEXT)]
        | Annotated[list[Annotated[str, Field(json_schema_extra=HAS_TEXT)]], Field(min_length=1, max_length=64)]
    )
    logprobs: int | None = Field(default=None, ge=0, le=20)
    echo: bool | None = Field(default=None, description="repeats the prompt in front of the text; not with logprobs")

    @property
    def prompts(self) -> list[str]:
        return [self.prompt] if isinstance(self.prompt, str) else self.prompt

    @property
    def sampling(self) -> Sampling:
        return self._sampling(self.max_tokens, self.logprobs)


_Request = TypeVar("_Request", bound=_Generation)


def parse_chat(body: object) -> ChatRequest:
    """Parse the body of a chat request.

    Raises:
        InvalidRequest: a value is not valid; ``param`` names the field.
        UnsupportedField: a field is not served; ``param`` names it.
    """
    try:
        request = ChatRequest.model_validate(_served(body))
    except ValidationError as error:
        raise first_error(error) from None
    if request.top_logprobs is not None and not request.logprobs:
        raise InvalidRequest("top_logprobs needs logprobs: true", param="top_logprobs")
    if request.max_tokens is not None and request.max_completion_tokens is not None:
        raise InvalidRequest("max_tokens and max_completion_tokens exclude each other", param="max_tokens")
    for place, message in enumerate(request.messages):
        _check_message(message, f"messages[{place}]")
    if not any(m.role == "user" and m.text.strip() for m in request.messages):
        raise InvalidRequest("messages: there is no user message with text", param="messages")
    return _checked(request)


def _check_message(message: ChatMessage, place: str) -> None:
    if message.content is None and not message.tool_calls:
        raise InvalidRequest(f"{place}.content: Field required", param=f"{place}.content")
    if message.tool_calls and message.role != "assistant":
        raise InvalidRequest(f"{place}.tool_calls: only of an assistant", param=f"{place}.tool_calls")
    if (message.role == "tool") != (message.tool_call_id is not None):
        raise InvalidRequest(
            f"{place}.tool_call_id: belongs to each message of role tool, and to no other",
            param=f"{place}.tool_call_id",
        )


def parse_completion(body: object) -> CompletionRequest:
    """Parse the body of a completion request.

    Raises:
        InvalidRequest: a value is not valid; ``param`` names the field.
        UnsupportedField: a field is not served; ``param`` names it.
    """
    if isinstance(body, dict) and isinstance(body.get("prompt"), list) and _holds_token_ids(body["prompt"]):
        raise UnsupportedField("prompt: token ids are not served; send text", param="prompt")
    try:
        request = CompletionRequest.model_validate(_served(body))
    except ValidationError as error:
        raise first_error(error) from None
    if not all(prompt.strip() for prompt in request.prompts):
        raise InvalidRequest("prompt: is empty", param="prompt")
    if request.echo and request.logprobs is not None:
        raise UnsupportedField("echo: the prompt has no logprobs here; leave echo or logprobs out", param="echo")
    return _checked(request)


def _checked(request: _Request) -> _Request:
    if request.stream_options is not None and not request.stream:
        raise InvalidRequest("stream_options needs stream: true", param="stream_options")
    return request


def _holds_token_ids(prompt: list[Any]) -> bool:
    return any(isinstance(item, int | list) for item in prompt)


def _served(body: object) -> dict[str, Any]:
    """Return the body without the fields that have no effect."""
    if not isinstance(body, dict):
        raise InvalidRequest("the body must be a JSON object")
    for name, neutral in NEUTRAL.items():
        if name in body and not is_neutral(body[name], neutral):
            raise UnsupportedField(f"{name}: is not served", param=name)
    return {name: value for name, value in body.items() if name not in NEUTRAL and name not in IGNORED}


def is_neutral(value: object, neutral: Iterable[object]) -> bool:
    """Return whether a field's value requests nothing."""
    return any(_same(value, entry) for entry in neutral)


def _same(value: object, neutral: object) -> bool:
    """Return whether the values are equal and both or neither boolean: False is not 0, 0.0 is."""
    return value == neutral and isinstance(value, bool) == isinstance(neutral, bool)
