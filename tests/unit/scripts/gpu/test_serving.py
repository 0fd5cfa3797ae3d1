"""The server that a check starts is waited for and ended; its failure is an error of the check."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.gpu.serving import post, served, vocabulary
from scripts.served import is_ready


@pytest.mark.server
def test_a_server_that_does_not_start_is_an_error(tmp_path: Path) -> None:
    """Here, as the folder holds no model."""
    with pytest.raises(RuntimeError, match="was not ready"), served(tmp_path / "nothing", start_s=60):
        raise AssertionError("it started")


def test_nobody_there_is_not_ready_and_answers_nothing() -> None:
    assert is_ready("http://127.0.0.1:9/ready") is False
    status, reply = post("http://127.0.0.1:9", "/v1/completions", {})
    assert status == 0 and "ConnectError" in reply["error"]["message"]


def test_the_vocabulary_is_read_from_either_place(tmp_path: Path) -> None:
    for text in ('{"vocab_size": 7}', '{"text_config": {"vocab_size": 7}}'):
        (tmp_path / "config.json").write_text(text)
        assert vocabulary(tmp_path) == 7
