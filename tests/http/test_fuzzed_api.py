"""Requests made out of the API's own description, right and wrong, some of them following links."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

pytest.importorskip("schemathesis")
SCRIPT = Path(__file__).parents[2] / "scripts" / "fuzz_api.py"


@pytest.mark.server
def test_no_described_request_is_a_server_error_and_replies_are_as_described(tmp_path: Path) -> None:
    """Statuses, types, headers and bodies are those that the document names."""
    fuzzing = runpy.run_path(str(SCRIPT))
    (tmp_path / "run").mkdir()
    with fuzzing["served"](tmp_path) as url:
        outcome = fuzzing["fuzz"](url, tmp_path / "run", fuzzing["Wishes"](cases=120, max_seconds=12))

    assert outcome.status == 0, outcome.said
    assert outcome.cases > 10  # how many there are in the time is the machine's affair
    assert re.search(r"Fuzzing \(in ", outcome.said) and "No issues found" in outcome.said
