"""i-MedRAG over the scripted engine and a small namespace."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lexical_verifier import lexical_gate
from passage_bench import DRUGS, PassageBench, done, fill, references, shown, steps

from models.engines.scripted_engine import ScriptedBehaviour
from models.errors import ENGINE_FULL, EngineUnavailable, ModelError
from retrieval.corpus.ingest.add import add_items
from retrieval.corpus.items import ParsedDocument, Span
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.errors import NamespaceDamaged, NamespaceInvalid
from retrieval.passages import Document
from server.methods.base import OptionInvalid, Retrieved
from server.methods.i_medrag.method import IMedRag
from server.methods.shared.empty_states import NO_COLLECTION

QUESTION = "What does the drug block that heparin's antidote is not for?"
CHOICE = f"{QUESTION}\nA. Cyclooxygenase\nB. VKORC1\nC. Thrombin"
SYSTEM = "You answer medical questions by asking a library first."


def plan(*queries: str, **more: Any) -> str:
    return json.dumps({"analysis": "so far", **more, "queries": list(queries)})


class Model:
    """Writes plans in order, and to every query what ``sub`` says."""

    def __init__(
        self,
        *plans: str,
        sub: Callable[[str], str] = lambda query: f" About {query}: yes [1].",
        reasoning: str = " Well.",
        answer: str = " VKORC1 [1].",
    ) -> None:
        self.plans = list(plans)
        self.sub = sub
        self.reasoning = reasoning
        self.answer = answer

    def __call__(self, prompt: str) -> str:
        if prompt.endswith("JSON:\n"):
            return self.plans.pop(0) if self.plans else plan("again?")
        if prompt.startswith(SYSTEM):
            return self.answer if prompt.endswith("Answer:") else self.reasoning
        return self.sub(re.findall(r"\nQuestion: (.*)\n", prompt)[-1])


@pytest.fixture
def bench(tmp_path: Path) -> Any:
    return lambda script, **more: PassageBench(
        lambda s, p: IMedRag(s, p, lexical_gate(), 400), tmp_path, script, **more
    )


TWO_ROUNDS = (plan("What is warfarin?", "What is heparin?"), plan("What is aspirin?"))


@pytest.mark.parametrize("mark", [{"retracted_by": ("PMID:2",)}, {"types": ("retracted publication",)}])
async def test_a_retracted_article_is_marked(bench: Any, mark: dict[str, Any]) -> None:
    """In the prompt of each sub-answer and in the list."""
    async with bench(Model(*TWO_ROUNDS), documents=()) as made:
        made.retrieval.namespaces.create("drugs", NamespaceSettings(encoder="hashing"))
        text = "Heparin is reversed by sugar."
        document = Document(document_id="PMID:1", title="Heparin", **mark)
        add_items(
            made.retrieval.namespaces, "drugs", [ParsedDocument(document, text, (Span(0, len(text)),), whole=True)]
        )
        events = await made.ask(QUESTION, rounds=2, k=2)
    assert len([prompt for prompt in made.prompts if "Heparin (RETRACTED)\n" in prompt]) >= 3
    assert [one.title for one in references(events)] == ["Heparin (drugs; RETRACTED)"]


async def test_rounds_become_a_history_and_an_answer(bench: Any) -> None:
    """The whole way: plans, one search a round, sub-answers, history, final answer, sources under one numbering."""
    async with bench(Model(*TWO_ROUNDS, answer=" It blocks VKORC1 [2].")) as made:
        events = await made.ask(QUESTION, rounds=2, k=2)
    told = steps(events)
    assert told[0] == "round 1 asks: What is warfarin? | What is heparin?"
    assert told[1] == "round 1 finds 2, 2 passages by hybrid in drugs"
    assert told[2].startswith("What is warfarin? -> About What is warfarin?: yes [1].")
    assert told[-1] == "after 2 rounds: all rounds are done"
    last = done(events)
    assert last.answer == "It blocks VKORC1 [2]." and last.details["stop_reason"] == "rounds"
    # Two plans, three sub-answers, reasoning and answer.
    assert last.details["calls"] == len(made.prompts) == last.usage.segments == 7
    assert [one.number for one in references(events)] == [2]
    record = last.details["rounds"][0]
    assert [entry["status"] for entry in record["answers"]] == ["answered", "answered"]
    assert "Found 2: About What is heparin?: yes [" in made.prompts[-1]


async def test_each_prompt_goes_on_where_the_last_history_ended(bench: Any) -> None:
    """Question, then a history that only grows, then the instruction: all before the last round is in the cache."""
    async with bench(Model(*TWO_ROUNDS)) as made:
        await made.ask(QUESTION, rounds=2)
    whole = [r for r in made.engine.requests if r.prompt.startswith(SYSTEM)]
    stems = [request.prompt.rsplit("\n\nDo not", 1)[0].rsplit("\n\nFirst think", 1)[0] for request in whole[:3]]
    for earlier, later, request in zip(stems, stems[1:], whole[1:], strict=False):
        assert later.startswith(earlier)
        assert request.num_cached_tokens >= len(earlier.encode()) // 16 * 16


async def test_queries_of_a_round_are_searched_for_at_once(bench: Any) -> None:
    """One search a round, whatever the number of queries."""
    async with bench(Model(*TWO_ROUNDS)) as made:
        asked: list[list[str]] = []
        whole = made.retrieval.searcher.search_many

        def search_many(queries: Any, *rest: Any) -> Any:
            asked.append(list(queries))
            return whole(queries, *rest)

        made.retrieval.searcher.search_many = search_many
        await made.ask(QUESTION, rounds=2)
    assert asked == [["What is warfarin?", "What is heparin?"], ["What is aspirin?"]]


async def test_eighteen_calls_where_the_published_program_makes_twenty_two(bench: Any) -> None:
    """Four rounds of three queries, and two for the answer: the reasoning, and the letter."""
    plans = [plan(*(f"query {r} {n}" for n in "abc")) for r in range(4)]
    async with bench(Model(*plans, reasoning=" So. Answer: B.", answer=" B")) as made:
        events = await made.ask(CHOICE, stop="fixed")
    assert done(events).details["calls"] == 18 and done(events).details["answer_letter"] == "B"


async def test_a_stable_choice_stops_the_rounds(bench: Any) -> None:
    """And the reason is told."""
    plans = [plan(f"q{n}", choice="B", enough=False) for n in range(4)]
    async with bench(Model(*plans, answer=" B")) as made:
        events = await made.ask(CHOICE)
    assert done(events).details["stop_reason"] == "stable"
    assert "after 2 rounds: two rounds of answers did not change the choice" in steps(events)
    assert done(events).details["answer_letter"] == "B"


async def test_malformed_plans_cannot_end_a_run_or_show_a_prompt(bench: Any) -> None:
    """An engine without grammars: the question itself is asked, once."""
    async with bench(Model("## Queries\n\n", "none", answer=" B")) as made:
        events = await made.ask(CHOICE)
    assert done(events).details["stop_reason"] == "malformed"
    record = done(events).details["rounds"][0]
    assert record["queries"] == [QUESTION] and record["written"] == "## Queries\n\n"
    assert SYSTEM not in shown(events) and "Do not answer" not in shown(events)


async def test_a_search_that_fails_in_one_round_is_told(bench: Any) -> None:
    """The other rounds go on."""
    async with bench(Model(*TWO_ROUNDS)) as made:
        whole, calls = made.retrieval.searcher.search_many, []

        def search_many(*given: Any) -> Any:
            calls.append(1)
            if len(calls) == 1:
                raise NamespaceDamaged("the words are gone")
            return whole(*given)

        made.retrieval.searcher.search_many = search_many
        events = await made.ask(QUESTION, rounds=2)
    assert "What is heparin? -> NO ANSWER: the search failed: the words are gone" in steps(events)
    record = done(events).details["rounds"]
    assert [entry["status"] for r in record for entry in r["answers"]] == ["failed", "failed", "answered"]
    assert "Found 1: (no answer: it failed)" in made.prompts[-1]


async def test_a_sub_answer_that_fails_is_told(bench: Any) -> None:
    """The others of its round stand."""
    async with bench(Model(*TWO_ROUNDS, sub=lambda query: "" if "heparin" in query else " Yes [1].")) as made:
        events = await made.ask(QUESTION, rounds=2)
    assert "What is heparin? -> NO ANSWER: the model wrote nothing" in steps(events)
    assert done(events).answer


async def test_an_engine_that_refuses_one_sub_answer_is_told(bench: Any) -> None:
    """Its queue was full at that moment."""

    def sub(query: str) -> str:
        if "heparin" in query:
            raise ModelError("the queue is full", ENGINE_FULL)
        return " Yes [1]."

    async with bench(Model(*TWO_ROUNDS, sub=sub)) as made:
        events = await made.ask(QUESTION, rounds=2)
        assert made.engine.stats().running == 0
    assert "What is heparin? -> NO ANSWER: the queue is full" in steps(events)
    statuses = [entry["status"] for r in done(events).details["rounds"] for entry in r["answers"]]
    assert statuses == ["answered", "failed", "answered"] and done(events).answer


async def test_what_can_never_be_searched_for_is_an_error(bench: Any) -> None:
    """No model is asked round after round for nothing."""
    async with bench(Model(*TWO_ROUNDS), documents=()) as made:
        fill(made.retrieval, "words", DRUGS, encoder="")
        fill(made.retrieval, "vectors", DRUGS, words="none")
        with pytest.raises(NamespaceInvalid, match="no index in common"):
            await made.ask(QUESTION)


async def test_a_chat_model_gets_each_part_by_its_template(bench: Any) -> None:
    """No word is put into its mouth but before the letter."""

    def script(prompt: str) -> str:
        if "Write JSON" in prompt:
            return plan("What is warfarin?")
        return " B" if prompt.endswith("Answer:") else "It is clear [1]."

    async with bench(script, prompt_form="chat") as made:
        events = await made.ask(CHOICE, rounds=1)
    assert done(events).details["answer_letter"] == "B" and not any("Reasoning:" in prompt for prompt in made.prompts)


async def test_without_any_evidence_nothing_is_answered(bench: Any) -> None:
    """The reasons are told."""
    async with bench(Model(*TWO_ROUNDS, sub=lambda _: "")) as made:
        silent = await made.ask(QUESTION, rounds=2)
    why = "No query got an answer from passages (3 of 3: the model wrote nothing)."
    assert shown(silent) == why and done(silent).details["abstained"] is True
    assert done(silent).usage.segments == 5


async def test_no_namespace_asks_no_model(bench: Any) -> None:
    """There would be nothing to read."""
    async with bench(Model()) as made:
        events = await made.ask(QUESTION, allowed=frozenset({"mine"}))
    assert shown(events) == NO_COLLECTION
    assert made.engine.requests == []


async def test_time_is_bounded(bench: Any) -> None:
    """Without a sub-answer by then there is none, and its end is told."""
    slow = ScriptedBehaviour(token_delay_s=0.05)
    async with bench(Model(*TWO_ROUNDS), behaviour=slow) as made:
        events = await made.ask(QUESTION, max_seconds=1)
        assert made.engine.stats().running == 0
    assert done(events).details["stop_reason"] == "time" and done(events).outcome == "cut"


async def test_a_small_context_keeps_the_end_of_the_history(bench: Any) -> None:
    """A long run does not overflow it."""
    plans = [plan(*(f"query {r} {n}" for n in "abc")) for r in range(6)]
    async with bench(Model(*plans, sub=lambda q: f" {q} " + "word " * 100), max_model_len=2800) as made:
        events = await made.ask(QUESTION, rounds=6, stop="fixed", k=1)
    assert done(events).details["history_left_out"] > 0
    assert all(len(prompt) < 2800 for prompt in made.prompts)


async def test_an_injected_list_of_passages_gives_no_number(bench: Any) -> None:
    """A number that no passage of the context has is taken out of the history, and counted."""
    async with bench(Model(plan("What is warfarin?"), sub=lambda _: " Yes [1, 99] and [7].")) as made:
        events = await made.ask(QUESTION, rounds=1)
    assert "Found 1: Yes [1] and." in made.prompts[-1]
    assert done(events).details["unknown_sub_citations"] == 2


async def test_an_engine_that_dies_is_an_error(bench: Any) -> None:
    """Not an answer."""
    async with bench(Model(*TWO_ROUNDS), behaviour=ScriptedBehaviour(fail_after_tokens=5)) as made:
        with pytest.raises(EngineUnavailable):
            await made.ask(QUESTION)


async def test_closing_stops_all_sub_answers(bench: Any) -> None:
    """At once, wherever the run stands."""
    model = Model(plan("What is warfarin?", "What is heparin?"), sub=lambda _: " and" * 5000)
    async with bench(model, behaviour=ScriptedBehaviour(token_delay_s=0.001)) as made:
        events = made.method.answer(made.made(QUESTION))
        while not isinstance(await anext(events), Retrieved):
            pass
        task = asyncio.ensure_future(anext(events))
        while made.engine.stats().running < 2:
            await asyncio.wait({task}, timeout=0.005)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await events.aclose()
        assert made.engine.stats().running == 0


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"rounds": 0}, "arrowhead.rounds"),
        ({"queries": 99}, "arrowhead.queries"),
        ({"stop": "never"}, "arrowhead.stop"),
        ({"max_seconds": 0}, "arrowhead.max_seconds"),
        ({"samples": 2}, "arrowhead.samples"),
        ({"max_tokens_total": 9_000}, "arrowhead.max_tokens_total"),
    ],
)
async def test_a_wrong_option_is_named(bench: Any, options: dict[str, Any], param: str) -> None:
    """Before any work."""
    async with bench(Model()) as made:
        with pytest.raises(OptionInvalid) as refused:
            await made.ask(QUESTION, **options)
        assert refused.value.param == param


async def test_sub_answers_reach_the_last_one_whatever_they_say(bench: Any) -> None:
    """Whether a passage answers is for the model that reads the history."""
    silent = "The passages do not say."
    async with bench(Model(*TWO_ROUNDS, sub=lambda query: silent if "aspirin" not in query else "It is [1].")) as made:
        events = await made.ask(QUESTION, rounds=2)
    assert f"Found 1: {silent}" in made.prompts[-1]
    assert done(events).outcome == "answered"


async def test_the_last_answer_is_shown_as_it_is(bench: Any) -> None:
    """As MedRAG's is; the letter of a choice stands."""
    async with bench(Model(*TWO_ROUNDS, answer=" The passages do not say [1].")) as made:
        events = await made.ask(QUESTION, rounds=2)
    assert shown(events).startswith("The passages do not say [1].")
    async with bench(Model(*TWO_ROUNDS, sub=lambda _: " It is told [1].", answer=" B")) as made:
        events = await made.ask(CHOICE, rounds=1)
    assert shown(events).startswith("B. ") and done(events).outcome == "answered"
