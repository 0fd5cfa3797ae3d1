"""MedRAG and i-MedRAG as the SDK sees them, against a real server process with the notes of the package."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import openai
import pytest

QUESTION = "Which drug reverses heparin?"
MODEL = "scripted:medrag"
PLAN = json.dumps({"analysis": "nothing is known", "queries": ["What activates antithrombin?"]})
SCRIPT = [
    {"regex": r"JSON:\n$", "text": PLAN},
    {"regex": r"Question: What activates antithrombin\?[\s\S]*Answer:\s*$", "text": " Heparin does [1]."},
    {"regex": r"drug reverses heparin[\s\S]*Answer:\s*$", "text": " Protamine [1]."},
    {"regex": r"Reasoning:\s*$", "text": " The notes on heparin tell."},
]


@pytest.fixture(scope="module")
def server(
    host_with: Callable[..., AbstractContextManager[Any]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("medrag")
    (folder / "script.json").write_text(json.dumps(SCRIPT))
    settings = {
        "HOME": str(folder),
        "XDG_DATA_HOME": str(folder / "data"),
        "ARROWHEAD_MODEL__SCRIPT": str(folder / "script.json"),
        "ARROWHEAD_RETRIEVAL__ENCODER": "hashing",
    }
    with host_with(settings) as running:
        yield running


def _asked(question: str = QUESTION, model: str = MODEL, **options: Any) -> dict[str, Any]:
    message = {"role": "user", "content": question}
    return {"model": model, "messages": [message], "extra_body": {"arrowhead": options}}


def test_a_fresh_server_answers_from_its_notes(server: Any) -> None:
    """With the source that was cited, and the steps as reasoning."""
    made = server.client().chat.completions.create(**_asked(k=1))
    message = made.choices[0].message
    title = "Heparin (notes.txt, Arrowhead notes)"
    assert message.content.startswith(f"Protamine [1].\n\nReferences:\n[1] [{title}]({server.url}/v1/passages/notes/")
    (annotation,) = message.annotations
    assert annotation.url_citation.title == title
    with urllib.request.urlopen(annotation.url_citation.url, timeout=120) as reply:
        assert "rotamine" in json.loads(reply.read())["text"]
    told = message.reasoning_content.splitlines()
    assert told[0] == "1 passage in notes by hybrid: Heparin"
    assert told[2] == "The notes on heparin tell."


def test_a_stream_tells_steps_reasoning_answer_and_sources_in_order(server: Any) -> None:
    """Who waits sees what goes on."""
    stream = server.client().chat.completions.create(**_asked(k=1), stream=True)
    kinds = []
    for chunk in stream:
        delta = chunk.choices[0].delta if chunk.choices else None
        if delta is not None and getattr(delta, "reasoning_content", None):
            kinds.append("reasoning")
        elif delta is not None and delta.content:
            kinds.append("text")
        elif delta is not None and getattr(delta, "annotations", None):
            kinds.append("sources")
    assert list(dict.fromkeys(kinds)) == ["reasoning", "text", "sources"]
    assert kinds == sorted(kinds, key=["reasoning", "text", "sources"].index)


def test_rounds_are_told_while_they_go_on(server: Any) -> None:
    """Queries, hits and sub-answers come before the answer; a query that is asked again ends the rounds."""
    stream = server.client().chat.completions.create(**_asked(model="scripted:i-medrag", k=1), stream=True)
    reasoning, text = "", ""
    sources: list[dict[str, Any]] = []
    for chunk in stream:
        delta = chunk.choices[0].delta if chunk.choices else None
        if delta is not None:
            assert not (text and getattr(delta, "reasoning_content", None))
            reasoning += getattr(delta, "reasoning_content", None) or ""
            text += delta.content or ""
            sources += getattr(delta, "annotations", None) or []
    assert reasoning.splitlines()[:4] == [
        "round 1 asks: What activates antithrombin?",
        "round 1 finds 1 passages by hybrid in notes",
        "What activates antithrombin? -> Heparin does [1].",
        "after 1 round: the model has nothing new to ask",
    ]
    assert text.startswith("Protamine [1].\n\nReferences:\n[1] [Heparin")
    assert [source["url_citation"]["title"] for source in sources] == ["Heparin (notes.txt, Arrowhead notes)"]


@pytest.mark.parametrize(
    ("options", "status", "param"),
    [
        ({"colour": 1}, 422, "arrowhead.colour"),
        ({"namespaces": ["nowhere"]}, 404, "arrowhead.namespaces"),
        ({"egress": "off"}, 422, "arrowhead.egress"),
    ],
)
def test_a_wrong_option_is_named(server: Any, options: dict[str, Any], status: int, param: str) -> None:
    """Also a namespace that is not there."""
    with pytest.raises(openai.APIStatusError) as refused:
        server.client().chat.completions.create(**_asked(**options))
    assert refused.value.status_code == status
    assert refused.value.body["param"] == param  # type: ignore[index]
