"""Define the common base of all groups of settings."""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import SplitResult, urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from models.engines.base import is_private


def web_address(url: str) -> SplitResult:
    """Return the parts of an http or https address.

    A user name or key in the address would appear in logs, so it is rejected.

    Raises:
        ValueError: the address is malformed or holds a user name, query or fragment; the message says what it must be.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must be an http:// or https:// address")
    if parts.username or parts.query or parts.fragment:
        raise ValueError("must hold no user name, query or fragment")
    return parts


def is_unencrypted_to_public(url: str) -> bool:
    """Return whether an address is http to an IP address beyond private networks; names are looked up at first use."""
    parts = web_address(url)
    try:
        return parts.scheme == "http" and not is_private(parts.hostname or "")
    except ValueError:
        return False


def _items(value: object) -> object:
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


# Splits ``a,b``, the form of lists in the environment and in flags.
COMMA_LIST: Final = BeforeValidator(_items)


class SettingsGroup(BaseModel):
    """Refuse unknown fields and changes of values."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    @field_validator("*", mode="before")
    @classmethod
    def _without_nul(cls, value: object) -> object:
        if r"\x00" in repr(value):  # no path may have it, and no other setting needs it
            raise ValueError("has a NUL character")
        return value


Seconds = Annotated[float, Field(gt=0, le=86_400)]
