"""Auto over the data and the model that ship, as the official SDK and a key with few methods see it."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import openai
import pytest
from server_process import Served

from server.auth.authentication import FileKeyStore
from server.auth.keys import NewKey, Scopes

PASSAGES = "Which drug reverses heparin?"
GRAPH = "Which genes are associated with Parkinson disease?"
GENE = "What is the official gene symbol of LMP10?"


def _ask(client: openai.OpenAI, question: str, model: str = "arrowhead", **more: Any) -> Any:
    return client.chat.completions.create(model=model, messages=[{"role": "user", "content": question}], **more)


@pytest.mark.weights
@pytest.mark.parametrize(
    ("question", "method", "said"),
    [(PASSAGES, "medrag", "rotamine"), (GRAPH, "kg-rag", "PARK7"), (GENE, "genegpt", "PSMB10")],
)
def test_the_first_model_answers_whatever_is_asked(
    embedded_model: Served, question: str, method: str, said: str
) -> None:
    """By the method that has the evidence, which a step tells, with its sources; streamed and whole."""
    client = embedded_model.client()
    first = next(iter(client.models.list())).id
    assert first == "arrowhead"
    message = _ask(client, question, first).choices[0].message
    record = message.model_extra["arrowhead"]
    assert record["answered_by"] == method and said in message.content and message.annotations
    assert message.reasoning_content.startswith(f"answered by {method}: ")
    assert method not in {one["method"] for one in record["alternatives"]}

    chunks = [chunk.choices[0] for chunk in _ask(client, question, first, stream=True) if chunk.choices]
    assert "".join(one.delta.content or "" for one in chunks) == message.content
    assert chunks[-1].delta.arrowhead["answered_by"] == method


@pytest.mark.weights
def test_responses_have_auto_too(embedded_model: Served) -> None:
    made = embedded_model.client().responses.create(model="arrowhead-tiny:auto", input=PASSAGES)
    assert "rotamine" in made.output_text
    assert made.model_extra["arrowhead"]["answered_by"] == "medrag"  # type: ignore[index]


def test_a_key_is_answered_by_its_own_methods(
    host_with: Callable[..., AbstractContextManager[Served]], tmp_path: Path
) -> None:
    """And neither list nor answer names another one. Without a verifier, passages are read and a step says why."""
    scopes = Scopes(methods=("medrag",))
    key, _ = FileKeyStore(tmp_path / "keys.json").create(NewKey(name="reader", scopes=scopes))
    settings = {
        "ARROWHEAD_SERVER__API_KEYS": "an-operators-key",
        "ARROWHEAD_SERVER__KEYS_FILE": str(tmp_path / "keys.json"),
    }
    (tmp_path / "script.json").write_text('[{"suffix": "", "text": " Protamine [1]."}]')
    with host_with(settings | {"ARROWHEAD_MODEL__SCRIPT": str(tmp_path / "script.json")}) as server:
        client = server.client(key)
        listed = [one.id for one in client.models.list() if one.model_extra and one.model_extra.get("method")]
        assert listed == ["arrowhead", "scripted:auto", "scripted:medrag"]
        message = _ask(client, GENE).choices[0].message
        record = message.model_extra["arrowhead"]
        assert record["answered_by"] == "medrag" and record["alternatives"] == []
        assert "could not be judged: the verifier has-this cannot be loaded" in message.reasoning_content
        with pytest.raises(openai.UnprocessableEntityError, match="Auto has no such option"):
            _ask(client, GENE, extra_body={"arrowhead": {"mask": "full"}})


def test_the_pages_example_runs(embedded_model: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """That of docs/openai-api.md, as it stands but for the address."""
    page = (Path(__file__).parents[2] / "docs" / "openai-api.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    exec(compile(program.replace("http://127.0.0.1:8000", embedded_model.url), "openai-api.md", "exec"), {})
    shown = capsys.readouterr().out
    assert "rotamine" in shown and shown.splitlines()[-1].startswith("answered chatcmpl-")
