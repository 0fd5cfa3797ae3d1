"""What may leave for an answer, and for a key in an hour and a day."""

from __future__ import annotations

from server.egress import policy
from server.egress.policy import Budget, BudgetLimits


class Clock:
    def __init__(self) -> None:
        self.at = 1_000_000.0

    def __call__(self) -> float:
        return self.at


def _budget(clock: Clock, *, answer: int = 10, hour: int = 25, day: int = 40) -> Budget:
    return Budget(BudgetLimits(per_answer=answer, per_hour=hour, per_day=day), clock)


def test_an_answer_has_its_own_budget() -> None:
    """What exceeds it is not counted; a shorter call still fits; another answer starts anew."""
    spent = _budget(Clock())

    assert [spent.spend("a", "k", number) for number in (6, 6, 4, 1)] == [None, "answer_budget", None, "answer_budget"]
    assert spent.spend("b", "k", 10) is None


def test_a_forgotten_answer_leaves_its_keys_count() -> None:
    """Its id may come again; the hour's count has grown."""
    spent = _budget(Clock())
    for _ in range(2):
        assert spent.spend("a", "k", 10) is None
        spent.forget("a")

    assert spent.spend("a", "k", 10) == "hour_budget"
    assert spent.spend("a", "other", 10) is None


def test_an_hour_and_a_day_pass() -> None:
    """Counts slide with the clock; a minute counts until all of it has passed."""
    clock = Clock()
    spent = _budget(clock, answer=100)
    assert spent.spend("a", "k", 25) is None and spent.spend("b", "k", 1) == "hour_budget"
    clock.at += 3600
    assert spent.spend("c", "k", 1) == "hour_budget"
    clock.at += 61
    assert spent.spend("d", "k", 15) is None
    clock.at += 3700
    assert spent.spend("e", "k", 1) == "day_budget"
    clock.at += 24 * 3600
    assert spent.spend("f", "k", 25) is None


def test_memory_is_bounded_by_minutes() -> None:
    """However many calls leave in one, and what is older than a day is dropped."""
    clock = Clock()
    spent = _budget(clock, answer=10**6, hour=10**6, day=10**6)
    for _ in range(3000):
        assert spent.spend("a", "k", 1) is None
        clock.at += 60
    held = spent._keys["k"].minutes

    assert len(held) <= 24 * 60 + 2


def test_a_flood_of_keys_renews_nobodys_budget() -> None:
    """Where all places are taken by keys that have spent within the day, further ones wait."""
    clock = Clock()
    spent = _budget(clock)
    for number in range(policy._MAX_KEYS):
        assert spent.spend(f"a{number}", f"k{number}", 1) is None

    assert spent.spend("b", "another", 1) == "day_budget"
    assert spent.spend("c", "k0", 9) is None
    clock.at += 25 * 3600
    assert spent.spend("d", "another", 1) is None
