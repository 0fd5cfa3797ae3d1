"""A statement is checked by its signature; a change, another key or another file is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from models.errors import ArrowheadError
from server.serving.egress_proof import NOTHING, _key, check, signed

STATEMENT = {"format": 1, "verdict": NOTHING, "left": [], "asked": [{"model": "m", "outcome": "answered"}]}


def test_a_statement_is_checked_as_it_was_written() -> None:
    """Also after a way through a file, in another order of its members."""
    made = signed(STATEMENT, Ed25519PrivateKey.generate())
    read = json.loads(json.dumps(dict(reversed(made.items())), indent=2))

    check(read)
    check(read, read["public_key"])
    with pytest.raises(ArrowheadError, match="another key"):
        check(read, signed(STATEMENT, Ed25519PrivateKey.generate())["public_key"])


@pytest.mark.parametrize(
    "change",
    [{"verdict": "something left"}, {"left": [1]}, {"signature": "AAAA"}, {"signature": "ä"}, {"public_key": 1}],
)
def test_a_change_is_told(change: dict[str, Any]) -> None:
    with pytest.raises(ArrowheadError, match="changed"):
        check(signed(STATEMENT, Ed25519PrivateKey.generate()) | change)


@pytest.mark.parametrize("other", [None, [], {}, {"format": 9}])
def test_another_file_is_no_statement(other: object) -> None:
    with pytest.raises(ArrowheadError, match="no statement"):
        check(other)


def test_the_key_is_made_once_and_for_its_owner(tmp_path: Path) -> None:
    file = tmp_path / "state" / "proof.key"
    first = _key(file)

    assert _key(file).private_bytes_raw() == first.private_bytes_raw()
    assert file.stat().st_mode & 0o077 == 0
    file.write_bytes(b"short")
    with pytest.raises(ArrowheadError, match="no key"):
        _key(file)
