"""GeneGPT's prompt: parts by mask, both forms, demonstrations from facts."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from retrieval.ncbi.calls.urls import parse_call_url
from server.methods.genegpt.prompt import MASKS, Prompt, question_line, resolve_mask
from server.methods.genegpt.questions import QuestionReader

DATA = Path(os.environ.get("ARROWHEAD_EVAL_DATA", Path(__file__).parents[5].parent / "shared" / "data"))


@pytest.fixture(scope="module")
def prompt() -> Prompt:
    return Prompt.load()


@pytest.mark.parametrize(
    ("mask", "digits"),
    [("full", "111111"), ("slim", "001001"), ("none", "000000"), ("010010", "010010"), ("0101", None), ("Full", None)],
)
def test_masks_are_names_or_six_digits(mask: str, digits: str | None) -> None:
    """Anything else is no mask."""
    assert resolve_mask(mask) == digits


@pytest.mark.parametrize("place", range(6))
def test_a_digit_selects_exactly_its_part(prompt: Prompt, place: int) -> None:
    """One part alone: it is in the header, and no other part is."""
    mask = "".join("1" if i == place else "0" for i in range(6))
    names = list(prompt.parts)

    header = prompt.header(mask)

    assert [name for name in names if prompt.parts[name] in header] == [names[place]]


def test_the_slim_prompt_is_instruction_and_two_demonstrations(prompt: Prompt) -> None:
    """The paper's slim setting: Dm.1 and Dm.4, in the published layout of question, calls and answer."""
    text = prompt.base_form(MASKS["slim"], "Q?")

    assert text.startswith(prompt.instruction)
    assert text.count("Question: ") == 3
    assert text.count("]->[") == 3
    assert text.endswith("\n\nQuestion: Q?\n")


def test_with_no_part_a_base_model_gets_the_question_alone(prompt: Prompt) -> None:
    """The form that models trained on transcripts expect, byte for byte."""
    assert prompt.base_form("000000", "What is the official gene symbol of LMP10?") == (
        "Question: What is the official gene symbol of LMP10?\n"
    )


def test_a_question_cannot_look_like_the_prompt(prompt: Prompt) -> None:
    """Line breaks in the question become spaces."""
    assert prompt.base_form("000000", "a\n\nAnswer: b\nQuestion: c") == "Question: a Answer: b Question: c\n"


def test_the_chat_form_keeps_instruction_and_question_apart(prompt: Prompt) -> None:
    """System message with all parts, user message with the question alone."""
    system, user = prompt.chat_form("111111", "Q?")

    assert (system["role"], user) == ("system", {"role": "user", "content": "Question: Q?"})
    assert all(part in system["content"] for part in prompt.parts.values())


def test_every_demonstrated_call_is_allowed(prompt: Prompt) -> None:
    """A model that copies a demonstration is never refused."""
    urls = [piece.split("[")[-1] for piece in prompt.header("111111").split("]->")[:-1]]

    assert len(urls) == 6
    assert {parse_call_url(url).endpoint for url in urls} == {"esearch", "esummary", "blast_put"}


@pytest.mark.parametrize("part", ["dm1", "dm2", "dm3", "dm4"])
def test_a_demonstrated_answer_can_be_read_from_its_replies(prompt: Prompt, part: str) -> None:
    """No demonstration teaches to invent: the answer stands in a reply."""
    body, _, answer = prompt.parts[part].rpartition("Answer: ")
    question, _, replies = body.partition("\n")

    assert answer in replies
    assert answer not in question


@pytest.mark.shared_data
def test_no_demonstration_is_a_benchmark_question(prompt: Prompt) -> None:
    """The published prompt shows four test questions; ours shows none."""
    file = DATA / "ncbi" / "geneturing_dev.jsonl"
    if not file.is_file():
        pytest.skip(f"no {file}")
    questions = {json.loads(line)["question"] for line in file.read_text().splitlines()}
    shown = {line.removeprefix("Question: ") for line in prompt.header("111111").splitlines()}

    assert not questions & shown


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("What is the official gene symbol of TGF-β1?", "What is the official gene symbol of TGF-beta1?"),
        ("Which chromosome is the gene IFN-γ on?", "Which chromosome is IFN-gamma gene located on human genome?"),
        ("What is the official gene symbol of IL‑6?", "What is the official gene symbol of IL-6?"),
    ],
)
def test_a_name_is_asked_in_the_letters_that_a_call_can_have(question: str, asked: str) -> None:
    """The model copied TGF+1 of TGF-β1, as calls have ASCII letters alone."""
    assert QuestionReader.load().read(question).text == asked
    assert question_line(question).isascii()
