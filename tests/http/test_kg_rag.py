"""KG-RAG as the SDK sees it, against a real server process with the sample graph: steps, answer, sources, options."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

QUESTION = "Parkinson disease is associated with Gene PARK7"
MODEL = "scripted:kg-rag"


@pytest.fixture(scope="module")
def server(
    host_with: Callable[..., AbstractContextManager[Any]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("kg")
    (folder / "script.json").write_text(json.dumps([{"regex": r"Answer:\s*$", "text": " True"}]))
    settings = {
        "HOME": str(folder),
        "ARROWHEAD_MODEL__SCRIPT": str(folder / "script.json"),
        "ARROWHEAD_RETRIEVAL__ENCODER": "hashing",
    }
    with host_with(settings) as running:
        yield running


def _ask(server: Any, question: str = QUESTION, **options: Any) -> Any:
    body = {"arrowhead": {"form": "true_false", **options}}
    message = {"role": "user", "content": question}
    made = server.client().chat.completions.create(model=MODEL, messages=[message], extra_body=body)
    return made.choices[0].message


def test_an_answer_names_its_statement(server: Any) -> None:
    """The first line is the answer; each mark has its source; the steps are told as reasoning."""
    message = _ask(server)
    assert message.content.splitlines()[0] == "True"
    (annotation,) = message.annotations
    assert annotation.url_citation.url == "https://identifiers.org/DOID:14330"
    steps = message.reasoning_content.splitlines()
    assert steps[0].startswith("in the question: Disease Parkinson's disease")
    assert "statements chosen" in steps[2]


def test_a_response_shows_the_search_between_the_steps(server: Any) -> None:
    """Steps as reasoning, what was looked up as a search with its sources, then the message with its citation."""
    body = {"arrowhead": {"form": "true_false"}}
    response = server.client().responses.create(model=MODEL, input=QUESTION, extra_body=body)
    first, search, second, message = response.output

    assert [item.type for item in response.output] == ["reasoning", "web_search_call", "reasoning", "message"]
    assert len(first.summary) == 3
    assert "Parkinson's disease" in search.action.queries
    assert all(source.url.startswith("https://") for source in search.action.sources)
    assert second.summary[0].text == "the model answers from the graph"
    (part,) = message.content
    assert [part.text[note.start_index : note.end_index] for note in part.annotations] == ["[1]"]


def test_what_the_graph_does_not_have_is_said(server: Any) -> None:
    """No model is asked, no other node is put in its place."""
    message = _ask(server, "How do I repair a bicycle?", form="general")
    assert "has no entry for anything that the question names" in message.content
    assert not message.annotations
    assert message.arrowhead["abstained"] is True
