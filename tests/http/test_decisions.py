"""``POST /v1/decisions`` by the official SDK, with a verifier without weights; and the example of its page."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
import pytest_asyncio
from bare_services import OPERATOR, bare_services, keyed_settings, plain_lifecycle, reached, sdk
from jsonschema import Draft202012Validator
from lexical_verifier import LexicalVerifier
from server_process import Served

from retrieval.corpus.ingest.add import add_items
from retrieval.corpus.items import ParsedDocument, Span
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.passages import Document
from server.auth.authentication import FileKeyStore
from server.auth.keys import NewKey, Scopes
from server.evidence.verifier import VerifierService

PAGE = (Path(__file__).parents[2] / "docs" / "decisions.md").read_text(encoding="utf-8")
CLAIM = "Aspirin lowers the risk of stroke."
YES = "Aspirin lowers the risk of stroke in men."
NO = "Aspirin never lowers the risk of stroke."
PREDICATE = {"type": "predicate", "instructions": CLAIM}


@dataclass(frozen=True)
class Site:
    """The application and its keys by name."""

    http: httpx2.AsyncClient
    keys: dict[str, str]

    async def decide(
        self, input_: Any, *questions: dict[str, Any], who: str = "operator", **evidence: Any
    ) -> list[Any]:
        client = sdk(self.http, self.keys[who])
        body = {"arrowhead": evidence} if evidence else None
        made = await client.decisions.create(model="lexical", input=input_, questions=questions, extra_body=body)  # type: ignore[arg-type]
        assert made.model == "lexical" and made.usage.total_tokens == 0
        return list(made.answers)


@pytest_asyncio.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    wish = NewKey(name="ben", scopes=Scopes(namespaces=("other",)))
    keys = {"operator": OPERATOR, "ben": FileKeyStore(tmp_path / "keys.json").create(wish)[0]}
    verifier = VerifierService("lexical", LexicalVerifier)
    services = bare_services(keyed_settings(tmp_path), plain_lifecycle(), tmp_path, verifier=verifier)
    for name in ("papers", "other"):
        services.retrieval.namespaces.create(name, NamespaceSettings(encoder="hashing"))
    document = Document(document_id="PMID:1", title="Trial", url="https://example.org/1")
    item = ParsedDocument(document, YES, (Span(0, len(YES)),), whole=True)
    add_items(services.retrieval.namespaces, "papers", [item])
    async with reached(services) as http:
        yield Site(http, keys)


@pytest.mark.parametrize(
    ("text", "probability", "verdict"), [(YES, 1.0, "yes"), (NO, 0.0, "no"), ("Zebras eat grass.", 0.5, "unclear")]
)
async def test_a_predicate_has_the_probability_that_it_holds(
    site: Site, text: str, probability: float, verdict: str
) -> None:
    """What is undecided counts half; the quote is the deciding sentence with its place."""
    (answer,) = await site.decide(f"It was a trial. {text}", PREDICATE | {"name": "stroke"})
    assert (answer.type, answer.name, answer.probability) == ("predicate", "stroke", probability)
    grounds = answer.arrowhead
    assert grounds["verdict"] == verdict
    if verdict != "unclear":
        place = grounds["citation"]
        assert f"It was a trial. {text}"[place["start"] : place["end"]] == grounds["quote"] == text
        assert place["input"] == 0


async def test_a_choice_is_the_answer_that_the_evidence_says(site: Site) -> None:
    """By its description where it has one; as typed, a boolean too."""
    question = {"type": "choice", "instructions": "Which organ is at risk of stroke?"}
    choices = [{"value": "liver"}, {"value": True, "description": "brain"}]
    (answer,) = await site.decide("The brain is at risk of stroke.", question | {"choices": choices})
    assert answer.choice is True and answer.arrowhead["verdict"] == "chosen"
    shares = {one.value: one.probability for one in answer.probabilities}
    assert sum(shares.values()) == pytest.approx(1) and shares[True] > shares["liver"]
    assert 0 < answer.confidence <= shares[True]


async def test_a_score_is_the_expected_level(site: Site) -> None:
    question = {"type": "score", "instructions": "How large is the risk of stroke?"}
    levels = [{"label": "small"}, {"label": "large"}]
    (answer,) = await site.decide("The risk of stroke is large.", question | {"levels": levels})
    assert [(one.value, one.label) for one in answer.probabilities] == [(0, "small"), (1, "large")]
    assert answer.score == pytest.approx(answer.probabilities[1].probability, abs=1e-5)
    assert answer.score > 0.5


async def test_questions_are_answered_in_order_from_messages_of_the_user(site: Site) -> None:
    messages = [
        {"role": "user", "content": "Blood is red."},
        {"role": "user", "content": [{"type": "input_text", "text": YES}]},
    ]
    first, second = await site.decide(messages, PREDICATE, {"type": "predicate", "instructions": "Blood is red."})
    assert first.arrowhead["citation"]["input"] == 1 and second.arrowhead["citation"]["input"] == 0
    assert (first.name, first.probability, second.probability) == (None, 1.0, 1.0)


async def test_without_evidence_nothing_is_decided(site: Site) -> None:
    choice = {"type": "choice", "instructions": "Which?", "choices": [{"value": "a"}, {"value": "b"}]}
    first, second = await site.decide("", PREDICATE, choice)
    assert (first.probability, first.arrowhead["verdict"], first.arrowhead["quote"]) == (0.5, "unclear", None)
    assert [one.probability for one in second.probabilities] == [0.5, 0.5] and second.confidence == 0


async def test_passages_of_namespaces_and_sources_are_evidence(site: Site) -> None:
    """With the passage as citation, which is evidence by its id too."""
    (answer,) = await site.decide("", PREDICATE, namespaces=["papers"])
    cited = answer.arrowhead["citation"]
    assert (answer.probability, cited["document"], cited["url"]) == (1.0, "PMID:1", "https://example.org/1")
    source = {"passage": cited["passage"], "namespace": "papers"}
    (answer,) = await site.decide("Blood.", PREDICATE, sources=["Red.", source])
    assert answer.arrowhead["citation"].items() >= (source | {"source": 1}).items()


async def test_a_key_has_evidence_of_its_own_namespaces_alone(site: Site) -> None:
    """One that it may not read is as if it were not there."""
    (answer,) = await site.decide("", PREDICATE, who="ben", namespaces="all")
    assert answer.arrowhead["verdict"] == "unclear"
    with pytest.raises(openai.NotFoundError, match="there is no namespace 'papers'; there are: other"):
        await site.decide("", PREDICATE, who="ben", namespaces=["papers"])


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"questions": []}, "questions"),
        ({"questions": [PREDICATE] * 65}, "questions"),
        ({"questions": [{"type": "opinion", "instructions": "x"}]}, "questions[0]"),
        ({"questions": [{"type": "predicate", "instructions": " "}]}, "questions[0].predicate.instructions"),
        (
            {"questions": [{"type": "choice", "instructions": "x", "choices": [{"value": "a"}]}]},
            "questions[0].choice.choices",
        ),
        (
            {"questions": [{"type": "choice", "instructions": "x", "choices": [{"value": "a"}, {"value": True}]}]},
            "questions[0].choice.choices",
        ),
        ({"input": [{"role": "assistant", "content": "x"}]}, "input"),
        ({"input": "x" * 200_001}, "input"),
        ({"arrowhead": {"k": 0}}, "arrowhead.k"),
        ({"stream": True}, "stream"),
    ],
)
async def test_bad_input_is_an_error_of_openais_shape_that_names_the_field(
    site: Site, change: dict[str, Any], param: str
) -> None:
    body = {"model": "lexical", "input": "x", "questions": [PREDICATE]} | change
    reply = await site.http.post("/v1/decisions", json=body, headers={"Authorization": f"Bearer {OPERATOR}"})
    error = reply.json()["error"]
    assert (reply.status_code, error["type"]) == (422, "invalid_request_error")
    assert str(error["param"]).startswith(param)


async def test_another_model_is_not_found(site: Site) -> None:
    body = {"model": "gpt-9", "input": "x", "questions": [PREDICATE]}
    reply = await site.http.post("/v1/decisions", json=body, headers={"Authorization": f"Bearer {OPERATOR}"})
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "model_not_found")


async def test_the_reply_is_as_the_document_says(site: Site) -> None:
    headers = {"Authorization": f"Bearer {OPERATOR}"}
    document = (await site.http.get("/openapi.json", headers=headers)).json()
    described = document["paths"]["/v1/decisions"]["post"]
    schema = described["responses"]["200"]["content"]["application/json"]["schema"]
    reply = await site.http.post("/v1/decisions", json={"input": YES, "questions": [PREDICATE]}, headers=headers)
    errors = Draft202012Validator(schema | {"components": document["components"]}).iter_errors(reply.json())
    assert [error.message for error in errors] == []


@pytest.mark.weights
def test_the_pages_example_runs(embedded_model: Served, capsys: pytest.CaptureFixture[str]) -> None:
    """As it stands, but for the address."""
    (program,) = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    exec(compile(program.replace("http://127.0.0.1:8000", embedded_model.url), "decisions.md", "exec"), {})
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("stroke predicate ") and second.startswith("harm choice ")
