"""Who may make the first key of a server: the person who reads its code, once, within ten tries."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from refusals import refused_for

from server.auth.authentication import ApiKeyLookup, FileKeyStore
from server.auth.first_key import MAX_TRIES, FirstKey, first_key
from server.auth.keys import NewKey
from server.errors import FIRST_KEY_NEEDED, SETUP_REFUSED
from server.settings.server import ServerSettings

OPEN = ServerSettings(host="0.0.0.0")


@pytest.fixture
def store(tmp_path: Path) -> FileKeyStore:
    return FileKeyStore(tmp_path / "keys.json")


@pytest.fixture
def first(store: FileKeyStore) -> FirstKey:
    found = first_key(OPEN, ApiKeyLookup((), store))
    assert found is not None
    return found


def test_a_server_with_a_key_or_of_this_machine_alone_has_no_code(store: FileKeyStore) -> None:
    """A key that is expired or revoked is none."""
    assert first_key(ServerSettings(), ApiKeyLookup((), store)) is None
    assert first_key(OPEN, ApiKeyLookup(["a-key-of-the-settings"], store)) is None
    store.create(NewKey(name="anna"))
    assert first_key(OPEN, ApiKeyLookup((), store)) is None
    store.revoke("anna")
    store.create(NewKey(name="past", expires=datetime.now(UTC)))
    assert first_key(OPEN, ApiKeyLookup((), store)) is not None


def test_each_start_has_another_code(store: FileKeyStore) -> None:
    """Of 80 bits, in groups that can be read out, and not kept with the keys."""
    codes = {FirstKey(ApiKeyLookup((), store)).code for _ in range(50)}
    assert len(codes) == 50
    assert all(re.fullmatch(r"([A-Z2-7]{4}-){3}[A-Z2-7]{4}", code) for code in codes)
    assert not store.path.exists()


@pytest.mark.parametrize("spell", [str, str.lower, lambda code: code.replace("-", " "), lambda code: f" {code} "])
def test_the_code_may_be_typed_as_people_do(first: FirstKey, spell: object) -> None:
    """With blanks, without dashes, in small letters, with digits that look like its letters."""
    assert callable(spell)
    first.claim(spell(first.code).replace("O", "0").replace("I", "1").replace("B", "8"))


def test_a_code_counts_once(first: FirstKey) -> None:
    """What is taken is gone, unless no key came of it."""
    first.claim(first.code)
    with refused_for(SETUP_REFUSED):
        first.claim(first.code)
    first.release()
    first.claim(first.code)


def test_the_code_ends_after_ten_wrong_tries(first: FirstKey) -> None:
    """The right one is of no use then; the error says how to go on."""
    for left in reversed(range(MAX_TRIES)):
        assert first.is_open
        with pytest.raises(Exception, match=f"{left} tries are left"):
            first.claim(("C" if first.code[0] == "A" else "A") + first.code[1:])
    assert first.is_needed
    assert not first.is_open
    with refused_for(SETUP_REFUSED):
        first.claim(first.code)
    refusal = first.refusal()
    assert FIRST_KEY_NEEDED.is_of(refusal)
    assert "start it again" in refusal.message and "arrowhead key create" in refusal.message
    assert first.code not in refusal.message


def test_a_key_that_is_made_otherwise_ends_the_code(first: FirstKey, store: FileKeyStore) -> None:
    """For good: also when that key is revoked, the server goes on asking for one."""
    assert first.is_open and first.code not in first.refusal().message
    store.create(NewKey(name="anna"))
    assert not first.is_needed
    store.revoke("anna")
    assert (first.is_needed, first.is_open) == (False, False)
    with refused_for(SETUP_REFUSED):
        first.claim(first.code)
