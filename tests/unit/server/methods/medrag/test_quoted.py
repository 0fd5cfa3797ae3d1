"""Quoted answers of MedRAG and i-MedRAG over real namespaces and the scripted engine."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from lexical_verifier import lexical_gate
from passage_bench import PassageBench, Script, done, references, shown

from server.methods.base import OptionInvalid, Sampling
from server.methods.i_medrag.method import IMedRag
from server.methods.medrag.method import MedRag
from server.methods.shared.quoted import NOTHING

HEPARIN = "Which drug reverses heparin?"
CHOICE = "Which enzyme does warfarin inhibit?\nA. Cyclooxygenase\nB. VKORC1\nC. Thrombin"


@pytest.fixture
def bench(tmp_path: Path) -> Any:
    return lambda script, method=MedRag, **more: PassageBench(
        lambda s, p: method(s, p, lexical_gate(), 400), tmp_path, script, **more
    )


def quotes(text: str, ending: str = "") -> Script:
    """A model that quotes the sentence that has ``text``, under the number that the prompt gives its passage."""

    def write(prompt: str) -> str:
        if not prompt.endswith("Quotes:\n"):
            return ' {"analysis": "", "queries": ["Which drug reverses heparin?"]}' if "JSON" in prompt else " Yes [1]."
        found = re.search(rf"^\[(\d+)\] .*?([A-Z][^.:]*{re.escape(text)}[^.]*\.)", prompt, re.MULTILINE)
        assert found, prompt
        return f"> {found[2]} [{found[1]}]{ending}"

    return write


async def test_an_open_answer_is_made_of_quotes(bench: Any) -> None:
    """The quote, its passage as the reference, and the place in it; one generation, under a grammar."""
    async with bench(quotes("reverses heparin")) as made:
        events = await made.ask(HEPARIN, synthesis="quoted")
        (request,) = made.engine.requests
    assert request.params.grammar is not None and request.params.grammar.kind == "lark"
    (reference,) = references(events)
    assert shown(events).startswith(
        f"> Protamine reverses heparin. [{reference.number}]\n\nReferences:\n[{reference.number}] [Heparin"
    )
    assert shown(events)[reference.start : reference.end] == f"[{reference.number}]"
    last = done(events)
    assert (last.answer, last.outcome) == ("Protamine reverses heparin.", "answered")
    assert (last.details["synthesis"], last.details["cited"]) == ("quoted", [reference.number])
    ((span,),) = [record["sentences"] for record in last.details["citations"]]
    assert reference.text[span["start"] : span["end"]] == span["text"]


async def test_quotes_true_is_the_same_and_quotes_false_is_not(bench: Any) -> None:
    async with bench(quotes("reverses heparin")) as made:
        assert done(await made.ask(HEPARIN, quotes=True)).details["synthesis"] == "quoted"
        assert done(await made.ask(HEPARIN, quotes=False)).details["synthesis"] == "generated"
        assert done(await made.ask(HEPARIN)).details["synthesis"] == "generated"


@pytest.mark.parametrize("written", [NOTHING, "Protamine, of course.", "> Protamine reverses warfarin. [1]"])
async def test_a_model_that_quotes_nothing_abstains(bench: Any, written: str) -> None:
    """Nothing of its own words is shown."""
    async with bench(lambda prompt: written) as made:
        events = await made.ask(HEPARIN, synthesis="quoted")
    reasons = (
        "The model found no sentence in the passages that answers this question.",
        "What the model wrote is no sentence of the passages, so nothing is quoted.",
    )
    assert shown(events) == reasons["Protamine" in written]
    assert (done(events).outcome, references(events)) == ("abstained", [])


async def test_a_choice_stands_below_its_quote(bench: Any) -> None:
    async with bench(quotes("VKORC1", "\nAnswer: B. VKORC1")) as made:
        events = await made.ask(CHOICE, synthesis="quoted")
    last = done(events)
    assert (last.answer, last.details["answer_letter"], last.outcome) == ("B. VKORC1", "B", "answered")
    assert re.match(r"> [^\n]*VKORC1[^\n]* \[\d\]\n\nAnswer: B\. VKORC1\n\nReferences:", shown(events))
    async with bench(lambda prompt: "Answer: B. VKORC1") as made:
        events = await made.ask(CHOICE, synthesis="quoted")
    assert (done(events).outcome, done(events).details["answer_letter"]) == ("abstained", "")


@pytest.mark.parametrize(
    ("ending", "outcome", "answer", "note"),
    [
        ("\nAnswer: yes", "answered", "Yes. Protamine reverses heparin.", ""),
        ("\nAnswer: not stated", "partial", "Protamine reverses heparin.", "do not say yes or no.)"),
        ("", "partial", "Protamine reverses heparin.", "wrote no answer from them.)"),
    ],
)
async def test_yes_or_no_rests_on_a_quote(bench: Any, ending: str, outcome: str, answer: str, note: str) -> None:
    async with bench(quotes("reverses heparin", ending)) as made:
        events = await made.ask("Does protamine reverse heparin?", synthesis="quoted")
    assert (done(events).outcome, done(events).answer) == (outcome, answer)
    assert note in shown(events) and "\n\nReferences:" in shown(events)


async def test_a_limit_is_told(bench: Any) -> None:
    """A quote that a limit cuts is not shown."""
    async with bench(quotes("reverses heparin")) as made:
        events = await made.ask(HEPARIN, synthesis="quoted", sampling=Sampling(max_tokens=10))
    assert (done(events).outcome, done(events).finish_reason) == ("cut", "length")
    assert shown(events) == "The answer is not complete: it reached its limit of length."


async def test_i_medrag_quotes_what_its_sub_answers_cite(bench: Any) -> None:
    """The rounds run as always; the last generation is the quotes, under the run's numbers."""
    async with bench(quotes("heparin"), IMedRag) as made:
        events = await made.ask(HEPARIN, synthesis="quoted", rounds=1)
        assert made.engine.requests[-1].params.grammar.kind == "lark"
        assert all(
            request.params.grammar is None or request.params.grammar.kind != "lark"
            for request in made.engine.requests[:-1]
        )
    last = done(events)
    assert (last.outcome, last.details["synthesis"]) == ("answered", "quoted")
    assert shown(events).startswith("> ") and references(events)
    assert last.details["calls"] == len(made.engine.requests)


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"synthesis": "quoted", "quotes": False}, "arrowhead.quotes"),
        ({"synthesis": "generated", "quotes": True}, "arrowhead.quotes"),
        ({"quotes": "yes"}, "arrowhead.quotes"),
        ({"quotes": True, "retrieval": False}, "arrowhead.retrieval"),
        ({"quotes": True, "without_passages": "answer"}, "arrowhead.without_passages"),
    ],
)
async def test_options_that_contradict_are_refused(bench: Any, options: dict[str, Any], param: str) -> None:
    async with bench(lambda prompt: "") as made:
        with pytest.raises(OptionInvalid) as refused:
            made.method.check(made.made(HEPARIN, **options))
    assert refused.value.param == param
