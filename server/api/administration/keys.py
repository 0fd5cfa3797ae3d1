"""Serve ``/v1/admin/keys`` to keys that administer, and ``/v1/setup``, which makes the first key of a server.

A secret is in the reply that creates its key, and nowhere else.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import ConfigDict, Field

from server.api.declarations import Reads, Reply, errors
from server.api.http_io import Body, read_body
from server.auth.authentication import Principal, require_administration
from server.auth.keys import Edit, KeyStore, NewKey, Scopes, StoredKey, expiry_of, revoking
from server.egress.policy import NOTHING_LEFT, EgressPolicy
from server.errors import KEY_REFUSED, SETUP_REFUSED, RequestError
from server.methods.base import DIRECT, METHOD_NAMES
from server.observability.observer import log_event
from server.types import EgressMode
from server.wiring.services import Services

router = APIRouter(tags=["Administration"])
log = logging.getLogger(__name__)
# No cache may hold a secret, or show a key that was revoked.
_NOT_KEPT: Final = {"Cache-Control": "no-store"}
_MAX_LISTED: Final = 200
_Name = Annotated[str, Field(min_length=1, max_length=64)]
_Names = Annotated[list[Annotated[str, Field(max_length=63)]], Field(max_length=_MAX_LISTED)]


class KeyScopes(Body):
    """Limit a key; what is left out, or null, is not limited, but the right to administer is only given where named."""

    methods: _Names | None = None
    egress: EgressMode | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    namespaces: _Names | None = None
    may_change: bool = True
    may_administer: bool = False

    def checked(self) -> Scopes:
        """Return the scopes.

        Raises:
            RequestError: a method is unknown.
            SCOPE_INVALID: another scope is invalid.
        """
        known = (DIRECT, *METHOD_NAMES)
        if unknown := [name for name in self.methods or () if name not in known]:
            message = f"scopes.methods: there is no method {unknown[0]}; methods: {', '.join(known)}"
            raise RequestError(message, param="scopes.methods")
        given = self.model_dump().items()
        fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in given}
        return Scopes(**fields)


class KeyBody(Body):
    """Describe a new key. ``expires``: 90d, 12h, 4w, or a day as 2027-01-31; null for never."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "anna", "scopes": {"egress": "off"}}]})
    name: _Name
    expires: Annotated[str, Field(max_length=40)] | None = None
    scopes: KeyScopes = Field(default_factory=KeyScopes)


class KeyChange(Body):
    """Change what is given of a key; ``scopes`` are replaced as a whole."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "anna's laptop"}]})
    name: _Name | None = None
    expires: Annotated[str, Field(max_length=40)] | None = None
    scopes: KeyScopes | None = None


class SetupBody(Body):
    """Name the first key; ``code`` is the one that the server printed when it started."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"code": "ABCD-EFGH-IJKL-MNOP"}]})
    code: Annotated[str, Field(max_length=100)]
    name: _Name = "administrator"


class ServerKey(Reply):
    """Describe a key without its secret; ``fixed``: it stands in the settings, which alone can change it.

    ``egress`` is the mode that applies to it, ``left`` what left this machine for it since the start.
    """

    object: Literal["key"]
    id: str
    name: str
    state: str
    fixed: bool
    egress: str
    left: str


class NewServerKey(ServerKey):
    """Describe a new key with its secret, which is not kept."""

    secret: str


class ServerKeys(Reply):
    """List all keys in the order of their creation, those of the settings first."""

    object: Literal["list"]
    data: list[ServerKey]


@router.get("/v1/admin/keys", summary="List all keys", responses={200: {"model": ServerKeys}, **errors(429, 503)})
async def list_keys(request: Request) -> Response:
    services: Services = request.app.state.services
    require_administration(request.state.principal)
    store = services.key_lookup.store
    known = () if store is None else await services.compute(request.state.owner, store.known)
    fixed = [_fixed(services, key_id) for key_id in services.key_lookup.fixed_ids]
    return _reply({"object": "list", "data": [*fixed, *(_shown(services, key) for key in known)]})


@router.post(
    "/v1/admin/keys",
    summary="Make a key, whose secret is in this reply alone",
    status_code=201,
    openapi_extra=Reads(KeyBody),
    responses={201: {"model": NewServerKey}, **errors(409, 413, 422, 429, 503)},
)
async def create_key(request: Request) -> Response:
    """Create a key; not on a server without keys, which every program on its machine may use."""
    services: Services = request.app.state.services
    store = _store(services, request.state.principal)
    body = await read_body(request, KeyBody)
    moment = expiry_of(body.expires, datetime.now(UTC)) if body.expires else None
    new_key = NewKey(name=body.name, expires=moment, scopes=body.scopes.checked(), taken=services.key_lookup.fixed_ids)
    secret, key = await services.compute(request.state.owner, lambda: store.create(new_key))
    log_event(log, logging.INFO, "key made", {"key": key.id, "by": request.state.principal.key_id})
    return _reply(_shown(services, key) | {"secret": secret}, 201)


@router.post(
    "/v1/admin/keys/{key_id}",
    summary="Rename a key, or change its scopes, limits or end",
    openapi_extra=Reads(KeyChange),
    responses={200: {"model": ServerKey}, **errors(409, 413, 422, 429, 503)},
)
async def change_key(request: Request, key_id: str) -> Response:
    services: Services = request.app.state.services
    store = _store(services, request.state.principal, key_id)
    body = await read_body(request, KeyChange)
    edit = _guarded(request.state.principal, _edit(body))
    key = await services.compute(request.state.owner, lambda: store.change(key_id, edit))
    log_event(log, logging.INFO, "key changed", {"key": key.id, "by": request.state.principal.key_id})
    return _reply(_shown(services, key))


@router.delete(
    "/v1/admin/keys/{key_id}", summary="Revoke a key", responses={200: {"model": ServerKey}, **errors(409, 429, 503)}
)
async def revoke_key(request: Request, key_id: str) -> Response:
    services: Services = request.app.state.services
    store = _store(services, request.state.principal, key_id)
    edit = _guarded(request.state.principal, revoking(datetime.now(UTC)))
    key = await services.compute(request.state.owner, lambda: store.change(key_id, edit))
    log_event(log, logging.INFO, "key revoked", {"key": key.id, "by": request.state.principal.key_id})
    return _reply(_shown(services, key))


@router.post(
    "/v1/setup",
    summary="Make the first key, which administers, by the code that the server printed",
    status_code=201,
    openapi_extra=Reads(SetupBody),
    responses={201: {"model": NewServerKey}, **errors(409, 413, 422, 503)},
)
async def set_up(request: Request) -> Response:
    """Return the first key of a server that other machines reach; refused where there is a key already."""
    services: Services = request.app.state.services
    body = await read_body(request, SetupBody)
    first, store = services.first_key, services.key_lookup.store
    if first is None or store is None:
        raise RequestError("there is a key, or this server needs none", SETUP_REFUSED)
    first.claim(body.code)
    try:
        new_key = NewKey(name=body.name, scopes=Scopes(may_administer=True))
        secret, key = await services.compute("", lambda: store.create(new_key))
    except BaseException:
        first.release()
        raise
    log_event(log, logging.INFO, "first key made", {"key": key.id})
    return _reply(_shown(services, key) | {"secret": secret}, 201)


def _store(services: Services, principal: Principal, key_id: str = "") -> KeyStore:
    """Return the store of the keys, for a change of ``key_id`` or for a new key.

    Raises:
        RequestError: the principal may not change keys, or ``key_id`` is a key of the settings.
    """
    require_administration(principal)
    store = services.key_lookup.store
    if not principal.owner or store is None:
        message = "on a server without keys, the first is made with `arrowhead key create --admin` on its machine"
        raise RequestError(message, KEY_REFUSED)
    if key_id in services.key_lookup.fixed_ids:
        message = f"{key_id} is a key of server.api_keys: change it there and start the server anew"
        raise RequestError(message, KEY_REFUSED)
    return store


def _edit(body: KeyChange) -> Edit:
    """Return the change of a stored key.

    Raises:
        RequestError, SCOPE_INVALID: a scope or the expiry is invalid.
    """
    changes: dict[str, Any] = {}
    if body.name is not None:
        changes["name"] = body.name
    if body.scopes is not None:
        changes["scopes"] = body.scopes.checked()
    if "expires" in body.model_fields_set:
        changes["expires"] = expiry_of(body.expires, datetime.now(UTC)) if body.expires else None
    return lambda key: replace(key, **changes)


def _guarded(principal: Principal, edit: Edit) -> Edit:
    """Return ``edit`` for all keys but that of ``principal``, which remains an administrator's."""

    def guarded(key: StoredKey) -> StoredKey:
        edited = edit(key)
        if key.id == principal.key_id and not (edited.scopes.may_administer and edited.revoked is None):
            raise RequestError(
                "a key does not revoke itself, nor take the right to administer from itself", KEY_REFUSED
            )
        return edited

    return guarded


def _shown(services: Services, key: StoredKey) -> dict[str, Any]:
    # A key that was made or changed a moment ago may not be known to the policy yet.
    policy = replace(_policy(services), mode_of_key=lambda _: key.scopes.egress)
    told = {"egress": policy.ceiling(key.id), "left": _left(services, key.id)}
    return {"object": "key", **key.as_dict(datetime.now(UTC)), "fixed": False, **told}


def _fixed(services: Services, key_id: str) -> dict[str, Any]:
    told = {"egress": _policy(services).ceiling(key_id), "left": _left(services, key_id)}
    return {"object": "key", "id": key_id, "name": "", "state": "active", "fixed": True, "scopes": None, **told}


def _policy(services: Services) -> EgressPolicy:
    return services.egress.policy if services.egress else EgressPolicy.of(services.settings.egress)


def _left(services: Services, key_id: str) -> str:
    return services.egress.left_by(key_id) if services.egress else NOTHING_LEFT


def _reply(content: dict[str, Any], status: int = 200) -> Response:
    return JSONResponse(content, status_code=status, headers=_NOT_KEPT)
