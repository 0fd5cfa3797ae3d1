"""``arrowhead collections``: what can be added, without loading anything."""

from __future__ import annotations

import pytest

from server.cli.collections import duration
from server.cli.main import main


def test_it_tells_licence_command_and_resume_of_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["collections"]) == 0

    told = capsys.readouterr().out
    assert "arrowhead collections add pubmed" in told
    assert told.count("  licence  ") == told.count("  resume   ") >= 5
    assert "  time " not in told


@pytest.mark.parametrize(
    ("seconds", "text"), [(1.4, "1 s"), (119, "119 s"), (600, "10 min"), (36_000, "10 h"), (864_000, "10 days")]
)
def test_a_time_is_told_in_a_unit_that_fits(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_files_of_an_unlisted_collection_are_refused_with_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["collections", "add", "nowhere", "some.zip"]) == 2
    assert "dailymed" in capsys.readouterr().err
