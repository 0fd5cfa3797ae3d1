"""OpenAI's tool ``mcp`` in a request: the servers that it names, and what is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from models.errors import ArrowheadError
from server.api.answers.site_tools import take_site_tools


def test_the_servers_are_taken_out_of_the_body() -> None:
    tools = [{"type": "mcp", "server_label": "a"}, {"type": "mcp", "server_label": "b", "require_approval": "never"}]
    assert take_site_tools({"model": "m", "tools": tools, "tool_choice": "auto"}) == ({"model": "m"}, ("a", "b"))
    some = {"type": "mcp", "server_label": "a", "allowed_tools": ["x", "y"]}
    assert take_site_tools({"tools": [some]}) == ({}, ("a/x", "a/y"))
    assert take_site_tools({"tools": [some | {"allowed_tools": []}]}) == ({}, ("a/",))
    others: list[Any] = [{"model": "m"}, {"tools": [{"type": "function"}]}, [], None, {"tools": "mcp"}]
    for body in others:
        assert take_site_tools(body) == (body, ())


@pytest.mark.parametrize(
    ("tool", "further", "param"),
    [
        ({"server_label": "a", "server_url": "https://x.example"}, {}, "tools[0].server_url"),
        ({}, {}, "tools[0].server_label"),
        ({"server_label": 1}, {}, "tools[0].server_label"),
        ({"server_label": "a", "allowed_tools": [1]}, {}, "tools[0].allowed_tools[0]"),
        ({"server_label": "a", "allowed_tools": {"read_only": True}}, {}, "tools[0].allowed_tools"),
        ({"server_label": "a/b"}, {}, "tools[0].server_label"),
        ({"server_label": "a", "require_approval": "always"}, {}, "tools[0].require_approval"),
        ({"server_label": "a"}, {"tool_choice": "required"}, "tool_choice"),
    ],
)
def test_what_is_not_served_is_refused_by_name(tool: dict[str, Any], further: dict[str, Any], param: str) -> None:
    with pytest.raises(ArrowheadError) as raised:
        take_site_tools({"tools": [{"type": "mcp"} | tool]} | further)
    assert raised.value.param == param


def test_other_tools_beside_it_are_refused() -> None:
    with pytest.raises(ArrowheadError, match="without other tools"):
        take_site_tools({"tools": [{"type": "mcp", "server_label": "a"}, {"type": "function"}]})
