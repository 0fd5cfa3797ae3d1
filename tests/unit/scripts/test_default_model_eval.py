"""Scores of the default model: what counts as right, cited and said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scripts.evals.default_model import Row, scores, table


def _scores(item: Row, answer: str) -> dict[str, list[float]]:
    return scores([replace(item, answer=answer)])


@pytest.mark.parametrize(
    ("answer", "right", "cited", "silent"),
    [
        ("Yes [2].", 1.0, 1.0, 0.0),
        ("yes, it is [1, 2]", 1.0, 1.0, 0.0),
        ("No [2].", 0.0, 1.0, 0.0),
        ("Yesterday [3]", 0.0, 0.0, 0.0),
        ("The passages do not say.", 0.0, 0.0, 1.0),
    ],
)
def test_yes_or_no_is_the_first_word(answer: str, right: float, cited: float, silent: float) -> None:
    found = _scores(Row(group="yesno", answer="", yes_no="yes", gold=2), answer)

    assert found["yes/no"] == found["yes/no, yes"] == [right]
    assert found["gold passage cited"] == [cited]
    assert found["says so wrongly"] == [silent]


def test_a_factoid_is_right_with_any_of_its_names() -> None:
    item = Row(group="factoid", answer="", names=(("protamine sulfate", "protamine"),), gold=1)

    assert _scores(item, "It is Protamine [1].")["factoid, lenient"] == [1.0]
    assert _scores(item, "It is Protamine [1].")["factoid, strict"] == [0.0]
    assert _scores(item, "protamine [1].")["factoid, strict"] == [1.0]
    assert _scores(item, "protaminex [1].")["factoid, lenient"] == [0.0]
    quoted = replace(item, reasoning="[1] says: Protamine reverses heparin.")
    assert _scores(quoted, "It [1].")["factoid, in the sentence quoted"] == [1.0]


def test_silence_is_right_where_nothing_is_there() -> None:
    item = Row(group="none", answer="")

    assert _scores(item, "The passages do not say.") == {"says so where nothing is there": [1.0]}
    assert _scores(item, "It does not bind [1].") == {"says so where nothing is there": [0.0]}


def test_closed_forms_are_right_word_for_word() -> None:
    item = Row(group="multiple_choice", answer="", right="none of these")

    assert _scores(item, "none of these")["multiple_choice, nothing there"] == [1.0]
    assert _scores(item, "TERT")["multiple_choice"] == [0.0]


def test_the_table_has_shares_and_intervals() -> None:
    lines = table({"yes/no": [1.0, 0.0, 1.0, 1.0]}).splitlines()

    assert lines[2].startswith("| yes/no | 4 | 0.75 | 0.")
