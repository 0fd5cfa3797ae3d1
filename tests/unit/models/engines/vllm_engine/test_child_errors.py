"""What is learnt of the exceptions that vLLM's processes log."""

from __future__ import annotations

import json
import logging
import logging.config
from collections.abc import Iterator
from pathlib import Path

import pytest

from models.engines.vllm_engine.child_errors import ChildErrors, error_line

CORE, WORKER = "vllm.v1.engine.core", "vllm.v1.executor.multiproc_executor"


@pytest.fixture
def errors() -> Iterator[ChildErrors]:
    found = ChildErrors({})
    config = Path(found.environment("CRITICAL")["VLLM_LOGGING_CONFIG_PATH"])
    logging.config.dictConfig(json.loads(config.read_text()))
    # As loud as vLLM's own default, but not on the terminal of a test.
    logging.getLogger("vllm").setLevel("ERROR")
    yield found
    found.close()
    logging.getLogger("vllm").handlers.clear()


def log_failure(logger: str, error: Exception) -> None:
    try:
        raise error
    except Exception:
        logging.getLogger(logger).exception("failed to start")


def test_the_last_exception_is_the_cause(errors: ChildErrors) -> None:
    """Records without one are none."""
    assert errors.cause() == ""
    logging.getLogger(CORE).error("no exception")
    log_failure(CORE, RuntimeError("earlier"))
    log_failure(CORE, ValueError("no memory\nfor the cache"))
    assert errors.cause() == "ValueError: no memory for the cache"


def test_a_workers_exception_comes_before_what_follows_from_it(errors: ChildErrors) -> None:
    """The core then says only that a worker failed."""
    log_failure(WORKER, ValueError("no kernel"))
    log_failure(CORE, RuntimeError("WorkerProc initialization failed"))
    assert errors.cause() == "ValueError: no kernel"


def test_a_failed_step_is_named_and_not_the_end_that_follows(errors: ChildErrors) -> None:
    """This process logs that the engine core has ended, after the core's own exception."""

    class EngineDeadError(Exception):
        """Named as vLLM's."""

    log_failure(CORE, ValueError("no float32 here"))
    log_failure("vllm.v1.engine.async_llm", EngineDeadError("see stack trace"))
    assert errors.cause() == "ValueError: no float32 here"


def test_the_operators_own_logging_is_kept() -> None:
    """Then no cause is known; a config that an earlier engine left is no operator's."""
    for environ in ({"VLLM_LOGGING_CONFIG_PATH": "/etc/vllm.json"}, {"VLLM_CONFIGURE_LOGGING": "0"}):
        own = ChildErrors(environ)
        assert (own.environment("ERROR"), own.cause()) == ({}, "")
    first = ChildErrors({})
    second = ChildErrors(first.environment("ERROR"))
    assert second.environment("ERROR")
    first.close()
    second.close()


def test_a_process_that_outlives_the_file_logs_on(errors: ChildErrors, capsys: pytest.CaptureFixture[str]) -> None:
    """This one, after a restart of its engine."""
    errors.close()
    log_failure(CORE, ValueError("late"))
    assert (errors.cause(), capsys.readouterr().err) == ("", "")


def test_a_long_error_is_cut_and_a_group_says_its_first() -> None:
    """One line of the log."""
    assert error_line(ExceptionGroup("two", [KeyError("a"), KeyError("b")])) == "KeyError: 'a'"
    assert len(error_line(ValueError("x" * 2000))) == 500
