"""A general model's text reaches its reader whole, in order and from its first token on, whatever the checks find."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from scripts.evals.capable import NAMESPACE, Player, client

pytestmark = [pytest.mark.weights, pytest.mark.asyncio(loop_scope="module")]
PASSAGES = (
    {"title": "Heparin", "content": "Protamine reverses heparin. 1 mg of protamine is given for 100 units of heparin."},
    {
        "title": "Warfarin",
        "content": "Warfarin inhibits vitamin K epoxide reductase. It must not be taken in pregnancy.",
    },
)
# Openings, negations, numbers that stand nowhere, marks without a source, lists, markup and other languages.
TEXTS = (
    "No, protamine does not reverse heparin; 500 mg/kg of COL7A1 does [97].\n\nYes, it does [1].",
    "Yes. Protamine [1], 1 mg for 100 units.\n\n| drug | dose |\n| --- | --- |\n| **protamine** | 5.5 mg |",
    "The passages do not say. I don't know.",
    "Nein: Warfarin wirkt nicht in 12 Stunden [2].\n- erstens\n- zweitens, PMID 99999999",
)
QUESTIONS = {
    "genegpt": "What is the official gene symbol of LMP10?",
    "kg-rag": "Which drugs treat hepatitis B?",
    "medrag": "What reverses heparin?",
    "i-medrag": "What reverses heparin?",
    "weiseeule": "What reverses heparin?",
    "clinfo": "Is lasmiditan effective for the acute treatment of migraine?",
}


@pytest.fixture(scope="module")
def player() -> Player:
    return Player()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def http(player: Player, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[httpx.AsyncClient]:
    file = tmp_path_factory.mktemp("passages") / "passages.jsonl"
    rows = ({"id": f"p_{place}", "contents": "", **row} for place, row in enumerate(PASSAGES))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    async with client([Path(file)], player) as made:
        yield made


def body(method: str, text: str, player: Player, **options: Any) -> dict[str, Any]:
    row = {"method": method, "question": QUESTIONS[method], "answer": text, "search_term": "LMP10"}
    player.play(row)
    options_of: dict[str, dict[str, Any]] = {
        "medrag": {"namespaces": [NAMESPACE]},
        "i-medrag": {"namespaces": [NAMESPACE], "rounds": 1},
        "weiseeule": {"namespaces": [NAMESPACE]},
    }
    messages = [{"role": "user", "content": QUESTIONS[method]}]
    return {"model": f"capable:{method}", "messages": messages, "arrowhead": {**options_of.get(method, {}), **options}}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("method", QUESTIONS)
async def test_the_text_is_whole(method: str, text: str, player: Player, http: httpx.AsyncClient) -> None:
    """Labels stand beside it; the line behind it and the references are the server's."""
    options = {"references": False} if method == "genegpt" else {}
    reply = (await http.post("/v1/chat/completions", json=body(method, text, player, **options))).json()
    message = reply["choices"][0]["message"]
    assert message["content"].startswith(text)
    support = message["arrowhead"]["support"]
    for sentence in support["sentences"]:
        assert message["content"][sentence["start"] : sentence["end"]].strip()
    assert (message["arrowhead"]["outcome"] == "answered") <= (support["unsupported"] == 0)


@pytest.mark.parametrize("method", QUESTIONS)
async def test_the_text_streams_from_its_first_token(method: str, player: Player, http: httpx.AsyncClient) -> None:
    """In pieces, of which the first begins it."""
    options = {"references": False} if method == "genegpt" else {}
    text = TEXTS[0] if method != "genegpt" else TEXTS[0].replace("\n\n", " ")
    request = {**body(method, text, player, **options), "stream": True}
    pieces = []
    async with http.stream("POST", "/v1/chat/completions", json=request) as lines:
        async for line in lines.aiter_lines():
            if line.startswith("data: {"):
                choices = json.loads(line.removeprefix("data: "))["choices"]
                pieces += [piece for choice in choices if (piece := choice["delta"].get("content"))]
    assert "".join(pieces).startswith(text)
    assert len(pieces) > 10 and text.startswith(pieces[0]) and len(pieces[0]) < 20


@pytest.mark.parametrize("mode", ["off", "strict"])
async def test_only_a_request_changes_the_text(mode: str, player: Player, http: httpx.AsyncClient) -> None:
    """``strict`` leaves sentences out; ``off`` checks nothing."""
    request = body("medrag", "Protamine [1] does. It takes 500 mg/kg [1].", player, grounded=mode)
    message = (await http.post("/v1/chat/completions", json=request)).json()["choices"][0]["message"]
    begins = {
        "off": "Protamine [1] does. It takes 500 mg/kg [1].",
        "strict": "Protamine [1] does.\n\n(Sentences that nothing which was read supports: 1 left out.)",
    }
    assert message["content"].startswith(begins[mode])
    assert ("support" in message["arrowhead"]) == (mode != "off")
