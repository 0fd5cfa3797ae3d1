"""Bring the items of an earlier reply, which clients send back, into the form that vLLM's Responses layer reads.

The layer refuses searches, and of an answer it reads the first part alone, which must have text: it fails on a refusal
and on an answer without parts. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

# Our own items in a history, and those that a chat client adds to it.
SKIPPED: Final = frozenset({"reasoning", "web_search_call", "file_search_call", "mcp_list_tools", "mcp_call"})
CLIENTS_OWN: Final = "open_webui:"


def readable_history(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the body of a request for a response, its input without items that say nothing to a model."""
    items = body.get("input")
    if not isinstance(items, list):
        return body
    return {**body, "input": [_readable(item) for item in items if not _is_passed_over(item)]}


def part_text(part: object) -> str:
    """Return the text of a part of an answer, also of a refusal; "" where it has none."""
    found = part.get("text", part.get("refusal")) if isinstance(part, Mapping) else part
    return found if isinstance(found, str) else ""


def _is_passed_over(item: object) -> bool:
    """Return whether an item is a search, a client's own, or the steps of a method, which have a summary alone."""
    kind = item.get("type") if isinstance(item, Mapping) else None
    if not isinstance(item, Mapping) or not isinstance(kind, str):
        return False
    if kind == "reasoning":
        return not item.get("content") and not item.get("encrypted_content")
    return kind in SKIPPED or kind.startswith(CLIENTS_OWN)


def _readable(item: Any) -> Any:
    """Return an answer of the assistant with its parts as one text; any other item as it is."""
    is_answer = isinstance(item, Mapping) and item.get("role") == "assistant" and isinstance(item.get("content"), list)
    if not is_answer:
        return item
    text = "\n".join(text for part in item["content"] if (text := part_text(part)))
    return {"type": "message", "role": "assistant", "content": text}
