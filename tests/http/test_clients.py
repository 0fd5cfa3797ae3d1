"""Clients as people use them, each against a running server: LangChain, LlamaIndex, ``llm``, curl, openai-python.

The JavaScript SDK has a test of its own, Open WebUI too.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import openai
import pytest
from client_venv import client_environment, client_python

from models.encoders.openai_tokens import _tokens

QUESTION = "What is the official gene symbol of LMP10?"
GENEGPT = "scripted:genegpt"
GENE_PAGE = "https://www.ncbi.nlm.nih.gov/gene/5699"

LANGCHAIN = """
import json, sys
from langchain_openai import ChatOpenAI

url, question = sys.argv[1:]
common = {"model": "scripted:genegpt", "base_url": url, "api_key": "none", "max_retries": 0}
chat = ChatOpenAI(**common, stream_usage=True)
whole = chat.invoke(question)
streamed = None
for chunk in chat.stream(question):
    streamed = chunk if streamed is None else streamed + chunk
responses = ChatOpenAI(**common, use_responses_api=True)
answered = responses.invoke(question)
answered_stream = None
for chunk in responses.stream(question):
    answered_stream = chunk if answered_stream is None else answered_stream + chunk
said = [{"role": "user", "content": "earlier"}, answered, {"role": "user", "content": question}]
print(json.dumps({
    "whole": whole.content, "streamed": streamed.content,
    "usage": whole.usage_metadata["output_tokens"], "streamed_usage": streamed.usage_metadata["output_tokens"],
    "responses": answered.text, "responses_streamed": answered_stream.text,
    "responses_usage": answered.usage_metadata["output_tokens"],
    "cited": [note.get("url") for block in answered.content if isinstance(block, dict)
              for note in block.get("annotations") or ()],
    "conversation": responses.invoke(said).text,
}))
"""

TIKTOKEN_URL = "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken"
LANGCHAIN_EMBEDDINGS = """
import json, os, sys
os.environ["TIKTOKEN_CACHE_DIR"] = os.getcwd()
from langchain_openai import OpenAIEmbeddings

common = {"model": "minilm", "base_url": sys.argv[1], "api_key": "none"}
by_ids, by_text = OpenAIEmbeddings(**common), OpenAIEmbeddings(**common, check_embedding_ctx_length=False)
create, sent = by_ids.client.create, []
by_ids.client.create = lambda input, **fields: sent.append(input) or create(input=input, **fields)
text = "LMP10 (β5i) is a gene."
print(json.dumps({
    "by_ids": by_ids.embed_query(text), "by_text": by_text.embed_query(text),
    "sent": "ids" if isinstance(sent[0][0], (int, list)) else "text",
}))
"""

LLAMA_INDEX = """
import json, sys
from llama_index.core.llms import ChatMessage
from llama_index.llms.openai_like import OpenAILike

url, question = sys.argv[1:]
common = {"api_base": url, "api_key": "none", "max_retries": 0, "context_window": 4096}
chat = OpenAILike(model="scripted:genegpt", is_chat_model=True, **common)
raw = OpenAILike(model="scripted:genegpt", is_chat_model=False, max_tokens=512, **common)
messages = [ChatMessage(role="user", content=question)]
print(json.dumps({
    "chat": chat.chat(messages).message.content,
    "streamed": "".join(part.delta or "" for part in chat.stream_chat(messages)),
    "transcript": raw.complete(question).text,
}))
"""


@pytest.fixture(scope="module")
def python() -> Path:
    return client_python()


def _run(command: list[str], home: Path) -> str:
    done = subprocess.run(
        command, cwd=home, env=client_environment(home), capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.clients
def test_langchain_reads_answers_of_both_apis(python: Path, running: Any, tmp_path: Path) -> None:
    """Whole and streamed, with usage, citations, and an answer sent back as a part of the conversation."""
    seen = json.loads(_run([str(python), "-c", LANGCHAIN, f"{running.url}/v1", QUESTION], tmp_path))

    assert seen["whole"].startswith("PSMB10 [1]\n\n")
    assert seen["whole"] == seen["streamed"] == seen["responses"] == seen["responses_streamed"]
    assert seen["conversation"] == seen["whole"]
    assert seen["usage"] == seen["streamed_usage"] == seen["responses_usage"] > 0
    assert seen["cited"] == [GENE_PAGE]


@pytest.mark.clients
def test_langchains_default_embeddings_are_those_of_the_text(python: Path, host_with: Any, tmp_path: Path) -> None:
    """It sends token ids of OpenAI's models, counted with a table that tiktoken would load from the internet."""
    table = "".join(f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(_tokens()))
    (tmp_path / hashlib.sha1(TIKTOKEN_URL.encode()).hexdigest()).write_text(table)
    with host_with({"ARROWHEAD_RETRIEVAL__ENCODERS": "minilm"}) as server:
        seen = json.loads(_run([str(python), "-c", LANGCHAIN_EMBEDDINGS, f"{server.url}/v1"], tmp_path))
    assert seen["sent"] == "ids"
    assert seen["by_ids"] == pytest.approx(seen["by_text"], abs=1e-5)


@pytest.mark.clients
def test_llama_index_reads_chat_and_completions(python: Path, running: Any, tmp_path: Path) -> None:
    """The chat gives the answer, the raw completion the transcript with the calls."""
    seen = json.loads(_run([str(python), "-c", LLAMA_INDEX, f"{running.url}/v1", QUESTION], tmp_path))

    assert seen["chat"].startswith("PSMB10 [1]\n\n")
    assert seen["chat"] == seen["streamed"]
    assert seen["transcript"].endswith("Answer: PSMB10")


@pytest.mark.clients
def test_the_llm_command_answers(python: Path, running: Any, tmp_path: Path) -> None:
    """Streamed and whole, from a model that extra-openai-models.yaml names; the usage is logged."""
    (tmp_path / "llm").mkdir()
    (tmp_path / "llm" / "extra-openai-models.yaml").write_text(
        f"- model_id: genegpt\n  model_name: {GENEGPT}\n  api_base: {running.url}/v1\n"
    )
    llm = [str(python), "-m", "llm"]
    streamed = _run([*llm, "-m", "genegpt", QUESTION], tmp_path)
    whole = _run([*llm, "-m", "genegpt", "--no-stream", QUESTION], tmp_path)
    logged = json.loads(_run([*llm, "logs", "-n", "2", "--json"], tmp_path))

    assert whole.startswith("PSMB10 [1]\n\n")
    assert streamed == whole
    assert all(entry["output_tokens"] for entry in logged)


@pytest.fixture(scope="module")
def curl() -> str:
    found = shutil.which("curl")
    if found is None:
        pytest.skip("curl is not installed")
    return found


def _curl(curl: str, url: str, body: Any, *flags: str) -> str:
    sent = ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
    done = subprocess.run([curl, "-sS", *flags, *sent, url], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_curl_reads_whole_answers(curl: str, running: Any) -> None:
    """Chat and Responses, as JSON."""
    ask = {"model": GENEGPT, "messages": [{"role": "user", "content": QUESTION}]}
    chat = json.loads(_curl(curl, f"{running.url}/v1/chat/completions", ask))
    response = json.loads(_curl(curl, f"{running.url}/v1/responses", {"model": GENEGPT, "input": QUESTION}))

    assert chat["choices"][0]["message"]["content"] == response["output"][-1]["content"][0]["text"]


def test_curl_sees_a_stream_as_it_comes(curl: str, running: Any) -> None:
    """With -N."""
    ask = {"model": GENEGPT, "stream": True, "messages": [{"role": "user", "content": "slow"}]}
    chat = _curl(curl, f"{running.url}/v1/chat/completions", ask, "-N")
    response = _curl(curl, f"{running.url}/v1/responses", {"model": GENEGPT, "stream": True, "input": "slow"}, "-N")

    assert chat.endswith("data: [DONE]\n\n")
    assert "not found" in chat and "not found" in response
    assert response.startswith("event: response.created\n")


def test_the_python_sdk_uses_every_route(running: Any) -> None:
    """Models, chat, completions, responses and their streams with one client."""
    with running.client() as client:
        models = [model.id for model in client.models.list()]
        chat = client.chat.completions.create(model=GENEGPT, messages=[{"role": "user", "content": QUESTION}])
        with client.chat.completions.stream(model=GENEGPT, messages=[{"role": "user", "content": QUESTION}]) as stream:
            streamed = stream.get_final_completion().choices[0].message.content
        with client.responses.stream(model=GENEGPT, input=QUESTION) as events:
            response = events.get_final_response().output_text
        transcript = client.completions.create(model=GENEGPT, prompt=QUESTION).choices[0].text

    assert GENEGPT in models
    assert chat.choices[0].message.content == streamed == response
    assert transcript.endswith("Answer: PSMB10")


def test_the_python_sdk_reads_embeddings(host_with: Any) -> None:
    """As floats, from the encoder that the server names."""
    with host_with({"ARROWHEAD_RETRIEVAL__ENCODERS": "hashing"}) as server, server.client() as client:
        reply = client.embeddings.create(model="hashing", input=["PSMB10", "LMP10"])

    assert len(reply.data) == 2
    assert any(value != 0 for value in reply.data[0].embedding)


async def test_the_asynchronous_python_sdk_has_many_streams(running: Any) -> None:
    """Answers that are streamed at once do not mix."""

    async def ask(client: openai.AsyncOpenAI, question: str) -> str:
        async with client.responses.stream(model=GENEGPT, input=question) as stream:
            return (await stream.get_final_response()).output_text

    async with openai.AsyncOpenAI(base_url=f"{running.url}/v1", api_key="none", max_retries=0) as client:
        answers = await asyncio.gather(*(ask(client, question) for question in [QUESTION, "broken"] * 3))

    first = [answer.splitlines()[0] for answer in answers]
    assert first[::2] == ["PSMB10 [1]"] * 3
    assert len(set(first[1::2])) == 1 and first[1].startswith("not found")
