"""Request ids of BLAST searches that NCBI gave to this server."""

from __future__ import annotations

from server.egress.policy import LIFETIME_S, ReceivedRequestIds


def test_an_id_is_its_keys_own_for_a_day() -> None:
    """Another key has not received it, and after a day nobody has."""
    now = [0.0]
    received = ReceivedRequestIds(lambda: now[0])
    received.add("k", "ABCDEFGH012")

    assert received.has("k", "ABCDEFGH012")
    assert not received.has("other", "ABCDEFGH012") and not received.has("k", "JOHNSMITH01")
    now[0] = LIFETIME_S
    assert not received.has("k", "ABCDEFGH012")


def test_the_newest_are_kept() -> None:
    """At most 2,000 of all keys."""
    received = ReceivedRequestIds(lambda: 0.0)
    for number in range(2001):
        received.add("k", f"R{number}")

    assert not received.has("k", "R0") and received.has("k", "R1") and received.has("k", "R2000")
