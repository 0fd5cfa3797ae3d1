"""The requests at the places of the sampler, against stand-ins for a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from models.errors import ArrowheadError
from scripts.gpu.survival import answer_speed, failures, requests
from server.api.vllm_passthrough.checks import check_plain

IDS = 4121


class Server:
    """Refuses what our checks of the body refuse, and what an engine would count beyond them."""

    def __init__(self, *, checks: bool = True, dies: bool = False) -> None:
        self.checks, self.dies, self.is_dead = checks, dies, False

    def __call__(self, path: str, body: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        assert path == "/v1/completions"
        if self.is_dead:
            return 503, {"error": {"message": "the engine has died", "param": None}}
        if (param := self._beyond(body)) and self.checks:
            return 400, {"error": {"message": f"{param}: too many", "param": param}}
        if param and self.dies:
            self.is_dead = True
            return 500, {"error": {"message": "the engine has died", "param": None}}
        return 200, {"usage": {"completion_tokens": body["max_tokens"]}}

    def _beyond(self, body: Mapping[str, Any]) -> str:
        try:
            check_plain(body, 8)
        except ArrowheadError as error:
            return error.param or ""
        if len(body.get("stop_token_ids", ())) + 1 > 128 and body.get("min_tokens"):
            return "stop_token_ids"
        return "bad_words" if sum(len(word) for word in body.get("bad_words", ())) > 1024 else ""


def test_a_server_that_refuses_and_answers_passes() -> None:
    assert failures(Server(), IDS) == []


def test_a_server_that_serves_what_has_no_room_is_found() -> None:
    """Each of the five."""
    found = failures(Server(checks=False), IDS)
    assert len(found) == 5 and all("not a refusal that names" in one for one in found)


def test_an_engine_that_dies_is_found_and_so_is_what_follows() -> None:
    found = failures(Server(checks=False, dies=True), IDS)
    assert any(one.startswith("after 1,025 allowed_token_ids: a plain request got 503") for one in found)


def test_the_requests_are_for_each_table_beyond_and_within() -> None:
    """Also for a vocabulary that is smaller than a table."""
    for ids in (300, IDS, 200_000):
        sent = list(requests(ids))
        assert {one.refused_for for one in sent} == {
            "allowed_token_ids", "stop_token_ids", "bad_words", "logit_bias", ""}  # fmt: skip
        within = [one.fields for one in sent if not one.refused_for]
        assert all(check_plain({"model": "m"} | dict(fields), 8) for fields in within)
        assert max(int(key) for fields in within for key in fields.get("logit_bias", {0: 0})) < ids


def test_the_speed_is_of_whole_answers_alone() -> None:
    assert answer_speed(Server()) > 0
    with pytest.raises(RuntimeError, match="no answer: 200"):
        answer_speed(lambda path, body: (200, {"usage": {"completion_tokens": 3}}))
