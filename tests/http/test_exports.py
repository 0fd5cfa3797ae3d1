"""Exports of answers over HTTP: each format, who may have it, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
import rispy
from http_calls import fetch

QUESTION = "What is the official gene symbol of LMP10?"
ASK: dict[str, Any] = {"model": "scripted:genegpt", "messages": [{"role": "user", "content": QUESTION}]}
FORMATS = ("ris", "bibtex", "csl-json", "csv", "docx", "markdown")


def test_each_format_is_a_file_with_its_type(client: openai.OpenAI, running: Any) -> None:
    done = client.chat.completions.create(**ASK)
    for form in FORMATS:
        reply = fetch(f"{running.url}/v1/traces/{done.id}/export?format={form}")
        status, headers, body = reply.status, reply.headers, reply.body
        assert status == 200, body
        assert headers["cache-control"] == "no-store"
        assert headers["content-disposition"].startswith('attachment; filename="arrowhead-')
        assert body
        if form == "ris":
            assert [one["urls"] for one in rispy.loads(body.decode())] == [["https://www.ncbi.nlm.nih.gov/gene/5699"]]
        if form == "markdown":
            assert QUESTION in body.decode()


def test_two_answers_of_a_key_are_compared(client: openai.OpenAI, running: Any) -> None:
    """Equal ones are said to be; of others it is told in what they differ; both ids must be known."""
    first, again = (client.chat.completions.create(**ASK).id for _ in range(2))
    other = client.chat.completions.create(**ASK | {"extra_body": {"arrowhead": {"references": False}}}).id

    def compared(earlier: str, later: str) -> tuple[int, Any]:
        reply = fetch(f"{running.url}/v1/traces/{later}/differences?since={earlier}")
        return reply.status, json.loads(reply.body)

    assert compared(first, again)[1] | {"articles": None, "differs": {}, "equal": True} == compared(first, again)[1]
    status, told = compared(first, other)
    assert (status, told["equal"], told["since"]) == (200, False, first)
    assert list(told["differs"]) == ["evidence", "answer"]
    assert compared("unknown", again)[0] == 404
    assert compared("", again)[1]["error"]["param"] == "since"


@pytest.mark.parametrize("query", ["", "?format=pdf", "?format=", "?format=RIS"])
def test_an_unknown_format_is_refused_by_name(running: Any, query: str) -> None:
    reply = fetch(f"{running.url}/v1/traces/x/export{query}")
    error = json.loads(reply.body)["error"]
    assert (reply.status, error["param"], error["code"]) == (400, "format", "invalid_value")
    assert all(form in error["message"] for form in FORMATS)
