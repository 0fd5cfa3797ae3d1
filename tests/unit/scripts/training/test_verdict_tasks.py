"""Verdicts: sentences that are turned into questions, and answers that follow from what is said."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest

from scripts.training.tasks.bioasq import Question, Snippet, WrittenQuestion, read_questions, read_texts, read_written
from scripts.training.tasks.frames import read_frames
from scripts.training.tasks.samples import Writer
from scripts.training.tasks.verdict_tasks import VerdictTasks, verdict_frames
from server.methods.shared.verdicts import VerdictPrompt


def test_without_questions_all_names_are_made_up_and_prompts_are_the_method_s(writer: Writer) -> None:
    tasks = VerdictTasks(writer, [])
    samples = [sample for seed in range(10) for sample in tasks.group(str(seed))]
    system = VerdictPrompt.load().system

    for sample in samples:
        assert writer.tokenizer.fast.decode(sample.prompt) == (
            f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{sample.context}<|im_end|>\n"
            "<|im_start|>assistant\n"
        )
        assert sample.context.endswith(f"\n\n{sample.question}\nYes, No or Unclear?")
    assert {sample.answer for sample in samples} == {"Yes", "No", "Unclear"}


@pytest.mark.shared_data
def test_verdicts_are_drawn_in_about_equal_shares_from_questions_that_are_not_held_out(
    bioasq: Path, writer: Writer
) -> None:
    written = read_written(bioasq, held_out=False)
    tasks = VerdictTasks(writer, read_questions(bioasq, held_out=False), read_texts(bioasq), written)
    held_out = {one.text for one in read_questions(bioasq, held_out=True)}
    samples = [one for seed in range(40) for one in tasks.group(str(seed))]
    shares = {word: sum(one.answer == word for one in samples) / len(samples) for word in ("Yes", "No", "Unclear")}

    assert 0.35 < shares["No"] < 0.55 and 0.35 < shares["Yes"] < 0.55 and 0.05 < shares["Unclear"] < 0.25
    assert not held_out & {one.question for one in samples}


@pytest.mark.shared_data
def test_no_question_was_written_for_an_article_of_a_question_that_is_held_out(bioasq: Path) -> None:
    """Nor is a text on both sides."""
    trained, kept = (read_written(bioasq, held_out=side) for side in (False, True))
    gold = {one.text for question in read_questions(bioasq, held_out=True) for one in question.snippets}

    assert len(trained) > 20_000 and len(kept) > 1_000
    assert not {one.text for one in trained} & ({one.text for one in kept} | gold)
    assert not {one.text for one in kept} & gold


@pytest.mark.parametrize("name", ["written_questions.tsv", "written_questions_held_out.tsv"])
def test_written_questions_are_whole_and_each_stands_once(name: str) -> None:
    lines = (files("scripts.training.tasks") / name).read_text(encoding="utf-8").splitlines()
    rows = [tuple(line.split("\t")) for line in lines]

    assert len(rows) == len(set(rows))
    assert all(pmid.isdigit() and question.endswith("?") for pmid, _, question in rows)
    assert {answer for _, answer, _ in rows} == {"yes", "no", "unclear"}


def test_a_written_question_is_asked_with_the_sentences_of_its_text(writer: Writer) -> None:
    text = "Protamine reverses heparin. It is given slowly. It may lower the blood pressure. Fish is a source."
    written = [
        WrittenQuestion(f"Is protamine the antidote of heparin in case {number}?", "yes", text) for number in range(9)
    ]
    samples = [one for one in VerdictTasks(writer, [], (), written).group("1") if "antidote" in one.question]

    assert len(samples) >= 8 and {one.answer for one in samples} == {"Yes"}
    assert all("says: It is given slowly." in one.context and "Fish" not in one.context for one in samples)


def test_names_that_question_and_sentence_share_are_replaced_in_both(writer: Writer) -> None:
    """Or in neither: the sentence must still be about what is asked."""
    asked = [_question("yes", "Is galcanezumab effective?", "Galcanezumab was effective in all of them."),
             _question("no", "Is tivantinib effective?", "Tivantinib was not effective in any of them.")]  # fmt: skip
    tasks = VerdictTasks(writer, asked)
    samples = [one for seed in range(30) for one in tasks.group(str(seed)) if one.question.endswith(" effective?")]
    names = {one.question.removeprefix("Is ").removesuffix(" effective?").casefold() for one in samples}
    experts = [one for one in samples if re.search(r"effective in a\w+ of them", one.context)]

    assert len(names) > 10
    for one in experts:
        name = one.question.removeprefix("Is ").removesuffix(" effective?")
        assert f"{name} was" in one.context or f"{name.capitalize()} was" in one.context


def test_each_sentence_of_a_frame_has_the_names_of_its_questions() -> None:
    for frame in set(verdict_frames()) - set(read_frames().frames):
        asked = {name for text in (*frame.asks, *frame.inverts) for name in re.findall(r"{(\w+)}", text)}
        for text in (*frame.states, *frame.denies, *frame.inverse):
            assert asked <= set(re.findall(r"{(\w+)}", text)), text
        assert frame.states and frame.asks
        assert not frame.inverts or frame.inverse


def _question(form: str, text: str, said: str) -> Question:
    return Question(text, "yesno", text, form, (), (said,), (Snippet("1", said),), frozenset({"1"}))
