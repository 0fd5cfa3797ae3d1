"""Logs hold no text of users, whatever is logged: exceptions have a type and a place, tasks have neither repr."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import warnings
from collections.abc import Iterator

import pytest

from server.observability.observer import log_event, setup_logging
from server.settings.server import LogSettings

CANARY = "canary-quillfeather"


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield
    root.handlers[:] = before
    logging.captureWarnings(False)
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
    assert "test_observer.py" in said
    if log_format == "json":
        assert "ValueError" in json.loads(said)["exception"]


FORGED = "x\r\n2026-01-01 00:00:00,000 INFO server [-] all is well\x1b[2J\x00\x85\u2028\u202e\ud800\U000e0041"


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_no_text_forges_a_line(capsys: pytest.CaptureFixture[str], log_format: str) -> None:
    """Whatever a message or a field holds is one line of visible characters, cut."""
    setup_logging(LogSettings(level="DEBUG", format=log_format))  # type: ignore[arg-type]
    logging.getLogger("x").info("name=%s", FORGED)
    log_event(logging.getLogger("x"), logging.INFO, "event", {"name": FORGED, "long": "y" * 1_000_000})
    said = capsys.readouterr().err

    assert len(said.splitlines()) == said.count("\n") == 2 and len(said) < 6000
    assert said.replace("\n", "").isprintable()
    assert r"\x1b[2J" in said.replace(r"\\", "\\") and "characters more" in said
    if log_format == "json":
        assert [json.loads(line)["message"][:5] for line in said.splitlines()] == ["name=", "event"]


def test_a_record_that_cannot_be_formatted_is_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """Python would print the message with its arguments."""
    setup_logging(LogSettings(level="DEBUG"))
    logging.getLogger("x").info("%d", CANARY)
    said = capsys.readouterr().err

    assert CANARY not in said and "could not be written" in said


def test_a_warning_of_a_library_tells_where_and_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    """Its text may quote a value, as pydantic's do."""
    setup_logging(LogSettings(level="DEBUG"))
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        warnings.warn(f"unexpected value {CANARY}", UserWarning, stacklevel=1)
    logging.captureWarnings(False)
    said = capsys.readouterr().err

    assert "test_observer.py" in said and "UserWarning" in said and CANARY not in said


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
