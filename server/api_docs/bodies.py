"""Define models of the request bodies that no single model of their route describes, for the OpenAPI document."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from server.openai_api.responses_schemas import Fields, ResponseMessage
from server.openai_api.schemas import MAX_MESSAGES, MAX_TEXT, Body


class ResponseRequest(Fields):
    """Request a response of the Responses API."""

    input: Annotated[str, Field(max_length=MAX_TEXT)] | Annotated[list[ResponseMessage], Field(max_length=MAX_MESSAGES)]


class MessagesRequest(Body):
    """Request a message in Anthropic's form, which this engine does not support: every body is refused."""

    model: str
