"""Serve lists page by page, as OpenAI does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

from fastapi import Request

from retrieval.storage.records import NOT_LISTED
from server.api.declarations import Reply, Schema, parameter
from server.errors import RequestError

_T = TypeVar("_T")


class ListReply(Reply):
    """List objects; ``last_id`` is the ``after`` of the next page."""

    object: Literal["list"]
    data: list[dict[str, Any]]
    first_id: str | None
    last_id: str | None
    has_more: bool


def page_parameters(most: int, usual: int, *further: Schema) -> dict[str, Any]:
    """Return the ``openapi_extra`` of a list."""
    limit = parameter("limit", "query", {"type": "integer", "minimum": 1, "maximum": most, "default": usual})
    order = parameter("order", "query", {"enum": ["asc", "desc"], "default": "desc"})
    return {"parameters": [parameter("after", "query", {"type": "string"}), limit, order, *further]}


def page_of(request: Request, most: int, usual: int, further: Sequence[str] = ()) -> dict[str, Any]:
    """Return the arguments of a page, with one object more than it shows.

    Raises:
        RequestError: a parameter is wrong; ``param`` names it.
    """
    fields = request.query_params
    for name in fields:
        if name not in {"after", "limit", "order", *further}:
            raise RequestError(f"{name[:40]}: there is no such field", param=name[:40])
    text, order = fields.get("limit", str(usual)), fields.get("order", "desc")
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= most):
        raise RequestError(f"limit: a whole number from 1 to {most}", param="limit")
    if order not in ("asc", "desc"):
        raise RequestError("order: asc or desc", param="order")
    return {"limit": int(text) + 1, "after": fields.get("after", "")[:300], "newest_first": order == "desc"}


def listed(found: Sequence[_T], limit: int, shown: Callable[[_T], dict[str, Any]]) -> dict[str, Any]:
    """Return a page of what was found with a limit of one more than it shows."""
    data = [shown(one) for one in found[: limit - 1]]
    ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"]} if data else {"first_id": None, "last_id": None}
    return {"object": "list", "data": data} | ends | {"has_more": len(found) >= limit}


def part_of(found: Sequence[_T], page: Mapping[str, Any], id_of: Callable[[_T], str]) -> Sequence[_T]:
    """Return a page of what is known whole, the oldest first.

    Raises:
        RequestError: ``after`` is not among it, or no longer.
    """
    ordered = list(reversed(found)) if page["newest_first"] else list(found)
    ids = ["", *map(id_of, ordered)]
    if page["after"] not in ids:
        raise RequestError(NOT_LISTED, param="after")
    start = ids.index(page["after"])
    return ordered[start : start + page["limit"]]
