"""The rules of keys that hold in every store of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from server.auth.keys import MAX_ACTIVE, MAX_KEPT, NewKey, StoredKey, key_for, retained, revoked
from server.errors import KEY_REFUSED, RequestError
from server.types import id_of_digest, key_digest

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def _keys(number: int) -> list[StoredKey]:
    digests = [key_digest(f"secret {n}") for n in range(number)]
    return [
        StoredKey(id=id_of_digest(digest), digest=digest, name=f"key {n}", created=NOW)
        for n, digest in enumerate(digests)
    ]


def test_the_number_of_usable_keys_is_bounded() -> None:
    """A program that creates keys without end is refused until one is revoked."""
    keys = _keys(MAX_ACTIVE)
    with pytest.raises(RequestError, match="revoke some", check=KEY_REFUSED.is_of):
        key_for(NewKey(name="one more"), keys, NOW)
    keys[5] = revoked("key 5", keys, NOW)
    assert key_for(NewKey(name="one more"), keys, NOW)[1].name == "one more"


def test_an_id_of_the_settings_is_not_used_again() -> None:
    """Logs and settings name a key by its id, so each has one of its own."""
    secret, made = key_for(NewKey(name="anna", taken=[key.id for key in _keys(3)]), _keys(3), NOW)
    assert made.id not in {key.id for key in _keys(3)}
    assert secret.startswith("ah-") and len(secret) == 46


def test_the_oldest_revoked_keys_are_dropped_first() -> None:
    """Usable keys are never dropped, however many there are."""
    keys = _keys(MAX_KEPT + 2)
    assert retained(keys) == tuple(keys)
    for number in (3, 7, 9):
        keys[number] = replace(keys[number], revoked=NOW)
    assert [key.name for key in keys if key not in retained(keys)] == ["key 3", "key 7"]


def test_a_key_is_the_digest_of_its_secret_and_its_times_have_zones() -> None:
    """A record that contradicts itself cannot be made, so no store can return one."""
    (key,) = _keys(1)
    for wrong in ({"id": "00000000"}, {"digest": "0" * 64}, {"created": NOW.replace(tzinfo=None)}):
        with pytest.raises(ValueError, match=r"digest|zone"):
            replace(key, **wrong)
    expiring = replace(key, expires=NOW)
    assert not expiring.is_usable(NOW) and expiring.is_usable(NOW - timedelta(seconds=1))
