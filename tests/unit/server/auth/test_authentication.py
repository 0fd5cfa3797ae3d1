"""What a running server knows of its keys, and what it does when it cannot know."""

from __future__ import annotations

import ast
import inspect
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from server.auth import authentication
from server.auth.authentication import OPERATOR, ApiKeyLookup, FileKeyStore, Principal, access_lines, named_keys
from server.auth.keys import KeyStoreError, NewKey, Scopes
from server.cli.doctor import examine
from server.egress.policy import EgressPolicy
from server.errors import UNAUTHORIZED, RequestError
from server.settings.egress import EgressSettings
from server.settings.schema import Settings
from server.types import key_digest, key_id

FIXED = "a-key-of-the-settings"


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def store(tmp_path: Path) -> FileKeyStore:
    return FileKeyStore(tmp_path / "keys.json")


def _refused(ring: ApiKeyLookup, secret: str) -> bool:
    try:
        ring.find(secret)
    except RequestError:
        return True
    return False


def test_a_new_key_counts_at_the_next_request_and_a_revoked_one_no_more(store: FileKeyStore) -> None:
    """Without a start of the server."""
    ring = ApiKeyLookup([FIXED], store)
    secret, made = store.create(NewKey(name="anna", scopes=Scopes(egress="off")))

    assert ring.find(secret) == Principal(owner=made.digest, scopes=made.scopes)
    store.revoke("anna")
    assert _refused(ring, secret)
    assert ring.find(FIXED) == Principal(owner=key_digest(FIXED), is_operator=True)


def test_changes_right_after_one_another_are_all_seen(store: FileKeyStore) -> None:
    """Within one tick of the file system's clock, and where a new file gets an old one's inode."""
    ring = ApiKeyLookup((), store)
    for number in range(40):
        secret, _ = store.create(NewKey(name=f"key {number}"))
        assert ring.find(secret).owner
        store.revoke(f"key {number}")
        assert _refused(ring, secret)


def test_an_unchanged_file_is_not_read_again(store: FileKeyStore) -> None:
    """A request costs one look at the file's state."""
    secret, _ = store.create(NewKey(name="anna"))
    reads = []

    class Counting(FileKeyStore):
        def read(self):  # type: ignore[no-untyped-def]
            reads.append(1)
            return super().read()

    ring = ApiKeyLookup((), Counting(store.path))
    for _ in range(50):
        ring.find(secret)
    assert len(reads) == 1


def test_a_key_ends_when_it_expires(store: FileKeyStore) -> None:
    """To the second, by the server's clock."""
    clock = Clock()
    secret, _ = store.create(NewKey(name="anna", expires=clock.now + timedelta(days=1)))
    ring = ApiKeyLookup((), store, clock)

    assert ring.find(secret).owner
    clock.now += timedelta(days=1)
    assert _refused(ring, secret)
    with pytest.raises(RequestError, check=UNAUTHORIZED.is_of):
        ring.principal_of(key_digest(secret))


def test_a_server_that_asked_for_keys_goes_on_asking(store: FileKeyStore) -> None:
    """Also when the last key is revoked, or the file is gone: it does not open to everybody."""
    ring = ApiKeyLookup((), store)
    assert not ring.requires_key and ring.principal_of("") == OPERATOR
    secret, _ = store.create(NewKey(name="anna"))
    assert ring.requires_key
    store.revoke("anna")
    assert ring.requires_key and _refused(ring, secret)
    store.path.unlink()
    assert ring.requires_key and _refused(ring, secret)
    with pytest.raises(RequestError, check=UNAUTHORIZED.is_of):
        ring.principal_of("")


def test_a_file_that_cannot_be_read_opens_to_nobody(store: FileKeyStore, caplog: pytest.LogCaptureFixture) -> None:
    """Neither to its keys nor to all; the settings' keys go on. Told once in the log; its place not to the client."""
    secret, _ = store.create(NewKey(name="anna"))
    good = store.path.read_text()
    ring = ApiKeyLookup([FIXED], store)
    store.path.write_text("{")
    for _ in range(3):
        with pytest.raises(KeyStoreError) as refused:
            ring.find(secret)
    assert str(store.path.parent) not in refused.value.message
    assert ring.find(FIXED).is_operator and ring.requires_key
    assert sum(str(store.path) in record.getMessage() for record in caplog.records) == 1
    store.path.write_text(good)
    assert ring.find(secret).owner
    with pytest.raises(KeyStoreError):
        store.path.write_text("{")
        ApiKeyLookup((), store)


def test_rights_that_are_mended_are_noticed(store: FileKeyStore) -> None:
    """A change of rights alone counts as a change of the file."""
    secret, _ = store.create(NewKey(name="anna"))
    ring = ApiKeyLookup((), store)
    store.path.chmod(0o622)
    with pytest.raises(KeyStoreError):
        ring.find(secret)
    store.path.chmod(0o600)
    assert ring.find(secret).owner


def test_one_file_is_held_open_and_no_more(store: FileKeyStore) -> None:
    """Through a hundred changes."""
    ring = ApiKeyLookup((), store)
    for number in range(50):
        store.create(NewKey(name=f"key {number}"))
        assert ring.requires_key
    held = [
        path for path in Path("/proc/self/fd").iterdir()
        if os.path.lexists(path) and str(path.readlink()).startswith(str(store.path.parent))
    ]  # fmt: skip
    assert len(held) == 1
    ring.close()


def test_keys_are_compared_in_constant_time_and_all_of_them() -> None:
    """By the function that is made for it, in a loop that nothing ends early."""
    tree = ast.parse(inspect.getsource(authentication))
    find = next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "find")
    (loop,) = [node for node in ast.walk(find) if isinstance(node, ast.For)]

    assert "hmac.compare_digest(digest, entry.digest)" in ast.unparse(loop)
    assert not any(isinstance(node, ast.Break | ast.Return) for node in ast.walk(loop))


def test_a_key_lowers_the_mode_and_never_raises_it(store: FileKeyStore) -> None:
    """The least of server, settings and scopes counts; nothing leaves for a key of which nothing is known."""
    ids = {}
    for name, mode in (("low", "off"), ("middle", "local-first"), ("high", "ncbi"), ("plain", None)):
        ids[name] = store.create(NewKey(name=name, scopes=Scopes(egress=mode)))[1].id  # type: ignore[arg-type]
    ring = ApiKeyLookup([FIXED], store)
    policy = replace(EgressPolicy.of(EgressSettings(mode="local-first")), mode_of_key=ring.mode_of)

    assert [policy.ceiling(ids[name]) for name in ("low", "middle", "high", "plain")] == [
        "off", "local-first", "local-first", "local-first",
    ]  # fmt: skip
    assert policy.ceiling(key_id(FIXED)) == policy.ceiling("") == "local-first"
    assert policy.ceiling("00000000") == "off"
    store.revoke("low")
    assert ring.requires_key and policy.ceiling(ids["low"]) == "off"
    lowered = replace(policy, key_modes={ids["plain"]: "off"})
    assert lowered.ceiling(ids["plain"]) == "off"


def test_the_start_and_the_doctor_name_keys_by_their_ids(store: FileKeyStore) -> None:
    """Not all of many, no secret, and what is wrong with the file's rights."""
    secrets = [store.create(NewKey(name=f"key {n}"))[0] for n in range(22)]
    ring, settings = ApiKeyLookup([FIXED], store), _settings(store.path, "127.0.0.1", FIXED)
    told = named_keys(ring, EgressPolicy.of(settings.egress).ceiling)
    said = "\n".join([told, *access_lines(settings, ring), finding_of(settings)[1]])

    assert told.startswith(f"{key_id(FIXED)} off, {key_id(secrets[0])} off, ") and told.endswith(" and 3 more")
    assert f"(1 of the settings, 22 of {store.path})" in said
    assert not any(secret in said for secret in (FIXED, *secrets))
    assert finding_of(settings)[0] == "ok"
    store.path.chmod(0o644)
    assert finding_of(settings)[0] == "warn" and "chmod 600" in finding_of(settings)[1]
    store.path.chmod(0o666)
    assert finding_of(settings)[0] == "fail"
    store.path.unlink()
    status, detail = finding_of(_settings(store.path, "0.0.0.0"))
    assert status == "warn" and "arrowhead key create" in detail


def finding_of(settings: Settings) -> tuple[str, str]:
    """The doctor's, of keys."""
    (found,) = [finding for finding in examine(settings) if finding.what == "keys"]
    return found.status, found.detail


def _settings(path: Path, host: str, *keys: str) -> Settings:
    server = {"host": host, "keys_file": str(path), "api_keys": keys}
    # No weights to be checked.
    return Settings.model_validate({"server": server, "model": {"engine": "scripted", "script": "none.json"}})
