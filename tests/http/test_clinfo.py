"""The default model, as it is installed, reviews the gateway's own articles, with nothing sent anywhere."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

EMBEDDED = Path(__file__).parents[2] / "models" / "embedded" / "arrowhead-tiny" / "model.safetensors"
MODEL = "arrowhead-tiny:clinfo"
QUESTION = "Is lasmiditan effective for the acute treatment of migraine?"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not EMBEDDED.is_file(), reason="the embedded model's weights are not installed"),
]


@pytest.fixture
def server(embedded_model: Any) -> Any:
    return embedded_model


def _asked(question: str, **options: Any) -> dict[str, Any]:
    return {
        "model": MODEL,
        "messages": [{"role": "user", "content": question}],
        "extra_body": {"arrowhead": options},
        "timeout": 200,
    }


def test_a_question_is_answered_from_articles_with_references(server: Any) -> None:
    """Quotes, references, counts in the trace; nothing leaves the machine."""
    message = server.client().chat.completions.create(**_asked(QUESTION)).choices[0].message
    assert message.content.startswith(("TL;DR: “", "TL;DR: Yes, probably: “")) and "asmiditan" in message.content
    extra = message.model_extra["arrowhead"]
    assert extra["egress"] == "no data left this machine" and extra["outcome"] == "partial"
    citation = message.annotations[0].url_citation
    assert citation.url.startswith("https://pubmed.ncbi.nlm.nih.gov/")
    assert message.content[citation.start_index : citation.end_index] == "[1]"
    with urllib.request.urlopen(f"{server.url}/v1/traces/{extra['trace_id']}", timeout=60) as reply:
        details = json.load(reply)["choices"][0]["details"]
    counts = details["review"]["counts"]
    assert counts["screened"] == counts["excluded"] + counts["included"] and counts["cited"] >= 1
    assert details["evidence_table"][0]["item"]["PMID"]
    with urllib.request.urlopen(f"{server.url}/v1/traces/{extra['trace_id']}/export?format=ris", timeout=60) as reply:
        assert "TY  - JOUR" in reply.read().decode()


def test_what_no_article_answers_is_abstained_from(server: Any) -> None:
    message = server.client().chat.completions.create(**_asked("Which pizza topping floats best?")).choices[0].message
    assert message.model_extra["arrowhead"]["outcome"] in ("abstained", "not_found")
    assert "Searched: gateway (" in message.content and message.annotations == []
