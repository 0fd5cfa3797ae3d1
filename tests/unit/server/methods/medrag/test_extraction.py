"""Extractive answers over real namespaces: verbatim, cited, or an abstention, with no call of the model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lexical_verifier import AS_THE_MODEL, lexical_gate
from passage_bench import DRUGS, PassageBench, done, references, shown, steps

from models.card import ModelCard
from models.engines.base import EngineOptions
from models.engines.scripted_engine import ByteTokenizer, ScriptedBehaviour, ScriptedEngine
from retrieval.corpus.ingest.add import add_items
from retrieval.corpus.items import ParsedDocument, Span
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.passages import Document
from server.engine.lifecycle import EngineLifecycle
from server.methods.base import EvidenceRead, OptionInvalid, TextDelta
from server.methods.i_medrag.method import IMedRag
from server.methods.medrag.method import MedRag
from server.methods.shared.verdicts import SMALL_VERDICT, UNSETTLED

HEPARIN = "Which drug reverses heparin?"


@pytest.fixture
def bench(tmp_path: Path) -> Any:
    def make(method: Any = MedRag, **more: Any) -> PassageBench:
        return PassageBench(
            lambda s, p: method(s, p, lexical_gate(), 400), tmp_path, lambda prompt: " nonsense", **more
        )

    return make


@pytest.mark.parametrize("method", [MedRag, IMedRag])
async def test_the_sentence_that_answers_is_quoted_with_its_passage(bench: Any, method: Any) -> None:
    """Word for word, with the offsets in the passage and an address; the model writes nothing."""
    async with bench(method) as made:
        events = await made.ask(HEPARIN, synthesis="extractive", sentences=1)
        assert made.engine.requests == []
    assert shown(events).startswith("“Protamine reverses heparin.” [1]\n\nReferences:\n[1] [Heparin (drugs)](https://")
    last = done(events)
    assert (last.answer, last.outcome) == ("“Protamine reverses heparin.”", "answered")
    assert (last.details["method"], last.details["synthesis"]) == (method.name, "extractive")
    (record,) = last.details["citations"]
    (span,) = record["sentences"]
    text = references(events)[0].text
    assert text[span["start"] : span["end"]] == span["text"] == "Protamine reverses heparin."
    (reference,) = references(events)
    assert shown(events)[reference.start : reference.end] == "[1]"
    read = next(place for place, event in enumerate(events) if isinstance(event, EvidenceRead))
    assert read < next(place for place, event in enumerate(events) if isinstance(event, TextDelta))


async def test_what_no_passage_answers_is_not_found(bench: Any) -> None:
    """The nearest sentence is shown as such, with its source; it is not an answer."""
    async with bench() as made:
        events = await made.ask("Protamine reverses heparin in which newborn cats?", synthesis="extractive")
    assert shown(events).startswith("Nothing that was found answers this question. Nearest: ")
    last = done(events)
    assert (last.outcome, last.details["abstained"]) == ("not_found", True)
    assert len(references(events)) == 1 and "Read, not cited:" in shown(events)
    assert all(event.is_ours for event in events if isinstance(event, TextDelta) and event.channel == "answer")


async def test_quotes_that_name_one_of_two_symbols_are_a_part_of_the_answer(bench: Any) -> None:
    """They do not say which of the two it is."""
    genes = [("CFTR", "CFTR lies on the chromosome 7.", "")]
    async with bench(documents=genes) as made:
        one = await made.ask("On which chromosome lies CFTR?", synthesis="extractive")
        two = await made.ask("Which lies on the chromosome, DMD1 or CFTR?", synthesis="extractive")
    assert done(one).outcome == "answered"
    assert done(two).outcome == "partial" and "These sentences do not name DMD1." in shown(two)


async def test_what_has_nothing_to_do_with_the_question_is_not_shown_as_near(bench: Any) -> None:
    async with bench() as made:
        events = await made.ask("Which drug reverses the effects of amiodarone on the thyroid?", synthesis="extractive")
    assert shown(events) == "Nothing that was found answers this question."
    assert (done(events).outcome, references(events)) == ("not_found", [])


async def test_yes_and_no_are_said_where_the_verifier_is_sure(bench: Any) -> None:
    """Where it is not, both are left open."""
    async with bench(documents=STATINS) as made:
        sure = await made.ask("Do statins reverse heparin in any dose?", synthesis="extractive")
        unsure = await made.ask("Do statins reverse or block heparin?", synthesis="extractive")
    assert shown(sure).startswith("No, probably [1].\n“Statins do not reverse heparin in any dose.” [1]")
    assert shown(unsure).startswith("“Statins do not reverse heparin in any dose.” [1]\n\n(")
    assert SMALL_VERDICT in shown(sure) and UNSETTLED in shown(unsure)
    assert done(sure).outcome == done(unsure).outcome == "partial"


STATINS = [("Statins", "Statins do not reverse heparin in any dose.", "")]


@pytest.fixture
def trained(tmp_path: Path) -> Any:
    """Return a bench with a model that decides yes or no, and writes ``verdict``."""

    def make(verdict: str | Callable[[str], str], method: Any = MedRag, **more: Any) -> PassageBench:
        facts = {"verdicts": AS_THE_MODEL}
        script = verdict if callable(verdict) else lambda _: verdict
        return PassageBench(lambda s, p: method(s, p, lexical_gate(), 400), tmp_path, script, facts=facts, **more)

    return make


@pytest.mark.parametrize("method", [MedRag, IMedRag])
@pytest.mark.parametrize("verdict", ["Yes", "No"])
async def test_a_model_that_was_trained_for_it_decides_yes_or_no(trained: Any, method: Any, verdict: str) -> None:
    """It reads the quotes alone, and the answer says how yes or no came about."""
    async with trained(verdict, method, documents=STATINS) as made:
        events = await made.ask("Do statins reverse heparin?", synthesis="extractive")
        (prompt,) = made.prompts
    assert "[1] says: Statins do not reverse heparin in any dose." in prompt
    assert shown(events).startswith(f"{verdict}, probably [1].\n“Statins do not reverse heparin in any dose.” [1]\n")
    last = done(events)
    assert last.outcome == "partial" and SMALL_VERDICT in shown(events)
    assert last.answer.startswith(f"{verdict}, probably. “Statins") and last.usage.sampled_tokens > 0


async def test_quotes_that_settle_nothing_are_left_to_the_reader(trained: Any) -> None:
    async with trained("Unclear", documents=STATINS) as made:
        events = await made.ask("Do statins reverse heparin?", synthesis="extractive")
    assert shown(events).startswith("“Statins do not reverse heparin in any dose.” [1]\n")
    assert UNSETTLED in shown(events) and done(events).outcome == "partial"


async def test_an_open_question_is_not_decided(trained: Any) -> None:
    async with trained("Yes") as made:
        events = await made.ask(HEPARIN, synthesis="extractive")
        assert made.engine.requests == [] and done(events).outcome == "answered"


async def test_quotes_stand_without_an_engine(trained: Any) -> None:
    """One that fails is told as a step."""
    async with trained("Yes", documents=STATINS, behaviour=ScriptedBehaviour(fail_after_tokens=0)) as made:
        failed = await made.ask("Do statins reverse or block heparin?", synthesis="extractive")
    assert any("a choice is the verifier's alone" in step for step in steps(failed))
    async with trained("Yes", documents=STATINS) as made:
        await made.engine.close()
        down = await made.ask("Do statins reverse or block heparin?", synthesis="extractive")
    for events in (failed, down):
        assert shown(events).startswith("“Statins do not reverse heparin") and UNSETTLED in shown(events)


P2Y12 = "Which receptor of platelets does clopidogrel block?\nA. VKORC1\nB. P2Y12\nC. Thrombin"


async def test_a_choice_is_the_one_that_a_sentence_supports(bench: Any) -> None:
    """Each is judged as a statement behind the question."""
    text = "Which receptor of platelets does clopidogrel block is a question whose answer is P2Y12."
    async with bench(documents=[("Clopidogrel", text, "")]) as made:
        events = await made.ask(P2Y12, synthesis="extractive")
    assert shown(events).startswith("B. P2Y12 [1]\n\n")
    assert (done(events).answer, done(events).details["answer_letter"]) == ("B. P2Y12", "B")
    assert done(events).outcome == "partial"


async def test_no_choice_is_guessed(bench: Any) -> None:
    """Where nothing supports one above the bar, or two alike, the nearest sentence stands without a letter."""
    async with bench(documents=[("Clopidogrel", "Clopidogrel does block one receptor of platelets.", "")]) as made:
        events = await made.ask(P2Y12, synthesis="extractive")
    assert (done(events).outcome, done(events).details["answer_letter"]) == ("not_found", "")
    assert "support none of the choices more than the others" in shown(events)


@pytest.mark.parametrize(("said", "letter"), [("Yes", "B"), ("No", ""), ("Unclear", "")])
async def test_a_model_that_was_trained_for_it_reads_each_choice(trained: Any, said: str, letter: str) -> None:
    """The engine's failure leaves the choice to the verifier."""

    def script(prompt: str) -> str:
        return said if "Is it P2Y12?" in prompt else "No"

    async with trained(script) as made:
        events = await made.ask(P2Y12, synthesis="extractive")
    assert done(events).details["answer_letter"] == letter
    assert done(events).outcome == ("partial" if letter else "not_found") and done(events).usage.sampled_tokens > 0
    async with trained(script, behaviour=ScriptedBehaviour(fail_after_tokens=0)) as made:
        failed = await made.ask(P2Y12, synthesis="extractive")
    assert any("a choice is the verifier's alone" in step for step in steps(failed))


@pytest.mark.parametrize(("verdict", "letter"), [("No", "B"), ("Unclear", "")])
async def test_yes_and_no_as_choices_are_read_as_a_verdict(trained: Any, verdict: str, letter: str) -> None:
    async with trained(verdict, documents=STATINS) as made:
        events = await made.ask("Do statins reverse heparin?\nA. Yes\nB. No\nC. Maybe", synthesis="extractive")
    assert done(events).details["answer_letter"] == letter and done(events).outcome == "partial"


async def test_a_passage_that_numbers_its_own_sources_keeps_ours_apart(bench: Any) -> None:
    """Brackets mean our passages only."""
    async with bench(documents=[("Heparin", "Protamine reverses heparin [12] at once.", "")]) as made:
        events = await made.ask(HEPARIN, synthesis="extractive")
    assert shown(events).startswith("“Protamine reverses heparin (12) at once.” [1]")


async def test_an_empty_search_is_not_found(bench: Any) -> None:
    """Another thing than passages that do not answer."""
    async with bench() as made:
        events = await made.ask("xyzzy", synthesis="extractive", retriever="bm25")
        closed = await made.ask(HEPARIN, synthesis="extractive", allowed=frozenset({"mine"}))
    assert (done(events).outcome, shown(events)) == ("not_found", "Nothing was found in drugs.")
    assert done(closed).outcome == "abstained"


async def test_the_second_choice_of_a_case_is_searched_for(bench: Any) -> None:
    """Without a model that asks follow-up questions, i-MedRAG searches for each choice."""
    question = "Which receptor does clopidogrel block?\nA. VKORC1\nB. P2Y12"
    async with bench(IMedRag) as made:
        events = await made.ask(question, synthesis="extractive")
    assert sum("passages in drugs by hybrid" in line for line in steps(events)) == 3


@pytest.mark.parametrize(
    ("options", "param"), [({"synthesis": "magic"}, "arrowhead.synthesis"), ({"sentences": 9}, "arrowhead.sentences")]
)
async def test_an_option_that_an_extract_cannot_have_is_refused(
    bench: Any, options: dict[str, Any], param: str
) -> None:
    """With the field at fault."""
    async with bench() as made:
        with pytest.raises(OptionInvalid) as refused:
            await made.ask(HEPARIN, **options)
    assert refused.value.param == param


@pytest.mark.parametrize("method", [MedRag, IMedRag])
async def test_a_model_that_cannot_write_is_not_asked(tmp_path: Path, method: Any) -> None:
    """Its default is the extract; asking for more is refused with the remedy."""
    card = ModelCard(name="tiny", source="tiny", trained_for=("genegpt",))
    engine = ScriptedEngine(card, EngineOptions(), lambda prompt: " nonsense", tokenizer=ByteTokenizer(()))
    lifecycle = EngineLifecycle(card, lambda: engine)
    await lifecycle.load()
    async with PassageBench(
        lambda _, p: method(lifecycle, p, lexical_gate(), 400), tmp_path, lambda prompt: "", documents=DRUGS
    ) as made:
        events = await made.ask(HEPARIN)
        with pytest.raises(OptionInvalid, match=r"tiny was not trained to write answers.*serve a model that can"):
            await made.ask(HEPARIN, synthesis="generated")
    assert done(events).details["synthesis"] == "extractive" and engine.requests == []
    await engine.close()


async def test_a_retracted_article_answers_nothing(bench: Any) -> None:
    """What was withdrawn is no evidence."""
    text = "Protamine reverses heparin."
    document = Document(document_id="PMID:2", title="Withdrawn", retracted_by=("PMID:1",))
    async with bench(documents=()) as made:
        made.retrieval.namespaces.create("old", NamespaceSettings(encoder="hashing"))
        add_items(made.retrieval.namespaces, "old", [ParsedDocument(document, text, (Span(0, len(text)),), whole=True)])
        events = await made.ask(HEPARIN, synthesis="extractive")
    assert (done(events).outcome, shown(events)) == ("abstained", "All that was found in old has been retracted.")
