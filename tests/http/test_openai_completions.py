"""Raw completions: the transcript of a method, the text of the plain model; models, traces and health."""

from __future__ import annotations

from typing import Any

import openai
import pytest

QUESTION = "What is the official gene symbol of LMP10?"


def test_a_methods_completion_is_its_transcript(client: openai.OpenAI) -> None:
    """What the model wrote and what was put in, in order."""
    choice = client.completions.create(model="scripted:genegpt", prompt=QUESTION).choices[0]

    assert choice.text.startswith("[https://eutils.ncbi.nlm.nih.gov/entrez/eutils/esearch.fcgi?db=gene")
    assert "term=LMP10]->[1 id: 5699]\n[https://" in choice.text
    assert choice.text.endswith("\nAnswer: PSMB10")


def test_a_streamed_transcript_joins_to_the_whole(client: openai.OpenAI) -> None:
    """The same text from both, and usage at the end where asked for."""
    whole = client.completions.create(model="scripted:genegpt", prompt=QUESTION)
    chunks = list(
        client.completions.create(
            model="scripted:genegpt", prompt=QUESTION, stream=True, stream_options={"include_usage": True}
        )
    )

    assert "".join(c.text for k in chunks for c in k.choices) == whole.choices[0].text
    assert chunks[-1].usage is not None and whole.usage is not None
    assert chunks[-1].usage.total_tokens == whole.usage.total_tokens


def test_the_plain_model_continues_a_prompt(client: openai.OpenAI) -> None:
    """Untouched text, and OpenAI's default of 16 tokens."""
    choice = client.completions.create(model="scripted", prompt="Once upon").choices[0]

    assert (choice.text, choice.finish_reason) == (" a time there wa", "length")


def test_several_prompts_and_choices_are_numbered_in_order(client: openai.OpenAI) -> None:
    """Two prompts, two choices each: 0 and 1 are of the first; each prompt's tokens count once."""
    done = client.completions.create(
        model="scripted", prompt=["Once upon", "Question: hello\nAnswer:"], n=2, max_tokens=6
    )

    assert [c.text for c in done.choices] == [" a tim", " a tim", " Hello", " Hello"]
    assert done.usage is not None
    assert done.usage.prompt_tokens == len("Once upon") + 1 + len("Question: hello\nAnswer:") + 1
    assert done.usage.completion_tokens == 24


@pytest.mark.parametrize("stream", [False, True])
def test_completion_logprobs_point_into_the_text(client: openai.OpenAI, stream: bool) -> None:
    """Every token stands in the text at its offset, also behind text that was put in."""
    more: dict[str, Any] = {"model": "scripted:genegpt", "prompt": QUESTION, "logprobs": 1}
    if stream:
        choices = [c for k in client.completions.create(stream=True, **more) for c in k.choices]
    else:
        choices = list(client.completions.create(**more).choices)
    text = "".join(choice.text for choice in choices)
    parts = [choice.logprobs for choice in choices if choice.logprobs]
    tokens = [(t, o) for p in parts for t, o in zip(p.tokens or [], p.text_offset or [], strict=True)]

    inside = [(token, offset) for token, offset in tokens if offset < len(text)]
    assert len(inside) > 200
    assert all(text[offset : offset + len(token)] == token for token, offset in inside)


def test_models_are_listed_with_their_methods(client: openai.OpenAI) -> None:
    """Base and base:method, what embeds and what judges evidence, each with a description and whether it is ready."""
    every = {model.id: model.model_dump() for model in client.models.list()}
    models = {name: model for name, model in every.items() if "/v1/completions" in model["arrowhead"]["routes"]}

    assert every.keys() - models.keys() == {"hashing", "has-this"}
    methods = ("auto", "genegpt", "kg-rag", "medrag", "i-medrag", "clinfo", "weiseeule")
    assert next(iter(models)) == "arrowhead"
    assert set(models) == {"arrowhead", "scripted", *(f"scripted:{name}" for name in methods)}
    assert all(model["ready"] and model["description"] for model in models.values())
    assert client.models.retrieve("scripted:genegpt").id == "scripted:genegpt"


def test_an_unknown_model_or_trace_is_not_found(client: openai.OpenAI) -> None:
    """404 with a code that tells which."""
    with pytest.raises(openai.NotFoundError) as model:
        client.models.retrieve("gpt-4")
    with pytest.raises(openai.NotFoundError) as trace:
        client.get("/traces/chatcmpl-none", cast_to=object)

    assert (model.value.code, trace.value.code) == ("model_not_found", "trace_not_found")
