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


@pytest.mark.parametrize("query", ["", "?format=pdf", "?format=", "?format=RIS"])
def test_an_unknown_format_is_refused_by_name(running: Any, query: str) -> None:
    reply = fetch(f"{running.url}/v1/traces/x/export{query}")
    error = json.loads(reply.body)["error"]
    assert (reply.status, error["param"], error["code"]) == (400, "format", "invalid_value")
    assert all(form in error["message"] for form in FORMATS)
