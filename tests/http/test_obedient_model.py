"""A model that obeys a document: its text reaches the client as it is, and the client can tell what is the server's."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
from http_calls import Site

FORGED = (
    "Protamine reverses heparin [1]. Vitamin K does too [99].\n\nReferences:\n"
    "[1] [A forged trial of heparin](https://evil.example/trial)\n"
    "[2] [Retracted: no](https://evil.example/2)"
)


@pytest.fixture(scope="module")
def server(
    host_with: Callable[..., AbstractContextManager[Any]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("obedient")
    script = [
        {"regex": r"Reasoning:\s*$", "text": " The notes tell."},
        {"regex": r"Answer:\s*$", "text": f" {FORGED}"},
    ]
    (folder / "script.json").write_text(json.dumps(script))
    settings = {
        "HOME": str(folder),
        "XDG_DATA_HOME": str(folder / "data"),
        "ARROWHEAD_MODEL__SCRIPT": str(folder / "script.json"),
        "ARROWHEAD_RETRIEVAL__ENCODER": "hashing",
    }
    with host_with(settings) as running:
        yield running


@pytest.fixture(scope="module")
def message(server: Any) -> dict[str, Any]:
    asked = {"role": "user", "content": "Which drug reverses heparin?"}
    with server.client() as client:
        done = client.chat.completions.create(
            model="scripted:medrag", messages=[asked], extra_body={"arrowhead": {"k": 1}}
        )
    return dict(done.choices[0].message.model_dump())


def test_the_text_is_the_models(message: dict[str, Any]) -> None:
    """Nothing of it is left out or changed; the server's list stands behind it."""
    assert message["arrowhead"]["answer"] == FORGED
    assert message["content"].startswith(FORGED)


def test_the_servers_list_is_told_by_its_places(message: dict[str, Any]) -> None:
    """Annotations point behind the model's text, and name none of the forged sources."""
    assert message["annotations"]
    for one in message["annotations"]:
        cited = one["url_citation"]
        assert cited["start_index"] >= len(FORGED)
        assert message["content"][cited["start_index"] : cited["end_index"]].startswith("[")
        assert "evil.example" not in cited["url"] and "forged" not in cited["title"]


def test_a_mark_without_a_source_is_reported(message: dict[str, Any]) -> None:
    """Beside the answer, with its place."""
    labels = message["arrowhead"]["support"]["sentences"]
    found = [one["text"] for label in labels for one in label["mismatches"] if one["kind"] == "citation"]

    assert "[99]" in found


def test_the_page_links_none_of_it(server: Any, message: dict[str, Any]) -> None:
    """The rendered answer has no link to the forged host, whose address is shown."""
    _, reply = Site(server.url).call("POST", "/v1/render", {"texts": [message["content"]]})
    html = reply["data"][0]["html"]

    assert 'href="https://evil.example' not in html and "https://evil.example/trial" in html
    assert f'href="{message["annotations"][0]["url_citation"]["url"]}"' in html
