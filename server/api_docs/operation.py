"""What is said of one route."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from pydantic import BaseModel

Verb = Literal["get", "post", "put", "delete"]
# What the body of a reply is: the name of a schema of ``replies``, or one of these.
METRICS: Final = "metrics"
PAGE: Final = "page"
Query = Mapping[str, Mapping[str, object]]
Stream = Literal["", "chat", "text", "response"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """``replies``: status -> what its body is. ``stream``: with ``stream`` true the reply is server-sent events of this
    kind. ``is_open``: without a key. ``query``: parameters of the URL, by name, with their schemas. ``is_timed``: the
    client can shorten its time. ``layer``: the schema of what the engine's own OpenAI layer replies, where it has one.
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
