"""Prefix caches are not shared between keys: how fast an answer begins tells nobody what another key asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

KEYS = ("first-key-of-two", "second-key-of-two")


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    script = tmp_path_factory.mktemp("script") / "always.json"
    script.write_text('[{"regex": "$", "text": " Answer: SNCA [1]\\n\\n"}]')
    return {"ARROWHEAD_SERVER__API_KEYS": ",".join(KEYS), "ARROWHEAD_MODEL__SCRIPT": str(script)}


@pytest.fixture(scope="module")
def server(host_with: Callable[..., AbstractContextManager[Any]], settings: dict[str, str]) -> Iterator[Any]:
    with host_with(settings) as running:
        yield running


def _cached(server: Any, key: str, model: str) -> int:
    question = f"For {model}: which genes are associated with Parkinson's disease?"
    with server.client(key) as client:
        made = client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": question}], max_tokens=40
        )
    found: int = made.usage.prompt_tokens_details.cached_tokens
    return found


@pytest.mark.parametrize("method", ["", ":genegpt", ":kg-rag", ":medrag", ":i-medrag"])
def test_what_one_key_asked_is_not_cached_for_another(server: Any, method: str) -> None:
    """The same question again is cached for the key that asked it, and for no other one."""
    model = f"scripted{method}"
    fresh = _cached(server, KEYS[0], model)
    again = _cached(server, KEYS[0], model)

    assert again > fresh
    assert _cached(server, KEYS[1], model) == fresh


def test_keys_of_one_organisation_share_what_was_computed(
    host_with: Callable[..., AbstractContextManager[Any]], settings: dict[str, str]
) -> None:
    """Where the operator chooses so: the second key finds the first one's question in the cache."""
    shared = {"ARROWHEAD_SERVER__CACHE_SALT": "organisation:lab"}
    with host_with(settings | shared) as server:
        fresh = _cached(server, KEYS[0], "scripted:genegpt")

        assert _cached(server, KEYS[1], "scripted:genegpt") > fresh
