"""The JavaScript SDK against the same server: whole, streamed, refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

# Under node_modules, which git ignores: a later run finds the package and needs no network.
CACHE = Path(__file__).parents[2] / "node_modules" / ".cache" / "openai-sdk"
PROGRAM = """
import OpenAI from "openai";
const client = new OpenAI({ baseURL: process.argv[2], apiKey: "none", maxRetries: 0 });
const ask = {
  model: "scripted:genegpt",
  messages: [{ role: "user", content: "What is the official gene symbol of LMP10?" }],
};
const whole = await client.chat.completions.create(ask);
let content = "", reasoning = "", usage = null;
const stream = await client.chat.completions.create({ ...ask, stream: true, stream_options: { include_usage: true } });
for await (const chunk of stream) {
  content += chunk.choices[0]?.delta?.content ?? "";
  reasoning += chunk.choices[0]?.delta?.reasoning_content ?? "";
  usage = chunk.usage ?? usage;
}
let refused = null;
try {
  await client.chat.completions.create({ ...ask, arrowhead: { colour: 1 } });
} catch (error) {
  refused = { status: error.status, param: error.param, kind: error.constructor.name };
}
const models = [];
for await (const model of client.models.list()) models.push(model.id);
const response = await client.responses.create({ model: ask.model, input: ask.messages[0].content });
const events = [];
const accumulated = client.responses.stream({ model: ask.model, input: ask.messages[0].content });
for await (const event of accumulated) events.push(event.type);
const final = await accumulated.finalResponse();
console.log(JSON.stringify({
  response: response.output_text, responseItems: response.output.map((item) => item.type),
  final: final.output_text, finalItems: final.output.map((item) => item.type), events,
  whole: whole.choices[0].message.content, annotations: whole.choices[0].message.annotations,
  content, reasoning, usage, refused, models,
}));
"""


def _npm(*arguments: str) -> subprocess.CompletedProcess[str]:
    quiet = os.environ | {
        "npm_config_update_notifier": "false",
        "npm_config_fund": "false",
        "npm_config_audit": "false",
    }
    return subprocess.run(
        ["npm", *arguments], cwd=CACHE, env=quiet, capture_output=True, text=True, check=False, timeout=240
    )


@pytest.fixture(scope="module")
def sdk() -> Path:
    """A folder in which ``import "openai"`` works."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    CACHE.mkdir(parents=True, exist_ok=True)
    if not (CACHE / "node_modules" / "openai" / "package.json").is_file():
        (CACHE / "package.json").write_text('{"private": true, "type": "module"}')
        done = _npm("install", "openai@^6")
        if done.returncode != 0:
            pytest.skip(f"npm install openai failed: {done.stderr.strip().splitlines()[-1:]}")
    return CACHE


@pytest.fixture(scope="module")
def seen(sdk: Path, running: Any) -> Any:
    """What the program saw."""
    program = sdk / "ask.mjs"
    program.write_text(PROGRAM)
    done = subprocess.run(
        ["node", str(program), f"{running.url}/v1"], cwd=sdk, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_javascript_sdk_reads_our_answers(seen: Any) -> None:
    """Content, citations, reasoning, usage, a named refusal and the model list."""
    assert seen["whole"].startswith("PSMB10 [1]\n\n")
    assert seen["content"] == seen["whole"]
    assert seen["annotations"][0]["url_citation"]["url"] == "https://www.ncbi.nlm.nih.gov/gene/5699"
    assert "]-> 1 id" in seen["reasoning"]
    assert seen["usage"]["completion_tokens"] > 0
    assert seen["refused"] == {"status": 422, "param": "arrowhead.colour", "kind": "UnprocessableEntityError"}
    names = ("", ":auto", ":genegpt", ":kg-rag", ":medrag", ":i-medrag", ":clinfo", ":weiseeule")
    assert seen["models"] == ["arrowhead", *(f"scripted{name}" for name in names), "hashing", "has-this"]


def test_the_javascript_sdk_accumulates_a_streamed_response(seen: Any) -> None:
    """Its own helper joins the events to what is answered without a stream."""
    assert seen["response"] == seen["final"] == seen["whole"]
    assert seen["responseItems"] == seen["finalItems"]
    assert seen["responseItems"][-1] == "message"
    assert (seen["events"][0], seen["events"][-1]) == ("response.created", "response.completed")
