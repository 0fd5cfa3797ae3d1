"""Samples: deterministic, in the product's own prompts, with answers that their context supports."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from scripts.embedded.generator import Generator
from scripts.training.tasks.dialogue import DialogueTasks
from scripts.training.tasks.graph_tasks import GraphTasks
from scripts.training.tasks.mixture import Mixture
from scripts.training.tasks.reading import NO_PASSAGE, Asked, ReadingTasks, Source
from scripts.training.tasks.samples import NO_STATEMENT, Sample, Writer
from scripts.training.tasks.statement_tasks import StatementTasks
from scripts.training.tasks.transcripts import TranscriptTasks
from server.methods.genegpt.prompt import Prompt
from server.methods.i_medrag.rounds import Bounds, Rounds
from server.methods.kg_rag.prompts import NONE_OF_THESE, UNKNOWN, KgRagOptions, Prompts, read_question
from server.methods.shared.sentences import numbers_in

SEEDS = [str(number) for number in range(40)]
PARTS = Path("server/methods/medrag/prompts")


def _written(sample: Sample) -> str:
    return "".join(part.text for part in sample.parts if part.written)


def _passages(sample: Sample) -> dict[int, str]:
    entries = re.split(r"(?m)^\[(\d+)\] ", sample.context)[1:]
    return {int(number): " ".join(text.split()) for number, text in zip(entries[::2], entries[1::2], strict=True)}


@pytest.fixture(scope="package")
def mixture(writer: Writer) -> Mixture:
    return Mixture(writer, 7, None)


def test_a_step_depends_on_seed_and_number_alone(writer: Writer, mixture: Mixture) -> None:
    for step in range(8):
        assert mixture.samples(step) == Mixture(writer, 7, None).samples(step)
    assert mixture.samples(3) != Mixture(writer, 8, None).samples(3)


def test_tasks_can_be_left_out_and_unknown_ones_are_named(writer: Writer) -> None:
    without = Mixture(writer, 7, None, ["genegpt"])

    assert all("genegpt" not in without.kinds(step) for step in range(60))
    with pytest.raises(ValueError, match="no such tasks: gengpt"):
        Mixture(writer, 7, None, ["gengpt"])


def test_reading_prompts_are_those_of_medrag(writer: Writer) -> None:
    """The whole prompt, as the chat template writes it around the prompt files of the method."""
    system, how = ((PARTS / f"{name}.txt").read_text().strip() for name in ("system", "open_reasoned"))
    tasks = ReadingTasks(writer)
    context = tasks.context([Source("b", "Second one."), Source("a", "First one.", "A title")])
    sample = tasks.sample(context, Asked("yes", "Is it so?", "Yes", ("b",), "Second one."), "reasoned")

    assert writer.tokenizer.fast.decode(sample.prompt) == (
        f"<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\nPassages:\n[1] A title\n   First one.\n"
        f"[2] Second one.\n\nQuestion: Is it so?\n\n{how}<|im_end|>\n<|im_start|>assistant\n"
    )
    assert _written(sample) == "[2] says: Second one.\nAnswer: Yes [2]."


def test_graph_prompts_are_those_of_kg_rag(writer: Writer) -> None:
    for form in ("true_false", "multiple_choice", "general"):
        for sample in GraphTasks(writer).group("a", form):
            parsed = read_question(sample.question, KgRagOptions())
            assert list(sample.prompt) == writer.tokenizer.encode_chat(Prompts.load().chat_form(parsed, sample.context))


def test_transcript_prompts_are_those_of_genegpt(writer: Writer) -> None:
    sample = TranscriptTasks(writer).sample(Generator(3), "alias")
    messages = Prompt.load().chat_form("000000", sample.question)

    assert list(sample.prompt) == writer.tokenizer.encode_chat(messages)
    assert [part.written for part in sample.parts][:2] == [True, False]
    assert sample.parts[-1].text == f"Answer: {sample.answer}"


@pytest.mark.parametrize("seed", SEEDS)
def test_a_generated_answer_stands_in_the_passage_that_it_cites(writer: Writer, seed: str) -> None:
    for sample in StatementTasks(ReadingTasks(writer)).group(seed):
        passages, cited = _passages(sample), numbers_in(sample.answer)
        if sample.kind == "medrag none":
            assert not cited
            continue
        bare = re.sub(r" \[[\d, ]+\]\.$", "", sample.answer)
        assert len(cited) == 1
        if sample.kind in ("medrag factoid", "medrag choice", "medrag explanation"):
            assert bare.casefold() in passages[cited[0]].casefold()
        if sample.kind == "medrag list":
            assert all(item.casefold() in passages[cited[0]].casefold() for item in re.split(" and | und ", bare))
        if said := re.search(r"\[(\d+)\] says: (.*)\n", _written(sample)):
            assert int(said[1]) == cited[0]
            assert said[2] in passages[cited[0]]


def test_yes_and_no_are_about_as_frequent(writer: Writer) -> None:
    tasks = StatementTasks(ReadingTasks(writer))
    kinds = [sample.kind for seed in SEEDS for sample in tasks.group(seed)]

    assert 0.6 < kinds.count("medrag yes") / kinds.count("medrag no") < 1.6
    assert kinds.count("medrag none") > 0.1 * len(kinds)


@pytest.mark.parametrize("seed", SEEDS[:20])
def test_a_true_or_false_answer_follows_from_the_statements(writer: Writer, seed: str) -> None:
    for sample in GraphTasks(writer).group(seed, "true_false"):
        text = sample.question.removeprefix("True or false: ").removesuffix(" - true or false?")
        if identifier := re.search(r"identifier for (.+) is (not )?(DOID:\d+)", text):
            assert (f"{identifier[1]} ({identifier[3]}," in sample.context) == (
                sample.answer != str(bool(identifier[2]))
            )
            continue
        other = re.search(
            r"Gene (\S+)$|is (?:not )?a (.+)$|present(?:s)? with (.+)$|^(\S+) (?:treats|does not treat)", text
        )
        assert other is not None
        name = next(group for group in other.groups() if group)
        lines = [line for line in sample.context.splitlines() if line.startswith("-")]
        assert any(name in line for line in lines) == (sample.answer != UNKNOWN) or len(name) < 5
        if sample.answer != UNKNOWN:
            assert sample.answer == str(" not " not in text)


@pytest.mark.parametrize("seed", SEEDS[:20])
def test_a_choice_is_what_the_statements_have_in_common(writer: Writer, seed: str) -> None:
    for sample in GraphTasks(writer).group(seed, "multiple_choice"):
        common = re.search(r"Common to all of these: (.*)", sample.context)
        assert common is not None
        shared = common[1].split("; ")
        choices = read_question(sample.question, KgRagOptions()).choices
        right = [choice for choice in choices if choice in shared]
        assert sample.answer == (right[0] if right else NONE_OF_THESE)


def test_open_answers_name_the_source_of_the_statements(writer: Writer) -> None:
    samples = [sample for seed in SEEDS[:20] for sample in GraphTasks(writer).group(seed, "general")]
    named = [re.search(r"\(source: (.+)\)\.$", sample.answer) for sample in samples if sample.answer != NO_STATEMENT]

    assert len(named) > 20
    assert all(found is not None for found in named)


def test_a_plan_is_read_as_the_server_reads_it(writer: Writer) -> None:
    """Each generated plan parses, and a finished one ends the rounds."""
    tasks = DialogueTasks(writer)
    for seed in SEEDS:
        plans = [one for one in tasks.rounds(random.Random(seed)) if one.kind == "i-medrag plan"]
        first = Rounds(Bounds(4, 3, adaptive=True), plans[0].question).planned(plans[0].answer).plans[-1]
        assert list(first.queries) == json.loads(plans[0].answer)["queries"]
        assert not first.malformed
        second = json.loads(plans[1].answer)
        assert second["enough"] == (NO_PASSAGE not in plans[1].context) == (not second["queries"])


def test_follow_ups_name_what_they_are_about(writer: Writer) -> None:
    """The server's own check accepts each version, or making it would have failed."""
    for seed in SEEDS[:10]:
        sample = DialogueTasks(writer).follow_up(random.Random(seed))
        assert sample.parts[0].text == f" {sample.answer}"
        assert sample.answer != sample.question


def test_the_loss_is_on_what_the_model_writes(writer: Writer) -> None:
    sample = TranscriptTasks(writer).sample(Generator(5), "snp_gene")
    encoded = writer.encoded(sample)
    learned = [token for token, learn in zip(encoded.ids, encoded.learn, strict=True) if learn]

    assert writer.tokenizer.fast.decode(learned) == _written(sample) + "<|im_end|>"
