"""Bodies that the routes do not read by one model alone, as models, for the document."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from server.openai_api.responses_schemas import Fields, ResponseMessage
from server.openai_api.schemas import MAX_MESSAGES, MAX_TEXT, Body


class ResponseRequest(Fields):
    input: Annotated[str, Field(max_length=MAX_TEXT)] | Annotated[list[ResponseMessage], Field(max_length=MAX_MESSAGES)]


class MessagesRequest(Body):
    """Anthropic's form. This server's engine has no layer for it, so every body is refused."""

    model: str
