"""KG-RAG as the SDK sees it, against a real server process with the sample graph: steps, answer, sources, options."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import openai
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


def test_steps_come_before_the_answer_in_a_stream(server: Any) -> None:
    """Who waits sees what goes on."""
    stream = server.client().chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": QUESTION}],
        extra_body={"arrowhead": {"form": "true_false"}},
        stream=True,
    )
    kinds = []
    for chunk in stream:
        delta = chunk.choices[0].delta if chunk.choices else None
        if delta is not None and getattr(delta, "reasoning_content", None):
            kinds.append("step")
        elif delta is not None and delta.content:
            kinds.append("text")
    assert kinds.index("text") == 4
    assert set(kinds[:4]) == {"step"}


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


def test_a_closed_form_says_whether_it_was_kept_to(server: Any) -> None:
    """For whoever counts answers: abstained, and one of the answers that may be given."""
    extra = _ask(server).arrowhead
    assert (extra["abstained"], extra["answer_in_list"]) == (False, True)
    silent = _ask(server, "pasta treats hunger").arrowhead
    assert (silent["answer"], silent["abstained"], silent["answer_in_list"]) == ("unknown", True, True)


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"pruning": "none"}, "arrowhead.pruning"),
        ({"linking": "gpt"}, "arrowhead.linking"),
        ({"context_tokens": 0}, "arrowhead.context_tokens"),
        ({"egress": "ncbi"}, "arrowhead.egress"),
        ({"colour": 1}, "arrowhead.colour"),
    ],
)
def test_a_wrong_option_is_named(server: Any, options: dict[str, Any], param: str) -> None:
    """Also a mode of leaving above the server's."""
    with pytest.raises(openai.APIStatusError) as refused:
        _ask(server, **options)
    assert refused.value.body["param"] == param  # type: ignore[index]
