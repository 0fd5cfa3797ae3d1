"""Implement ``arrowhead key``: create, list, rename and revoke API keys.

A running server applies a change at its next request.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from server.cli.options import ConfigFile, verbs
from server.types import EgressMode

if TYPE_CHECKING:
    from server.auth.keys import KeyStore, NewKey, StoredKey
    from server.settings.schema import Settings

_HEAD: Final = ("ID", "NAME", "STATE", "CREATED", "EXPIRES", "METHODS", "EGRESS", "RATE", "NAMESPACES")

app = verbs("keys of clients: make, list, rename, revoke")


def _opened(config: Path | None) -> tuple[Settings, KeyStore]:
    from server.settings.loading import load_settings
    from server.wiring.state import open_database, open_key_store

    settings = load_settings(None, config)
    return settings, open_key_store(settings, open_database(settings))


_Methods = Annotated[
    str | None, typer.Option(metavar="A,B", help="methods it may ask, 'direct' for the bare model; default: all")
]
_Egress = Annotated[EgressMode | None, typer.Option(help="lower the server's mode for it")]
_Rate = Annotated[int | None, typer.Option(metavar="N", help="requests per minute; default: no limit")]
_Tokens = Annotated[int | None, typer.Option(metavar="N", help="sampled tokens per minute; default: no limit")]
_Namespaces = Annotated[
    str | None,
    typer.Option(
        metavar="X,Y",
        help="namespaces it reads, beside its own; '' for its own alone; default: all that belong to no other key",
    ),
]
_ReadOnly = Annotated[bool, typer.Option("--read-only", help="it makes and changes no namespaces")]
_Admin = Annotated[bool, typer.Option("--admin", help="it makes, changes and revokes keys, also on the page")]
_Expires = Annotated[
    str | None, typer.Option(metavar="WHEN", help="90d, 12h, 4w, or a day as 2027-01-31; default: never")
]


@app.command(help="make a key; its secret is printed once and not kept")
def create(
    name: Annotated[str, typer.Option(help="whose it is, or for what")],
    methods: _Methods = None,
    egress: _Egress = None,
    rate: _Rate = None,
    tokens: _Tokens = None,
    namespaces: _Namespaces = None,
    read_only: _ReadOnly = False,
    admin: _Admin = False,
    expires: _Expires = None,
    config: ConfigFile = None,
) -> int:
    from server.types import key_id

    limits = {
        "methods": _known_methods(_listed(methods)),
        "egress": egress,
        "requests_per_minute": rate,
        "tokens_per_minute": tokens,
        "namespaces": _listed(namespaces),
        "may_change": not read_only,
        "may_administer": admin,
    }
    new_key = _new_key(name, expires, limits)
    settings, store = _opened(config)
    taken = [key_id(key.get_secret_value()) for key in settings.server.api_keys]
    secret, key = store.create(replace(new_key, taken=taken))
    # The secret alone on stdout: KEY=$(arrowhead key create --name …)
    print(secret)
    until = f", until {_format_time(key.expires)}" if key.expires else ""
    print(f"{key.name}: key {key.id} made{until}; the secret above is not kept and not shown again", file=sys.stderr)
    return 0


def _known_methods(methods: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Return the methods, None for all.

    Raises:
        SettingsInvalid: a method is unknown.
    """
    if methods is not None:
        from server.methods.base import DIRECT, METHOD_NAMES
        from server.settings.loading import SettingsInvalid

        known = (DIRECT, *METHOD_NAMES)
        if unknown := [name for name in methods if name not in known]:
            raise SettingsInvalid(f"--methods: there is no method {unknown[0]}; methods: {', '.join(known)}")
    return methods


def _new_key(name: str, expires: str | None, limits: dict[str, Any]) -> NewKey:
    """Return the description of a key.

    Raises:
        SettingsInvalid: a scope or the expiry is invalid.
    """
    from server.auth.keys import NewKey, Scopes, expiry_of
    from server.errors import RequestError
    from server.settings.loading import SettingsInvalid

    try:
        moment = expiry_of(expires, datetime.now(UTC)) if expires else None
        return NewKey(name=name, expires=moment, scopes=Scopes(**limits))
    except RequestError as error:
        raise SettingsInvalid(f"--{error.message}" if error.param else error.message) from error


def _listed(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


@app.command("list", help="all keys, without their secrets")
def list_keys(as_json: Annotated[bool, typer.Option("--json")] = False, config: ConfigFile = None) -> int:
    _, store = _opened(config)
    keys, now = store.known(), datetime.now(UTC)
    if as_json:
        print(json.dumps([key.as_dict(now) for key in keys], indent=1))
        return 0
    rows = [_HEAD, *(_row(key, now) for key in keys)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


def _row(key: StoredKey, now: datetime) -> tuple[str, ...]:
    scopes = key.scopes
    rates = ((scopes.requests_per_minute, "requests"), (scopes.tokens_per_minute, "tokens"))
    namespaces = "all but others'" if scopes.namespaces is None else ",".join(scopes.namespaces) or "its own"
    notes = ["read only"] * (not scopes.may_change) + ["administers"] * scopes.may_administer
    return (
        key.id,
        key.name,
        key.as_dict(now)["state"],
        _format_time(key.created),
        _format_time(key.expires) if key.expires else "never",
        ",".join(scopes.methods) if scopes.methods else "all",
        scopes.egress or "the server's",
        ", ".join(f"{rate} {unit}/min" for rate, unit in rates if rate) or "no limit",
        f"{namespaces} ({', '.join(notes)})" if notes else namespaces,
    )


def _format_time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


@app.command(help="give a key another name")
def rename(
    key: Annotated[str, typer.Argument(metavar="ID|NAME")],
    name: Annotated[str, typer.Argument(metavar="NEW-NAME")],
    config: ConfigFile = None,
) -> int:
    renamed = _opened(config)[1].change(key, lambda one: replace(one, name=name))
    print(f"key {renamed.id} is {renamed.name} now")
    return 0


@app.command(help="take a key back")
def revoke(key: Annotated[str, typer.Argument(metavar="ID|NAME")], config: ConfigFile = None) -> int:
    from server.errors import KEY_REFUSED, RequestError
    from server.types import key_id

    settings, store = _opened(config)
    if key in {key_id(one.get_secret_value()) for one in settings.server.api_keys}:
        raise RequestError(
            f"{key} is a key of server.api_keys: take it out there and start the server anew", KEY_REFUSED
        )
    revoked_key = store.revoke(key)
    print(f"{revoked_key.name}: key {revoked_key.id} revoked")
    return 0
