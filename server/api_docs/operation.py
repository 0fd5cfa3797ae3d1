"""Define the description of one route."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from pydantic import BaseModel

Verb = Literal["get", "post", "put", "delete"]
# A reply's body is the name of a schema of ``replies`` or one of these constants.
METRICS: Final = "metrics"
PAGE: Final = "page"
Query = Mapping[str, Mapping[str, object]]
Stream = Literal["", "chat", "text", "response"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """Describe one method of one path for the OpenAPI document.

    - ``replies``: status -> name of the reply's schema, ``METRICS`` or ``PAGE``.
    - ``stream``: kind of server-sent events that the reply consists of when the request sets ``stream``.
    - ``is_open``: the route needs no key.
    - ``query``: schemas of the URL's query parameters, by name.
    - ``is_timed``: the client can shorten the time limit with a header.
    - ``layer``: schema of the reply of the engine's own OpenAI layer, "" where the layer has no such route.
    """

    path: str
    verb: Verb
    tag: str
    summary: str
    body: type[BaseModel] | Literal["file"] | None = None
    replies: Mapping[int, str] = field(default_factory=lambda: {200: ""})
    errors: Sequence[int] = ()
    query: Query = field(default_factory=dict)
    stream: Stream = ""
    is_open: bool = False
    is_timed: bool = False
    layer: str = ""
