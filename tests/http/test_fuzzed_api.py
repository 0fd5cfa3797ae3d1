"""Requests made out of the API's own description, right and wrong, some of them following links."""

from __future__ import annotations

import re

import pytest

from scripts import fuzz_api

pytest.importorskip("schemathesis")


@pytest.mark.server
def test_no_described_request_is_a_server_error_and_replies_are_as_described(capfd: pytest.CaptureFixture[str]) -> None:
    """Statuses, types, headers and bodies are those that the document names."""
    status = fuzz_api.main(["--cases", "120", "--max-seconds", "12"])

    said = capfd.readouterr().out
    made = re.search(r"([\d,]+) generated", said)
    assert status == 0 and made, said
    assert int(made[1].replace(",", "")) > 0  # how many there are in the time is the machine's affair
    assert re.search(r"Fuzzing \(in ", said) and "No issues found" in said
