"""Read what a request demands of the output's form: JSON, a pattern, a choice, or calls of the client's tools.

Schemas are bounded before anything is compiled. Only the plain model obeys such demands: a method's answer has a form
of its own.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from models.decoding.grammar import choice_grammar, json_grammar
from models.decoding.tool_calls import Tool, ToolChoice, ToolUse
from models.types import Grammar
from server.api.http_request import Body
from server.api.vllm_passthrough.checks import LONGEST, check_shape
from server.errors import InvalidRequest, UnsupportedField
from server.methods.base import AnswerRequest
from server.wiring.services import DIRECT, ServedModel

NAME: Final = r"^[a-zA-Z0-9_-]{1,64}$"
MAX_TOOLS: Final = LONGEST["tools"]
_ANY_OBJECT: Final = {"type": "object"}
_Schema = Annotated[dict[str, Any], Field(description="a JSON schema, bounded in length, depth and repetition")]


class JsonSchemaFormat(Body):
    """Name a JSON schema that the answer satisfies."""

    name: str = Field(pattern=NAME)
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

    name: str = Field(pattern=NAME)
    description: str | None = None
    parameters: _Schema | None = None
    strict: bool | None = None


class ToolDefinition(Body):
    """Offer a tool."""

    type: Literal["function"]
    function: FunctionDefinition


class FunctionName(Body):
    """Name a function."""

    name: str = Field(pattern=NAME)


class NamedTool(Body):
    """Demand a call of one tool."""

    type: Literal["function"]
    function: FunctionName


Tools = Annotated[list[ToolDefinition], Field(max_length=MAX_TOOLS)]
Choice = Literal["none", "auto", "required"] | NamedTool


def answer_schema(form: ResponseFormat | None) -> dict[str, Any] | None:
    """Return the JSON schema that an answer must satisfy, None for text.

    Raises:
        InvalidRequest: the schema is too large or too complex.
    """
    if form is None or isinstance(form, TextFormat):
        return None
    if isinstance(form, JsonObjectFormat):
        return dict(_ANY_OBJECT)
    schema = form.json_schema.schema_ or dict(_ANY_OBJECT)
    check_shape({"json_schema": {"schema": schema}}, "response_format")
    return schema


def grammar_of(form: ResponseFormat | None, demanded: StructuredOutputs | None) -> Grammar | None:
    """Return the grammar of the whole output, None for free text.

    Raises:
        InvalidRequest: a schema or pattern is too large or too complex, or there is more than one demand.
    """
    schema = answer_schema(form)
    if demanded is None:
        return None if schema is None else json_grammar(schema, "response_format")
    name = "structured_outputs"
    given = [key for key, value in demanded.model_dump(by_alias=True).items() if value not in (None, False)]
    if len(given) != 1 or schema is not None:
        raise InvalidRequest(f"{name}: one of json, regex, choice, json_object, and no response_format", param=name)
    check_shape(demanded.model_dump(by_alias=True, exclude_none=True), name)
    if demanded.regex is not None:
        return Grammar("regex", demanded.regex, param=name)
    if demanded.choice is not None:
        return choice_grammar(demanded.choice, name)
    return json_grammar(_parsed_schema(demanded.json_ or dict(_ANY_OBJECT)), name)


def tool_use_of(
    tools: list[ToolDefinition] | None, choice: Choice | None, parallel: bool | None, answer: dict[str, Any] | None
) -> ToolUse | None:
    """Return the use of tools that a request asks for, None where the model calls none.

    Raises:
        InvalidRequest: a schema is too large or too complex, a name is given twice, or the choice names no tool.
    """
    if not tools:
        if choice not in (None, "none", "auto"):
            raise InvalidRequest("tool_choice: needs tools", param="tool_choice")
        return None
    check_shape([tool.model_dump(exclude_none=True) for tool in tools], "tools")
    shown = tuple(_tool(tool) for tool in tools)
    if len({tool.name for tool in shown}) < len(shown):
        raise InvalidRequest("tools: a name is given twice", param="tools")
    if choice == "none":
        return None
    wanted = choice.function.name if isinstance(choice, NamedTool) else None
    allowed = tuple(tool for tool in shown if wanted in (None, tool.name))
    if not allowed:
        raise InvalidRequest("tool_choice: names none of the tools", param="tool_choice")
    how: ToolChoice = "named" if wanted else "required" if choice == "required" else "auto"
    # A named tool is called once, as OpenAI does.
    once = how == "named" or parallel is False
    return ToolUse(tools=allowed, shown=shown, choice=how, parallel=not once, answer=answer)


def require_plain(served: ServedModel, ask: AnswerRequest, model: str) -> None:
    """Check that only the plain model is asked for a form of output or for calls of tools.

    Raises:
        UnsupportedField: a method is asked.
    """
    if served.name == DIRECT:
        return
    base = model.partition(":")[0]
    if ask.tools is not None:
        raise UnsupportedField(f"tools: a method makes its calls itself; ask {base}, the plain model", param="tools")
    if any(message.tool_calls or message.tool_call_id for message in ask.messages):
        raise UnsupportedField(
            f"messages: a method takes no calls of tools; ask {base}, the plain model", param="messages"
        )
    if ask.grammar is not None:
        name = ask.grammar.param
        raise UnsupportedField(f"{name}: a method's answer has its own form; ask {base}, the plain model", param=name)


def _tool(tool: ToolDefinition) -> Tool:
    function = tool.function
    parameters: dict[str, Any] = function.parameters or {"type": "object", "properties": {}}
    shown = {"parameters": parameters} | function.model_dump(exclude_none=True, exclude={"strict"})
    return Tool(function.name, {"type": "function", "function": shown}, parameters)


def _parsed_schema(schema: dict[str, Any] | str) -> dict[str, Any]:
    if isinstance(schema, dict):
        return schema
    try:
        parsed = json.loads(schema)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise InvalidRequest("structured_outputs: json is no JSON schema", param="structured_outputs")
    check_shape({"json": parsed}, "structured_outputs")
    return parsed
