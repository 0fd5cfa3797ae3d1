"""The rules of keys that hold in every store of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from server.auth.keys import (
    MAX_ACTIVE,
    MAX_KEPT,
    NewKey,
    Scopes,
    StoredKey,
    changed,
    expiry_of,
    key_for,
    retained,
    revoking,
)
from server.errors import KEY_REFUSED, SCOPE_INVALID, RequestError
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
    keys[5] = changed("key 5", keys, revoking(NOW))
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


def test_what_may_be_shown_of_a_key_has_no_digest() -> None:
    (key,) = _keys(1)
    told = key.as_dict(NOW)
    assert (told["id"], told["state"], told["scopes"]["may_administer"]) == (key.id, "active", False)
    assert key.digest not in str(told)
    states = [one.as_dict(NOW)["state"] for one in (replace(key, expires=NOW), replace(key, revoked=NOW))]
    assert states == ["expired", "revoked"]


@pytest.mark.parametrize(
    ("text", "expiry"),
    [
        ("12h", NOW + timedelta(hours=12)),
        ("4w", NOW + timedelta(weeks=4)),
        ("2027-01-31", datetime(2027, 1, 31, tzinfo=UTC)),
        ("2027-01-31T12:00:00+02:00", datetime(2027, 1, 31, 10, tzinfo=UTC)),
    ],
)
def test_an_expiry_is_a_period_or_a_time(text: str, expiry: datetime) -> None:
    assert expiry_of(text, NOW) == expiry


@pytest.mark.parametrize("text", ["", "soon", "0d", "99999w9", "2025-12-31", "9999-12-31T23:59:59-10:00"])
def test_an_expiry_that_is_none_or_past_is_refused(text: str) -> None:
    with pytest.raises(RequestError, match="expires", check=SCOPE_INVALID.is_of):
        expiry_of(text, NOW)


def test_a_renamed_key_has_a_name_of_its_own() -> None:
    """Its own old one is no obstacle, that of another active key is; scopes are changed without a look at the name."""
    keys = _keys(2)
    assert changed("key 0", keys, lambda key: replace(key, name="anna")).name == "anna"
    for name in ("key 1", "a/b", "12345678"):
        with pytest.raises(RequestError, check=KEY_REFUSED.is_of):
            changed("key 0", keys, lambda key, name=name: replace(key, name=name))  # type: ignore[misc]
    scopes = Scopes(may_administer=True)
    assert changed(keys[0].id, keys, lambda key: replace(key, scopes=scopes)).scopes == scopes
