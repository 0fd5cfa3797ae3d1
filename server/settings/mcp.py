"""Define the settings of the site's own MCP servers, whose tools answers may use."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import NoDecode

from server.settings.base import COMMA_LIST, SettingsGroup, is_unencrypted_to_public, web_address

_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,19}", re.ASCII)
_MAX_SERVERS: Final = 8


class McpSettings(SettingsGroup):
    """Name the site's own MCP servers; without any, no answer uses one."""

    servers: Annotated[tuple[str, ...], NoDecode, COMMA_LIST] = Field(
        default=(), description="name=https://HOST/mcp, or name=command with its arguments; a,b"
    )
    tools: Annotated[tuple[str, ...], NoDecode, COMMA_LIST] = Field(
        default=(), description="name/tool of those that may be called; unset: all that say that they only read"
    )
    api_keys: Annotated[tuple[SecretStr, ...], NoDecode, COMMA_LIST] = Field(
        default=(), description="name=KEY, the bearer token of a server; a,b"
    )

    @field_validator("servers")
    @classmethod
    def _are_named(cls, servers: tuple[str, ...]) -> tuple[str, ...]:
        names = [one.partition("=")[0] for one in servers]
        for one, name in zip(servers, names, strict=True):
            target = one.partition("=")[2].strip()
            if not _NAME.fullmatch(name) or not target:
                raise ValueError(f"{one[:100]!r} is not name=url or name=command; a name has small letters and digits")
            if "://" not in target and not shlex.split(target):
                raise ValueError(f"{name}: there is no command")
            if "://" in target and is_unencrypted_to_public(target):
                raise ValueError(f"{name}: {target} would send questions unencrypted to a public address: use https")
        if len(set(names)) < len(names) or len(names) > _MAX_SERVERS:
            raise ValueError(f"at most {_MAX_SERVERS} servers, each name once")
        return servers

    @model_validator(mode="after")
    def _name_servers(self) -> McpSettings:
        for field, names in (("tools", [one.partition("/")[0] for one in self.tools]), ("api_keys", [*self.keys])):
            if unknown := [name for name in names if name not in self.targets]:
                raise ValueError(f"{field}: there is no server {unknown[0]!r} in mcp.servers")
        return self

    @property
    def targets(self) -> dict[str, str]:
        """Return the address or the command of each server by its name."""
        return {name: target.strip() for name, _, target in (one.partition("=") for one in self.servers)}

    @property
    def keys(self) -> Mapping[str, str]:
        pairs = (one.get_secret_value().partition("=") for one in self.api_keys)
        return {name: key for name, _, key in pairs}

    @property
    def hosts(self) -> dict[str, str]:
        """Return the host of each server that has an address, by its name."""
        urls = {name: target for name, target in self.targets.items() if "://" in target}
        return {name: web_address(url).hostname or "" for name, url in urls.items()}


def command_of(target: str) -> list[str]:
    """Return a command with its arguments, [] for an address."""
    return [] if urlsplit(target).scheme in ("http", "https") else shlex.split(target)
