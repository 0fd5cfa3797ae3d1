"""Settings of the site's MCP servers: names, addresses and commands, and what is refused at start."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from server.settings.mcp import McpSettings, command_of
from server.settings.schema import Settings

SERVERS = ("papers=http://127.0.0.1:9000/mcp", "notes=python -m notes --folder 'my notes'")


def test_servers_have_addresses_or_commands() -> None:
    settings = McpSettings(servers=SERVERS, tools=("papers/find",), api_keys=("papers=secret",))  # type: ignore[arg-type]
    assert settings.hosts == {"papers": "127.0.0.1"}
    assert settings.keys == {"papers": "secret"}
    assert command_of(settings.targets["notes"]) == ["python", "-m", "notes", "--folder", "my notes"]
    assert command_of(settings.targets["papers"]) == []
    assert McpSettings().servers == ()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"servers": ("papers",)}, "name=url"),
        ({"servers": ("My Papers=http://127.0.0.1/mcp",)}, "name=url"),
        ({"servers": ("a=x", "a=y")}, "each name once"),
        ({"servers": ("a=ftp://host/x",)}, "http"),
        ({"servers": ("a=http://93.184.216.34/mcp",)}, "unencrypted"),
        ({"servers": SERVERS, "tools": ("other/find",)}, "no server 'other'"),
        ({"servers": SERVERS, "api_keys": ("other=secret",)}, "no server 'other'"),
    ],
    ids=["no target", "name", "twice", "scheme", "unencrypted", "tool", "key"],
)
def test_what_is_wrong_is_named(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said) as raised:
        McpSettings(**fields)
    assert "secret" not in raised.value.errors()[0]["msg"]


def test_another_machine_needs_an_egress_mode_that_lets_something_leave() -> None:
    remote: Any = {"servers": ("papers=https://tools.example/mcp",)}
    with pytest.raises(ValidationError, match="another machine"):
        Settings(mcp=remote)
    egress: Any = {"mode": "ncbi"}
    ncbi: Any = {"email": "a@b.example"}
    assert Settings(mcp=remote, egress=egress, ncbi=ncbi).mcp.hosts == {"papers": "tools.example"}
