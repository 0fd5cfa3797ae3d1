"""What a fresh installation does: the README's ``arrowhead serve``, one question of each method, a stream."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import openai
import pytest
from server_process import Running

from models.catalog import EMBEDDED_DIR, has_weights
from server.methods.base import METHOD_NAMES

# What the answer from the data that come with Arrowhead has to name.
QUESTIONS = {
    "genegpt": ("What is the official gene symbol of LMP10?", "PSMB10"),
    "kg-rag": ("Which drugs treat hepatitis B?", "Lamivudine"),
    "medrag": ("Which drug reverses heparin?", "rotamine"),
    "i-medrag": ("Which diuretics inhibit the Na-K-2Cl cotransporter?", "diuretics"),
    "clinfo": ("Is lasmiditan effective for the acute treatment of migraine?", "asmiditan"),
    "weiseeule": ("#Which drug reverses **heparin**?", "rotamine"),
}
pytestmark = [
    pytest.mark.smoke,
    pytest.mark.server,
    pytest.mark.weights,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not has_weights(EMBEDDED_DIR), reason="no model's weights are in this checkout"),
]


@pytest.fixture
def client(default_server: Running) -> Iterator[openai.OpenAI]:
    with default_server.client().with_options(timeout=300) as made:
        yield made


@pytest.fixture(scope="module")
def models(default_server: Running) -> dict[str, str]:
    """The served names by method."""
    with default_server.client() as client:
        listed = [one.model_dump() for one in client.models.list()]
    return {one["method"]: one["id"] for one in listed if one.get("method")}


def test_every_method_is_listed(models: dict[str, str]) -> None:
    assert set(METHOD_NAMES) <= set(models)


@pytest.mark.parametrize("method", METHOD_NAMES)
def test_a_question_is_answered(client: openai.OpenAI, models: dict[str, str], method: str) -> None:
    """With its source, as a client of OpenAI's library reads it."""
    question, answer = QUESTIONS[method]
    done = client.chat.completions.create(model=models[method], messages=[{"role": "user", "content": question}])
    assert done.choices[0].finish_reason == "stop"
    assert answer in (done.choices[0].message.content or "")


def test_a_stream_says_what_the_whole_answer_says(client: openai.OpenAI, models: dict[str, str]) -> None:
    question, answer = QUESTIONS["medrag"]
    stream = client.chat.completions.create(
        model=models["medrag"], messages=[{"role": "user", "content": question}], stream=True
    )
    chunks = [chunk for chunk in stream if chunk.choices]
    assert answer in "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_the_page_is_there(default_server: Running) -> None:
    assert "<title>" in httpx.get(f"{default_server.url}/", trust_env=False, follow_redirects=True).text
    assert httpx.get(f"{default_server.url}/ready", trust_env=False).status_code == 200
