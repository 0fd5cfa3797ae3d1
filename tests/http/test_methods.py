"""Methods over the data of the package as the SDK sees them, and a model that obeys a document."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import openai
import pytest
from http_calls import Site
from shipped_data import give_data

QUESTION = "Which drug reverses heparin?"
MODEL, GRAPH = "scripted:medrag", "scripted:kg-rag"
PLAN = json.dumps({"analysis": "nothing is known", "queries": ["What activates antithrombin?"]})
STATEMENT = "True or false: Parkinson disease is associated with Gene PARK7"
FORGED_QUESTION = "Which drug reverses heparin, by the forged trial?"
FORGED = (
    "Protamine reverses heparin [1]. Vitamin K does too [99].\n\nReferences:\n"
    "[1] [A forged trial of heparin](https://evil.example/trial)\n"
    "[2] [Retracted: no](https://evil.example/2)"
)
SCRIPT = [
    {"regex": r"by the forged trial[\s\S]*Answer:\s*$", "text": f" {FORGED}"},
    {"regex": r"PARK7[\s\S]*Answer:\s*$", "text": " True"},
    {"regex": r"JSON:\n$", "text": PLAN},
    {"regex": r"Question: What activates antithrombin\?[\s\S]*Answer:\s*$", "text": " Heparin does [1]."},
    {"regex": r"drug reverses heparin[\s\S]*Answer:\s*$", "text": " Protamine [1]."},
    {"regex": r"Reasoning:\s*$", "text": " The notes on heparin tell."},
]


@pytest.fixture(scope="module")
def server(
    host_with: Callable[..., AbstractContextManager[Any]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("methods")
    give_data(folder / "data" / "arrowhead")
    (folder / "script.json").write_text(json.dumps(SCRIPT))
    settings = {
        "HOME": str(folder),
        "XDG_DATA_HOME": str(folder / "data"),
        "ARROWHEAD_MODEL__SCRIPT": str(folder / "script.json"),
        "ARROWHEAD_RETRIEVAL__ENCODERS": "hashing",
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


def _ask_graph(server: Any, question: str = STATEMENT, **options: Any) -> Any:
    body = {"arrowhead": options}
    message = {"role": "user", "content": question}
    made = server.client().chat.completions.create(model=GRAPH, messages=[message], extra_body=body)
    return made.choices[0].message


def test_an_answer_names_its_statement(server: Any) -> None:
    """The first line is the answer; each mark has its source; the steps are told as reasoning."""
    message = _ask_graph(server)
    assert message.content.splitlines()[0] == "True"
    assert {annotation.url_citation.url for annotation in message.annotations} == {
        "https://www.ncbi.nlm.nih.gov/gene/11315",
        "https://identifiers.org/DOID:14330",
    }
    steps = message.reasoning_content.splitlines()
    assert steps[0].startswith("in the question: Disease Parkinson's disease")
    assert "statements chosen" in steps[2]


def test_a_response_shows_the_search_between_the_steps(server: Any) -> None:
    """Steps as reasoning, what was looked up as a search with its sources, then the message with its citation."""
    response = server.client().responses.create(model=GRAPH, input=STATEMENT)
    first, search, second, message = response.output

    assert [item.type for item in response.output] == ["reasoning", "web_search_call", "reasoning", "message"]
    assert len(first.summary) == 3
    assert "Parkinson's disease" in search.action.queries
    assert all(source.url.startswith("https://") for source in search.action.sources)
    assert second.summary[0].text == "the model answers from the graph"
    (part,) = message.content
    assert [part.text[note.start_index : note.end_index] for note in part.annotations] == ["[1]", "[2]"]


def test_what_the_graph_does_not_have_is_said(server: Any) -> None:
    """No model is asked, no other node is put in its place."""
    message = _ask_graph(server, "How do I repair a bicycle?")
    assert "has no entry for anything that the question names" in message.content
    assert not message.annotations
    assert message.arrowhead["abstained"] is True


@pytest.fixture(scope="module")
def forged(server: Any) -> dict[str, Any]:
    asked = {"role": "user", "content": FORGED_QUESTION}
    with server.client() as client:
        done = client.chat.completions.create(
            model="scripted:medrag", messages=[asked], extra_body={"arrowhead": {"k": 1}}
        )
    return dict(done.choices[0].message.model_dump())


def test_the_text_is_the_models(forged: dict[str, Any]) -> None:
    """Nothing of it is left out or changed; the server's list stands behind it."""
    assert forged["arrowhead"]["answer"] == FORGED
    assert forged["content"].startswith(FORGED)


def test_the_servers_list_is_told_by_its_places(forged: dict[str, Any]) -> None:
    """Annotations point behind the model's text, and name none of the forged sources."""
    assert forged["annotations"]
    for one in forged["annotations"]:
        cited = one["url_citation"]
        assert cited["start_index"] >= len(FORGED)
        assert forged["content"][cited["start_index"] : cited["end_index"]].startswith("[")
        assert "evil.example" not in cited["url"] and "forged" not in cited["title"]


def test_a_mark_without_a_source_is_reported(forged: dict[str, Any]) -> None:
    """Beside the answer, with its place."""
    labels = forged["arrowhead"]["support"]["sentences"]
    found = [one["text"] for label in labels for one in label["mismatches"] if one["kind"] == "citation"]

    assert "[99]" in found


def test_the_page_links_none_of_it(server: Any, forged: dict[str, Any]) -> None:
    """The rendered answer has no link to the forged host, whose address is shown."""
    _, reply = Site(server.url).call("POST", "/v1/render", {"texts": [forged["content"]]})
    html = reply["data"][0]["html"]

    assert 'href="https://evil.example' not in html and "https://evil.example/trial" in html
    assert f'href="{forged["annotations"][0]["url_citation"]["url"]}"' in html
