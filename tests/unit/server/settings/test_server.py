"""Who shares a prefix cache, by the settings."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from server.methods.base import AnswerRequest
from server.settings.server import ServerSettings

KEYS = ("0a1b2c3d", "4e5f6a7b")


def test_each_key_has_its_own_cache_by_default() -> None:
    """Times reveal nothing of other keys."""
    assert ServerSettings().shared_salt is None
    assert ServerSettings(cache_salt="none").shared_salt == ""


def test_the_keys_of_an_organisation_share_a_cache() -> None:
    """By its name, which differs from that of another one and from every key's id."""
    here, there = (ServerSettings(cache_salt=f"organisation:{name}") for name in ("here", "there"))

    assert here.shared_salt not in {there.shared_salt, "", None, *KEYS}


def test_an_organisation_needs_a_name() -> None:
    """Else all organisations without one would share a cache."""
    with pytest.raises(ValidationError, match="organisation:"):
        ServerSettings(cache_salt="organisation")


@pytest.mark.parametrize(
    ("salt", "expected"), [(None, "0a1b2c3d"), ("organisation:lab", "organisation:lab"), ("", None)]
)
def test_an_answer_has_the_salt_of_the_settings(salt: str | None, expected: str | None) -> None:
    """An empty one is none at all; without one it is its key's."""
    assert AnswerRequest(request_id="r", key_id=KEYS[0], salt=salt).cache_salt == expected
