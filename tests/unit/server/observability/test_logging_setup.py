"""Logs hold no text of users, whatever is logged: exceptions have a type and a place, tasks have neither repr."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
from collections.abc import Iterator

import pytest

from server.observability.logging_setup import setup_logging
from server.settings.observability import LogSettings

CANARY = "canary-quillfeather"


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    root.handlers[:] = before
    root.setLevel(level)


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_an_exception_is_logged_without_its_message(capsys: pytest.CaptureFixture[str], log_format: str) -> None:
    """Its type, its cause's type and where they happened; at every level."""
    setup_logging(LogSettings(level="DEBUG", format=log_format))  # type: ignore[arg-type]
    try:
        try:
            raise KeyError(CANARY)
        except KeyError as inner:
            raise ValueError(f"cannot read {CANARY}") from inner
    except ValueError:
        logging.getLogger("x").exception("reply cannot be read")
    said = capsys.readouterr().err

    assert CANARY not in said
    assert "reply cannot be read" in said and "ValueError" in said and "KeyError" in said
    assert "test_logging_setup.py" in said
    if log_format == "json":
        assert "ValueError" in json.loads(said)["exception"]


async def test_a_forgotten_task_tells_nothing_but_that_it_failed(capsys: pytest.CaptureFixture[str]) -> None:
    """asyncio would print the exception with its text and the task with its arguments."""
    setup_logging(LogSettings(level="DEBUG"))

    async def fail() -> None:
        raise ValueError(CANARY)

    task = asyncio.create_task(fail(), name=CANARY)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    del task
    gc.collect()
    said = capsys.readouterr().err

    assert "Task exception was never retrieved" in said and "ValueError" in said
    assert CANARY not in said
