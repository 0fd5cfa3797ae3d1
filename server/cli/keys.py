"""Implement ``arrowhead key``: create, list and revoke API keys.

A running server applies a change at its next request.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from server.auth.scopes import ScopeInvalid, Scopes
from server.settings.loading import SettingsInvalid, load_settings
from server.types import EGRESS_MODES

if TYPE_CHECKING:
    from server.auth.key_store import KeyStore, StoredKey
    from server.settings.schema import Settings

_UNITS: Final = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_LASTING: Final = re.compile(r"([0-9]{1,5})([hdw])", re.ASCII)
_HEAD: Final = ("ID", "NAME", "STATE", "CREATED", "EXPIRES", "METHODS", "EGRESS", "RATE", "NAMESPACES")


def add_key(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    create = verbs.add_parser("create", help="make a key; its secret is printed once and not kept")
    create.add_argument("--name", required=True, help="whose it is, or for what")
    create.add_argument(
        "--methods", metavar="A,B", help="methods it may ask, 'direct' for the bare model; default: all"
    )
    create.add_argument("--egress", choices=EGRESS_MODES, help="lower the server's mode for it")
    create.add_argument("--rate", type=int, metavar="N", help="requests per minute; default: no limit")
    create.add_argument("--tokens", type=int, metavar="N", help="sampled tokens per minute; default: no limit")
    create.add_argument(
        "--namespaces",
        metavar="X,Y",
        help="namespaces it reads, beside its own; '' for its own alone; default: all that belong to no other key",
    )
    create.add_argument("--read-only", action="store_true", help="it makes and changes no namespaces")
    create.add_argument("--expires", metavar="WHEN", help="90d, 12h, 4w, or a day as 2027-01-31; default: never")
    create.set_defaults(run=_create)
    show = verbs.add_parser("list", help="all keys, without their secrets")
    show.add_argument("--json", action="store_true")
    show.set_defaults(run=_list)
    revoke = verbs.add_parser("revoke", help="take a key back")
    revoke.add_argument("key", metavar="ID|NAME")
    revoke.set_defaults(run=_revoke)
    for verb in (create, show, revoke):
        verb.add_argument("--config", type=Path, help="settings file (TOML)")


def _opened(args: argparse.Namespace) -> tuple[Settings, KeyStore]:
    from server.wiring.keys import open_key_store

    settings = load_settings(None, args.config)
    return settings, open_key_store(settings)


def _create(args: argparse.Namespace) -> int:
    from server.auth.key_store import NewKey
    from server.types import key_id

    settings, store = _opened(args)
    taken = [key_id(key.get_secret_value()) for key in settings.server.api_keys]
    expires = _moment(args.expires, datetime.now(UTC)) if args.expires else None
    secret, made = store.create(NewKey(name=args.name, expires=expires, scopes=_scopes(args), taken=taken))
    # The secret alone on stdout: KEY=$(arrowhead key create --name …)
    print(secret)
    until = f", until {_shown(made.expires)}" if made.expires else ""
    print(f"{made.name}: key {made.id} made{until}; the secret above is not kept and not shown again", file=sys.stderr)
    return 0


def _scopes(args: argparse.Namespace) -> Scopes:
    """Return the scopes that the flags describe.

    Raises:
        SettingsInvalid: a method is unknown, or a scope is invalid.
    """
    methods = _listed(args.methods)
    if methods is not None:
        from server.methods.registry import METHOD_NAMES
        from server.wiring.services import DIRECT

        known = (DIRECT, *METHOD_NAMES)
        if strangers := [name for name in methods if name not in known]:
            raise SettingsInvalid(f"--methods: there is no method {strangers[0]}; methods: {', '.join(known)}")
    try:
        return Scopes(
            methods=methods,
            egress=args.egress,
            requests_per_minute=args.rate,
            tokens_per_minute=args.tokens,
            namespaces=_listed(args.namespaces),
            may_change=not args.read_only,
        )
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
    try:
        if lasting := _LASTING.fullmatch(text):
            found = now + int(lasting[1]) * _UNITS[lasting[2]]
        else:
            found = datetime.fromisoformat(text)
            found = found if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise SettingsInvalid(f"--expires {text}: write 90d, 12h, 4w, or a day as 2027-01-31") from None
    if found <= now:
        raise SettingsInvalid(f"--expires {text}: is past")
    return found.astimezone(UTC).replace(microsecond=0)


def _list(args: argparse.Namespace) -> int:
    _, store = _opened(args)
    keys, now = store.known(), datetime.now(UTC)
    if args.json:
        print(json.dumps([_as_dict(key, now) for key in keys], indent=1))
        return 0
    rows = [_HEAD, *(_row(key, now) for key in keys)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return 0


def _as_dict(key: StoredKey, now: datetime) -> dict[str, Any]:
    moments = {"created": key.created, "expires": key.expires, "revoked": key.revoked}
    told = {name: moment.isoformat() if moment else None for name, moment in moments.items()}
    return {"id": key.id, "name": key.name, "state": _state(key, now), **told, "scopes": asdict(key.scopes)}


def _row(key: StoredKey, now: datetime) -> tuple[str, ...]:
    scopes = key.scopes
    rates = ((scopes.requests_per_minute, "requests"), (scopes.tokens_per_minute, "tokens"))
    spaces = "all but others'" if scopes.namespaces is None else ",".join(scopes.namespaces) or "its own"
    return (
        key.id,
        key.name,
        _state(key, now),
        _shown(key.created),
        _shown(key.expires) if key.expires else "never",
        ",".join(scopes.methods) if scopes.methods else "all",
        scopes.egress or "the server's",
        ", ".join(f"{rate} {unit}/min" for rate, unit in rates if rate) or "no limit",
        spaces if scopes.may_change else f"{spaces} (read only)",
    )


def _state(key: StoredKey, now: datetime) -> str:
    if key.revoked is not None:
        return "revoked"
    return "active" if key.is_usable(now) else "expired"


def _shown(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M")


def _revoke(args: argparse.Namespace) -> int:
    from server.auth.key_store import KeyRefused
    from server.types import key_id

    settings, store = _opened(args)
    if args.key in {key_id(key.get_secret_value()) for key in settings.server.api_keys}:
        raise KeyRefused(f"{args.key} is a key of server.api_keys: take it out there and start the server anew")
    gone = store.revoke(args.key)
    print(f"{gone.name}: key {gone.id} revoked")
    return 0
