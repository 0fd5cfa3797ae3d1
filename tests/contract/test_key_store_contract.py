"""Every key store keeps the promises of ``KeyStore`` in ``server/auth/keys.py``.

To add an implementation, add its name to ``IMPLEMENTATIONS`` and to ``opened`` how the store of a place, which may be
empty, is opened with the given clock. Two stores of one place stand for two processes. A store elsewhere may take a
moment to see what another process changed, so the tests wait for that.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from waiting import in_threads

from server.auth.authentication import ApiKeyLookup, FileKeyStore
from server.auth.keys import KeyStore, NewKey, Scopes, Version
from server.errors import KEY_REFUSED, UNAUTHORIZED, RequestError
from server.state.database import Database
from server.state.keys import PostgresKeyStore
from server.types import key_digest, key_id

IMPLEMENTATIONS = ("file", "postgres")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Clock:
    """Tell a time that only the test moves."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=IMPLEMENTATIONS)
def opened(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Callable[[], KeyStore]]:
    """Open another store of the same keys at each call, as another process does."""
    made: list[KeyStore] = []
    url = request.getfixturevalue("postgres").new_database() if request.param == "postgres" else ""

    def another() -> KeyStore:
        made.append(PostgresKeyStore(Database(url), clock) if url else FileKeyStore(tmp_path / "keys.json", clock))
        return made[-1]

    yield another
    for store in made:
        store.close()


@pytest.fixture
def store(opened: Callable[[], KeyStore]) -> KeyStore:
    return opened()


def followed(store: KeyStore, last: Version | None) -> Version | None:
    """Return the version that comes after ``last``."""
    deadline = time.monotonic() + 120
    while (version := store.version()) == last:
        assert time.monotonic() < deadline, "a change of another process is not seen"
        time.sleep(0.002)
    return version


def test_an_empty_store_has_no_keys_and_no_version(store: KeyStore) -> None:
    """It can be read before the first key is created."""
    assert store.known() == store.read().keys == ()
    assert store.version() is store.read().version is None


def test_only_the_digest_of_a_secret_is_stored(store: KeyStore) -> None:
    """The secret is returned once; the id is the form that logs and settings use."""
    secret, made = store.create(NewKey(name="anna"))
    assert (made.digest, made.id) == (key_digest(secret), key_id(secret))
    assert store.known() == (made,)
    assert secret not in repr(store.known()) and secret[3:] not in repr(store.known())


def test_every_field_is_read_as_it_was_stored(store: KeyStore, opened: Callable[[], KeyStore], clock: Clock) -> None:
    """Another process reads the same scopes and times, which are stored to the second."""
    clock.now += timedelta(microseconds=5)
    scopes = Scopes(
        methods=("direct", "kg-rag"), egress="local-first", requests_per_minute=60, tokens_per_minute=9000,
        namespaces=("asthma",), may_change=False,
    )  # fmt: skip
    expires = datetime(2030, 1, 31, 12, tzinfo=UTC)
    _, made = store.create(NewKey(name="Zoë's laptop".replace("'", ""), expires=expires, scopes=scopes))
    assert opened().known() == (made,)
    assert (made.name, made.created, made.expires, made.revoked, made.scopes) == (
        "Zoës laptop", NOW, expires, None, scopes,
    )  # fmt: skip


def test_keys_are_listed_in_the_order_of_creation(store: KeyStore, clock: Clock) -> None:
    """The times need not differ, and a revoked key keeps its place."""
    made = [store.create(NewKey(name=name))[1].id for name in ("c", "a", "b")]
    clock.now += timedelta(days=1)
    store.revoke("a")
    assert [key.id for key in store.known()] == [key.id for key in store.read().keys] == made


def test_a_revoked_key_stays_known_by_its_id(store: KeyStore, clock: Clock) -> None:
    """Its time of revocation is recorded; a new key may have its name, and never its id."""
    _, first = store.create(NewKey(name="anna"))
    clock.now += timedelta(hours=1)
    gone = store.revoke("anna")
    _, second = store.create(NewKey(name="anna"))
    assert (gone.id, gone.revoked) == (first.id, NOW + timedelta(hours=1))
    assert store.known() == (gone, second)
    assert store.revoke(second.id).id == second.id


def test_a_changed_key_keeps_its_id_and_place(store: KeyStore, opened: Callable[[], KeyStore]) -> None:
    """Name, scopes and expiry are stored; other processes read them, and the others are as they were."""
    _, first = store.create(NewKey(name="anna"))
    _, other = store.create(NewKey(name="ben"))
    scopes = Scopes(methods=("direct",), may_administer=True)
    edited = store.change("anna", lambda key: replace(key, name="anna b", scopes=scopes, expires=NOW))
    assert edited == replace(first, name="anna b", scopes=scopes, expires=NOW)
    assert opened().known() == (edited, other)
    with pytest.raises(RequestError, match="there is a key ben already", check=KEY_REFUSED.is_of):
        store.change(edited.id, lambda key: replace(key, name="ben"))
    assert store.known() == (edited, other)


@pytest.mark.parametrize(("which", "said"), [("nobody", "no key nobody"), ("anna", "revoked already")])
def test_a_key_that_cannot_be_revoked_is_refused(store: KeyStore, which: str, said: str) -> None:
    """Nothing changes."""
    store.create(NewKey(name="anna"))
    store.revoke("anna")
    before = store.known()
    with pytest.raises(RequestError, match=said, check=KEY_REFUSED.is_of):
        store.revoke(which)
    assert store.known() == before


@pytest.mark.parametrize("name", ["", " ", "-x", "a\nb", "x" * 65, "1a2b3c4d", "a/b", "anna ", "anna"])
def test_an_invalid_or_used_name_is_refused(store: KeyStore, name: str) -> None:
    """A name is one short line that no id can be mistaken for, and belongs to one key that is not revoked."""
    _, made = store.create(NewKey(name="anna"))
    version = store.version()
    with pytest.raises(RequestError, check=KEY_REFUSED.is_of):
        store.create(NewKey(name=name))
    assert store.known() == (made,) and store.version() == version


def test_every_change_has_another_version(store: KeyStore, opened: Callable[[], KeyStore]) -> None:
    """A server sees each change of another process at once, also several within one tick of a clock."""
    server = opened()
    last = server.read().version
    for number in range(40):
        if number % 2:
            store.revoke(f"key {number - 1}")
        else:
            store.create(NewKey(name=f"key {number}"))
        followed(server, last)
        snapshot = server.read()
        assert snapshot.keys == store.known()
        last = snapshot.version
        assert server.version() == last


def test_an_unchanged_store_keeps_its_version(store: KeyStore) -> None:
    """Reading is no change."""
    store.create(NewKey(name="anna"))
    version = store.read().version
    store.known()
    assert version is not None
    assert store.version() == store.read().version == version


def test_a_closed_store_remains_usable(store: KeyStore) -> None:
    """Closing twice is no error."""
    store.create(NewKey(name="anna"))
    store.read()
    store.close()
    store.close()
    assert len(store.read().keys) == len(store.known()) == 1


def test_a_key_lookup_follows_the_changes_of_another_process(
    store: KeyStore, opened: Callable[[], KeyStore], clock: Clock
) -> None:
    """A key counts from its creation until it is revoked or expires."""
    server = opened()
    ring = ApiKeyLookup((), server, clock)
    assert not ring.requires_key
    first, made = store.create(NewKey(name="anna", scopes=Scopes(requests_per_minute=7)))
    version = followed(server, None)
    second, _ = store.create(NewKey(name="ben", expires=NOW + timedelta(days=1)))
    version = followed(server, version)
    principal = ring.find(first)
    assert (principal.owner, principal.scopes, principal.is_operator) == (made.digest, made.scopes, False)
    assert ring.find(second).owner
    store.revoke("anna")
    followed(server, version)
    clock.now += timedelta(days=1)
    for secret in (first, second):
        with pytest.raises(RequestError, check=UNAUTHORIZED.is_of):
            ring.find(secret)
    assert ring.requires_key
    ring.close()


def test_concurrent_changes_lose_nothing(store: KeyStore, opened: Callable[[], KeyStore]) -> None:
    """Of three processes that create and revoke at the same time, each keeps what the others stored."""

    def change(opening: tuple[KeyStore, str]) -> None:
        store, who = opening
        for number in range(8):
            store.create(NewKey(name=f"{who}{number}"))
        store.revoke(f"{who}0")

    in_threads(change, [(opened(), who) for who in "abc"])
    known = store.known()
    assert {key.name for key in known} == {f"{who}{number}" for who in "abc" for number in range(8)}
    assert {key.name for key in known if key.revoked} == {"a0", "b0", "c0"}


def test_of_concurrent_keys_with_one_name_one_is_created(store: KeyStore, opened: Callable[[], KeyStore]) -> None:
    """The check of the name and the change are one step."""
    made: list[str] = []

    def create(store: KeyStore) -> None:
        with contextlib.suppress(RequestError):
            made.append(store.create(NewKey(name="anna"))[1].id)

    in_threads(create, [opened() for _ in range(6)])
    assert [key.id for key in store.known()] == made and len(made) == 1
