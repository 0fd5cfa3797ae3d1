"""Names of vLLM are loaded from the first place that the installed release has."""

from __future__ import annotations

import sys
import types

import pytest

from models.engines.vllm_engine.names import OPTIONAL, PLACES, load, place_of


def _module(monkeypatch: pytest.MonkeyPatch, name: str, **attributes: object) -> None:
    """A module of a release, with the packages above it."""
    parts = name.split(".")
    for length in range(1, len(parts) + 1):
        path = ".".join(parts[:length])
        if path not in sys.modules or length == len(parts):
            made = types.ModuleType(path)
            made.__path__ = []
            monkeypatch.setitem(sys.modules, path, made)
    for attribute, value in attributes.items():
        setattr(sys.modules[name], attribute, value)


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No module of the installed vLLM is there."""
    for name in [one for one in sys.modules if one.split(".")[0] == "vllm"]:
        monkeypatch.delitem(sys.modules, name)
    _module(monkeypatch, "vllm")
    return monkeypatch


def test_the_newest_place_that_is_there_is_taken(release: pytest.MonkeyPatch) -> None:
    """A module that is missing, and one without the name, are passed over."""
    _module(release, "vllm.entrypoints.openai.cli_args", make_arg_parser="oldest")
    assert load("make_arg_parser") == "oldest"
    _module(release, "vllm.entrypoints.launchers.cli_args", make_arg_parser="older")
    _module(release, "vllm.entrypoints.common.cli_args")
    assert load("make_arg_parser") == "older"


def test_a_name_of_its_own_in_a_module_is_read_there(release: pytest.MonkeyPatch) -> None:
    _module(release, "vllm.envs", VLLM_MAX_NUM_BAD_WORDS=7)
    assert place_of("MAX_NUM_BAD_WORDS", PLACES["MAX_NUM_BAD_WORDS"][0]) == ("vllm.envs", "VLLM_MAX_NUM_BAD_WORDS")
    assert load("MAX_NUM_BAD_WORDS") == 7


def test_what_is_missing_is_an_error_unless_it_can_be_done_without(release: pytest.MonkeyPatch) -> None:
    """The message has the places."""
    assert "QueueOverflowError" in OPTIONAL and load("QueueOverflowError") is None
    with pytest.raises(ImportError, match=r"no LoRARequest at vllm\.lora\.request"):
        load("LoRARequest")
