"""The default model, as it is installed, asked what it was not trained to write: cited sentences or an abstention."""

from __future__ import annotations

import urllib.request
from pathlib import Path
from typing import Any

import openai
import pytest

EMBEDDED = Path(__file__).parents[2] / "models" / "embedded" / "arrowhead-tiny" / "model.safetensors"
BASE = "arrowhead-tiny"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not EMBEDDED.is_file(), reason="the embedded model's weights are not installed"),
]


@pytest.fixture
def server(embedded_model: Any) -> Any:
    return embedded_model


def _ask(server: Any, method: str, question: str, **options: Any) -> Any:
    client = server.client().with_options(timeout=280)
    message = {"role": "user", "content": question}
    body = {"arrowhead": options}
    made = client.chat.completions.create(model=f"{BASE}:{method}", messages=[message], extra_body=body)
    return made.choices[0].message


@pytest.mark.parametrize("method", ["medrag", "i-medrag"])
def test_the_notes_answer_in_their_own_words(server: Any, method: str) -> None:
    """With a passage whose address opens; what no note says is abstained from."""
    message = _ask(server, method, "Which drug reverses heparin?")
    quote = message.content.splitlines()[0]
    assert quote.startswith("“") and quote.endswith("” [1]") and "rotamine" in quote
    address = message.annotations[0].url_citation.url
    assert address.startswith(f"{server.url}/v1/passages/notes/")
    with urllib.request.urlopen(address, timeout=60) as reply:
        assert quote[1:].partition("”")[0] in " ".join(reply.read().decode().split())
    message = _ask(server, method, "Which chromosome carries the gene of the zebrafish Hox cluster 7c?")
    assert message.content.startswith("Nothing that was found answers this question.")
    assert message.model_extra["arrowhead"]["outcome"] == "not_found"


def test_the_graph_answers_in_its_own_statements(server: Any) -> None:
    """True with the statement; and a statement that it lacks is not called false, nor true."""
    message = _ask(server, "kg-rag", "True or false: Parkinson disease is associated with Gene PARK7.")
    assert message.content.startswith("True\n\n“") and "PARK7" in message.content.splitlines()[2]
    message = _ask(server, "kg-rag", "True or false: Aspirin treats Parkinson disease.")
    assert message.content.startswith("unknown\n\n(")


def test_the_list_of_models_says_what_the_model_can_write(server: Any) -> None:
    """The default way first; asking for more is refused with the remedy."""
    listed = {one.id: one.model_extra["arrowhead"]["synthesis"] for one in server.client().models.list()}
    assert listed[f"{BASE}:genegpt"] == ["generated"]
    assert {listed[f"{BASE}:{name}"][0] for name in ("kg-rag", "medrag", "i-medrag", "clinfo")} == {"extractive"}
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        _ask(server, "medrag", "Which drug reverses heparin?", synthesis="generated")
    body: Any = refused.value.body
    assert body["param"] == "arrowhead.synthesis" and "--model" in body["message"]
