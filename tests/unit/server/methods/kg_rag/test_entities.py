"""What an answer is about: broader nodes for silent ones, choices as entities, and names read by the model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

import pytest
from graph_doubles import GENES, PSORIASIS, STATEMENTS, ExactLinker, MemoryGraph, make_node, make_statement
from lexical_verifier import LexicalJudge
from passage_bench import steps

from models.card import ModelCard
from models.engines.base import EngineOptions
from models.engines.scripted_engine import ByteTokenizer, ScriptedBehaviour, ScriptedEngine
from retrieval.graph.linking.dictionary_lookup.dictionary import build_dictionary
from retrieval.graph.linking.linker import Linker as GraphLinker
from retrieval.graph.types import GraphStore, Linked, Mention
from server.engine.lifecycle import EngineLifecycle
from server.methods.base import AnswerRequest, Done, Event, Message
from server.methods.kg_rag.entities import Linker
from server.methods.kg_rag.method import KgRag, Readers

FANCONI = make_node("Disease", "Fanconi anemia", "DOID:13636")
GROUP = make_node("Disease", "Fanconi anemia complementation group D2", "DOID:0111081")
KNOWN = (*STATEMENTS, make_statement(FANCONI, "ASSOCIATES_DaG", GENES["TNIP1"], row=len(STATEMENTS)))
QUESTION = "Which genes has Fanconi anemia complementation group D2?"


class Bench:
    """The method over an engine that says ``names`` where names are asked for, else ``answer``."""

    def __init__(
        self,
        *,
        graph: MemoryGraph | None = None,
        linker: Linker | None = None,
        names: str = "",
        answer: str = " TNIP1",
        behaviour: ScriptedBehaviour | None = None,
    ) -> None:
        self.graph = graph or MemoryGraph(KNOWN, (GROUP,))
        self.linker = linker or ExactLinker(self.graph)
        card = ModelCard(name="scripted", source="scripted", prompt_form="base")
        options = EngineOptions(max_model_len=20_000, block_size=16)

        def script(prompt: str) -> str:
            return names if prompt.endswith("Names as JSON:") else answer

        self.engine = ScriptedEngine(card, options, script, tokenizer=ByteTokenizer(()), behaviour=behaviour)
        self.lifecycle = EngineLifecycle(card, lambda: self.engine)

    async def ask(self, question: str = QUESTION, **options: Any) -> list[Event]:
        await self.lifecycle.load()
        method = KgRag(self.lifecycle, self.graph, self.linker, Readers(LexicalJudge()), max_answer_tokens=200)
        ask = AnswerRequest(request_id="r", messages=(Message("user", question),), options=options)
        method.check(ask)
        try:
            return [event async for event in method.answer(ask)]
        finally:
            await self.engine.close()


def details(events: Sequence[Event]) -> Any:
    assert isinstance(events[-1], Done)
    return events[-1].details


def listed(*names: tuple[str, str]) -> str:
    return json.dumps({"entities": [{"name": name, "kind": kind} for name, kind in names]})


async def test_the_broader_node_answers_for_a_silent_one_and_everything_says_so() -> None:
    """Step, context and trace; the statement itself is about the broader node."""
    bench = Bench()
    events = await bench.ask()
    said = "Disease Fanconi anemia complementation group D2 has no statements"
    assert f"{said}; those of the broader Disease Fanconi anemia (DOID:13636) are used" in steps(events)
    assert "1 statements in little graph 2026-01" in steps(events)
    context = details(events)["context"]
    assert (
        "The graph says nothing of this itself; what it says of the broader Disease Fanconi anemia is used." in context
    )
    assert details(events)["broader"] == [{"node": GROUP.node_id, "used": FANCONI.node_id}]
    assert details(events)["entities"] == [GROUP.node_id, FANCONI.node_id]


async def test_a_node_that_the_graph_does_not_know_gets_the_broader_one_too() -> None:
    """Names can be of another release."""
    bench = Bench()
    bench.graph.unknown.add(GROUP.node_id)
    assert details(await bench.ask())["broader"] == [{"node": GROUP.node_id, "used": FANCONI.node_id}]


async def test_a_broader_node_without_statements_is_not_used() -> None:
    """Then the answer is that there is none."""
    events = await Bench(graph=MemoryGraph(STATEMENTS, (FANCONI, GROUP))).ask()
    assert details(events)["abstained"] and details(events)["broader"] == []
    assert details(events)["entities"] == [GROUP.node_id]


async def test_a_broader_node_that_the_question_names_is_there_once() -> None:
    """Its statements are not doubled, and the silent one is still told of."""
    events = await Bench().ask(f"{QUESTION} And Fanconi anemia?")
    assert details(events)["entities"] == [GROUP.node_id, FANCONI.node_id]
    assert len(details(events)["statements"]) == 1
    assert details(events)["broader"] == [{"node": GROUP.node_id, "used": FANCONI.node_id}]


async def test_a_name_within_the_name_of_a_gene_is_no_broader_one() -> None:
    """An insulin receptor is no insulin."""
    insulin, receptor = make_node("Gene", "insulin", "3630"), make_node("Gene", "insulin receptor", "3643")
    known = [make_statement(PSORIASIS, "ASSOCIATES_DaG", insulin, row=0)]
    graph = MemoryGraph(known, (receptor,))
    events = await Bench(graph=graph, linker=ExactLinker(graph, ("Gene",))).ask("What does the insulin receptor do?")
    assert details(events)["abstained"] and details(events)["broader"] == []


async def test_what_is_silent_beside_others_is_said() -> None:
    """The statements are of psoriasis alone."""
    rare = make_node("Disease", "Pelger-Huet anomaly", "DOID:2929")
    events = await Bench(graph=MemoryGraph(STATEMENTS, (rare,))).ask(
        "Do psoriasis and Pelger-Huet anomaly share genes?"
    )
    assert "5 statements in little graph 2026-01; none about Pelger-Huet anomaly" in steps(events)


async def test_choices_are_entities_where_the_question_has_none() -> None:
    """Those that the linker keeps apart, and those that came beside the question."""

    class Apart:
        async def link(self, question: str, extractor: object = None) -> Linked:
            start = question.find("psoriasis")
            found = () if start < 0 else (Mention(node=PSORIASIS, start=start, end=start + 9, method="exact"),)
            return Linked(mentions=(), options=found)

        async def broader(self, text: str, mention: Mention) -> None:
            return None

    for question, options in (
        ("Which itches? Given list is: psoriasis, anosmia", {}),
        ("Which itches?", {"choices": ["psoriasis", "anosmia"]}),
    ):
        events = await Bench(linker=Apart(), answer=" psoriasis").ask(question, **options)
        assert details(events)["entities"] == [PSORIASIS.node_id]


async def test_notes_of_the_linker_are_steps() -> None:
    """An ambiguous name is told, not settled in silence."""

    class Unsure:
        async def link(self, question: str, extractor: object = None) -> Linked:
            mention = Mention(node=PSORIASIS, start=0, end=1, method="exact", margin=0.0)
            return Linked(mentions=(mention,), notes=('"p" names several nodes',))

        async def broader(self, text: str, mention: Mention) -> None:
            return None

    events = await Bench(linker=Unsure()).ask("p")
    assert steps(events)[1] == '"p" names several nodes' and details(events)["linking_notes"]


async def test_a_misspelt_name_is_told_with_how_it_was_read() -> None:
    """The step names the method and its score; the note follows."""
    events = await Bench(linker=Misspelt()).ask("What treats psorisais?")
    assert steps(events)[0] == "in the question: Disease psoriasis (DOID:8893 by spelling, 0.89)"
    assert steps(events)[1] == '"psorisais" was read as psoriasis'


class Misspelt:
    async def link(self, question: str, extractor: object = None) -> Linked:
        return await GraphLinker(build_dictionary(cast(GraphStore, MemoryGraph()))).link(question)

    async def broader(self, text: str, mention: Mention) -> None:
        return None


async def test_the_model_reads_the_names_under_a_grammar_and_a_bound() -> None:
    """What it names is looked up; its tokens are counted into the answer's."""
    names = listed(("psoriasis", "Disease"))
    bench = Bench(names=names)
    events = await bench.ask("Which drug treats psoriasis?", linking="model")
    asked, answered = bench.engine.requests
    assert asked.params.grammar is not None and asked.params.grammar.kind == "json_schema"
    assert json.loads(asked.params.grammar.spec)["properties"]["entities"]["maxItems"] == 16
    assert asked.params.max_tokens == 512 and asked.params.temperature == 0.0
    assert steps(events)[0] == "in the question: Disease psoriasis (DOID:8893 by model)"
    usage = events[-1].usage  # type: ignore[union-attr]
    assert usage.prompt_tokens == len(asked.prompt) + len(answered.prompt) + 2
    assert usage.sampled_tokens == len(names) + len(" TNIP1") + 2 and usage.segments == 2
    assert details(events)["linking_tokens"] == len(names) + 1
    assert details(events)["options"]["linking"] == "model"


@pytest.mark.parametrize(
    ("names", "note"),
    [
        ("I see psoriasis.", "the model's answer is not of the form asked for"),
        ('{"entities": [' + ", ".join(f'"{n * n}"' for n in range(200)), "was cut off after 512 tokens (length)"),
    ],
)
async def test_a_model_that_cannot_read_names_is_told_and_the_dictionary_used(names: str, note: str) -> None:
    """Whatever it writes; what it took is counted."""
    events = await Bench(names=names).ask("Which drug treats psoriasis?", linking="model")
    assert note in steps(events)[1] and steps(events)[1].endswith("; the dictionary was used")
    assert steps(events)[0] == "in the question: Disease psoriasis (DOID:8893)"
    assert details(events)["linking_tokens"] == min(len(names) + 1, 512)


@pytest.mark.parametrize("names", [listed(), listed(("measles", "Disease")), listed(("drug", "Disease"))])
async def test_where_the_model_names_nothing_the_dictionary_is_asked(names: str) -> None:
    """No name, one that the question does not have, one that the graph does not."""
    events = await Bench(names=names).ask("Which drug treats psoriasis?", linking="model")
    assert steps(events)[0] == "in the question: Disease psoriasis (DOID:8893)"
    assert "the model named nothing that the graph has; the dictionary was used" in steps(events)


async def test_an_engine_that_fails_on_names_fails_on_nothing_else() -> None:
    """The dictionary's answer is an abstention here, so no second call is made; the tokens spent are in its usage."""
    bench = Bench(names=listed(), behaviour=ScriptedBehaviour(fail_after_tokens=3))
    events = await bench.ask("How do I cook pasta?", linking="model")
    assert "the model gave no names: scripted failure" in steps(events)[1]
    assert details(events)["abstained"]
    assert events[-1].usage.sampled_tokens == 3  # type: ignore[union-attr]


async def test_without_the_option_no_model_reads_names() -> None:
    """One call, for the answer."""
    bench = Bench()
    await bench.ask("Which drug treats psoriasis?")
    assert len(bench.engine.requests) == 1
