"""Implement ``arrowhead key``: create, list and revoke API keys.

A running server applies a change at its next request.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from server.cli.options import ConfigFile, verbs
from server.types import EgressMode

if TYPE_CHECKING:
    from server.auth.keys import KeyStore, Scopes, StoredKey
    from server.settings.schema import Settings

_UNITS: Final = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_PERIOD: Final = re.compile(r"([0-9]{1,5})([hdw])", re.ASCII)
_HEAD: Final = ("ID", "NAME", "STATE", "CREATED", "EXPIRES", "METHODS", "EGRESS", "RATE", "NAMESPACES")


app = verbs("keys of clients: make, list, revoke")


def _opened(config: Path | None) -> tuple[Settings, KeyStore]:
    from server.settings.loading import load_settings
    from server.wiring.state import open_database, open_key_store

    settings = load_settings(None, config)
    return settings, open_key_store(settings, open_database(settings))


# Longer than forty lines by its options: typer reads them from this signature.
@app.command(help="make a key; its secret is printed once and not kept")
def create(
    name: Annotated[str, typer.Option(help="whose it is, or for what")],
    methods: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="methods it may ask, 'direct' for the bare model; default: all"),
    ] = None,
    egress: Annotated[EgressMode | None, typer.Option(help="lower the server's mode for it")] = None,
    rate: Annotated[int | None, typer.Option(metavar="N", help="requests per minute; default: no limit")] = None,
    tokens: Annotated[
        int | None, typer.Option(metavar="N", help="sampled tokens per minute; default: no limit")
    ] = None,
    namespaces: Annotated[
        str | None,
        typer.Option(
            metavar="X,Y",
            help="namespaces it reads, beside its own; '' for its own alone; default: all that belong to no other key",
        ),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="it makes and changes no namespaces")] = False,
    expires: Annotated[
        str | None, typer.Option(metavar="WHEN", help="90d, 12h, 4w, or a day as 2027-01-31; default: never")
    ] = None,
    config: ConfigFile = None,
) -> int:
    moment = _moment(expires, datetime.now(UTC)) if expires else None
    scopes = _scopes(
        methods=_known_methods(_listed(methods)),
        egress=egress,
        requests_per_minute=rate,
        tokens_per_minute=tokens,
        namespaces=_listed(namespaces),
        may_change=not read_only,
    )
    from server.auth.keys import NewKey
    from server.types import key_id

    settings, store = _opened(config)
    taken = [key_id(key.get_secret_value()) for key in settings.server.api_keys]
    secret, key = store.create(NewKey(name=name, expires=moment, scopes=scopes, taken=taken))
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


def _scopes(**limits: Any) -> Scopes:
    """Return the scopes with these limits.

    Raises:
        SettingsInvalid: a scope is invalid.
    """
    from server.auth.keys import ScopeInvalid, Scopes
    from server.settings.loading import SettingsInvalid

    try:
        return Scopes(**limits)
    except ScopeInvalid as error:
        raise SettingsInvalid(error.message) from error


def _listed(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _moment(text: str, now: datetime) -> datetime:
    """Return the time of an expiry in UTC, to the second.

    Raises:
        SettingsInvalid: the text is no period or date, or the time is past.
    """
    from server.settings.loading import SettingsInvalid

    try:
        if period := _PERIOD.fullmatch(text):
            expiry = now + int(period[1]) * _UNITS[period[2]]
        else:
            expiry = datetime.fromisoformat(text)
            expiry = expiry if expiry.tzinfo else expiry.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise SettingsInvalid(f"--expires {text}: write 90d, 12h, 4w, or a day as 2027-01-31") from None
    if expiry <= now:
        raise SettingsInvalid(f"--expires {text}: is past")
    return expiry.astimezone(UTC).replace(microsecond=0)


@app.command("list", help="all keys, without their secrets")
def list_keys(as_json: Annotated[bool, typer.Option("--json")] = False, config: ConfigFile = None) -> int:
    _, store = _opened(config)
    keys, now = store.known(), datetime.now(UTC)
    if as_json:
        print(json.dumps([_as_dict(key, now) for key in keys], indent=1))
        return 0
    rows = [_HEAD, *(_row(key, now) for key in keys)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


def _as_dict(key: StoredKey, now: datetime) -> dict[str, Any]:
    moments = {"created": key.created, "expires": key.expires, "revoked": key.revoked}
    timestamps = {name: moment.isoformat() if moment else None for name, moment in moments.items()}
    return {"id": key.id, "name": key.name, "state": _state(key, now), **timestamps, "scopes": asdict(key.scopes)}


def _row(key: StoredKey, now: datetime) -> tuple[str, ...]:
    scopes = key.scopes
    rates = ((scopes.requests_per_minute, "requests"), (scopes.tokens_per_minute, "tokens"))
    namespaces = "all but others'" if scopes.namespaces is None else ",".join(scopes.namespaces) or "its own"
    return (
        key.id,
        key.name,
        _state(key, now),
        _format_time(key.created),
        _format_time(key.expires) if key.expires else "never",
        ",".join(scopes.methods) if scopes.methods else "all",
        scopes.egress or "the server's",
        ", ".join(f"{rate} {unit}/min" for rate, unit in rates if rate) or "no limit",
        namespaces if scopes.may_change else f"{namespaces} (read only)",
    )


def _state(key: StoredKey, now: datetime) -> str:
    if key.revoked is not None:
        return "revoked"
    return "active" if key.is_usable(now) else "expired"


def _format_time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


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
