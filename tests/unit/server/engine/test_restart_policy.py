"""When a dead engine is tried again, and when no more."""

from __future__ import annotations

from server.engine.lifecycle import MAX_DELAY_S, RestartPolicy


def test_each_try_waits_twice_as_long() -> None:
    """Up to a bound."""
    restarts = RestartPolicy(tries=9, backoff_s=1)

    assert [restarts.next_delay(0) for _ in range(8)] == [1, 2, 4, 8, 16, 32, MAX_DELAY_S, MAX_DELAY_S]


def test_tries_come_back_when_the_window_has_passed() -> None:
    """None while they are used up."""
    restarts = RestartPolicy(tries=2, window_s=100)

    assert [restarts.next_delay(now) for now in (0, 50, 99, 120, 121)] == [1, 2, None, 2, None]
    assert restarts.total == 3
