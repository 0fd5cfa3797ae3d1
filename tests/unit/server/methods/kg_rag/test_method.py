"""KG-RAG over the scripted engine and a small graph."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from graph_doubles import PSORIASIS, ExactLinker, MemoryGraph, make_node, make_statement
from lexical_verifier import LexicalJudge
from passage_bench import done, shown

from models.card import ModelCard
from models.engines.base import EngineOptions
from models.engines.scripted_engine import ByteTokenizer, Rule, ScriptedEngine
from retrieval.errors import GRAPH_SOURCE_UNAVAILABLE, GraphError
from retrieval.graph.types import Linked, Mention, Neighbourhood, Node
from server.engine.lifecycle import EngineLifecycle
from server.methods.base import AnswerRequest, Event, Evidence, Message, OptionInvalid, Sampling, Step, TranscriptDelta
from server.methods.kg_rag.entities import Linker
from server.methods.kg_rag.method import KgRag, Readers
from server.methods.shared.empty_states import MORE_STATEMENTS
from server.traces import TraceRecorder

WHICH = "Which Gene is associated with psoriasis and herpes zoster. Given list is: IL23R, HLA-B, TERT"
Script = Sequence[Rule] | Callable[[str], str]


@dataclass
class Bench:
    """One method over one engine; ``graph`` counts what it was asked."""

    script: Script
    graph: MemoryGraph = field(default_factory=MemoryGraph)
    linker: Linker | None = None
    max_model_len: int = 20_000

    async def __aenter__(self) -> Bench:
        card = ModelCard(name="scripted", source="scripted", prompt_form="base")
        options = EngineOptions(max_model_len=self.max_model_len, block_size=16)
        self.engine = ScriptedEngine(card, options, self.script, tokenizer=ByteTokenizer(()))
        lifecycle = EngineLifecycle(card, lambda: self.engine)
        await lifecycle.load()
        self.method = KgRag(
            lifecycle,
            self.graph,
            self.linker or ExactLinker(self.graph),
            Readers(LexicalJudge()),
            max_answer_tokens=200,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.engine.close()

    async def ask(self, question: str, **options: Any) -> list[Event]:
        ask = AnswerRequest(request_id="r", messages=(Message("user", question),), options=options)
        self.method.check(ask)
        return [event async for event in self.method.answer(ask)]

    @property
    def prompt(self) -> str:
        return self.engine.requests[-1].prompt


def says(text: str) -> Script:
    return lambda prompt: text


async def test_an_answer_comes_from_the_graphs_statements_with_its_sources() -> None:
    """The whole way: steps, context in the prompt, answer, references at their places, trace."""
    async with Bench(says(" IL23R (GWAS Catalog, p = 2e-13)")) as bench:
        events = await bench.ask("Is psoriasis associated with IL23R?")
    assert [event.text for event in events if isinstance(event, Step)] == [
        "in the question: Disease psoriasis (DOID:8893)",
        "5 statements in little graph 2026-01",
        "5 statements chosen, 1 of them named in the question; 228 tokens, 0 left out",
        "the model answers from the graph",
    ]
    assert "- associates Gene: IL23R; " in bench.prompt
    assert bench.prompt.endswith("\n\nQuestion: Is psoriasis associated with IL23R?\nAnswer:")
    (evidence,) = [event for event in events if isinstance(event, Evidence)]
    text = shown(events)
    assert [text[r.start : r.end] for r in evidence.references] == ["[1]", "[2]"]
    assert [(r.title, r.url) for r in evidence.references] == [
        (
            "Disease psoriasis associates Gene IL23R (GWAS Catalog, p = 2e-13)",
            "https://pubmed.ncbi.nlm.nih.gov/19169254",
        ),
        ("Disease psoriasis, DOID:8893", "https://identifiers.org/DOID:8893"),
    ]
    last = done(events)
    assert last.answer == "IL23R (GWAS Catalog, p = 2e-13)" and last.finish_reason == "stop"
    (citation,) = last.details["citations"]
    assert citation["p_value"] == 2e-13 and citation["pmids"] == ["19169254"]
    assert citation["node_urls"][1] == "https://www.ncbi.nlm.nih.gov/gene/3107"


async def test_the_question_is_encoded_once() -> None:
    """However many entities it has."""
    async with Bench(says(" HLA-B")) as bench:
        await bench.ask(WHICH)
    assert bench.graph.encoded == [WHICH]


async def test_a_choice_is_answered_under_a_grammar_of_the_choices() -> None:
    """With a way out; the stem alone is linked, the choices come first in the context."""
    async with Bench(says(" HLA-B")) as bench:
        events = await bench.ask(WHICH)
    params = bench.engine.requests[-1].params
    assert params.grammar is not None
    assert (params.grammar.kind, params.grammar.spec) == ("regex", " ?(IL23R|HLA-B|TERT|none of these)")
    assert bench.prompt.endswith("\nChoices: IL23R; HLA-B; TERT; none of these\nAnswer:")
    last = done(events)
    assert (last.answer, last.details["form"], last.details["abstained"]) == ("HLA-B", "multiple_choice", False)
    assert last.details["entities"] == ["Disease::DOID:8893", "Disease::DOID:8536"]
    assert len(last.details["citations"]) == 2
    assert set(last.details["statements"][:2]) == {
        "Disease::DOID:8893|ASSOCIATES_DaG|Gene::3106",
        "Disease::DOID:8536|ASSOCIATES_DaG|Gene::3106",
    }


async def test_a_models_abstention_is_counted_and_cites_nothing() -> None:
    """ "none of these" is an answer of its own, apart from a wrong one."""
    async with Bench(says(" none of these")) as bench:
        events = await bench.ask(WHICH)
    last = done(events)
    assert (last.answer, last.details["abstained"], last.details["answer_in_list"]) == ("none of these", True, True)
    assert not any(isinstance(event, Evidence) for event in events)


@pytest.mark.parametrize("text", ["No, it is not.", "Yes. IL23R is.", "The statements do not say.", "**IL23R** [7]"])
async def test_the_text_of_the_model_is_shown_whole(text: str) -> None:
    async with Bench(says(f" {text}")) as bench:
        events = await bench.ask("Is psoriasis associated with IL23R?")
    assert shown(events).startswith(text) and done(events).answer == text


async def test_an_answer_outside_the_choices_is_told() -> None:
    """An engine that keeps no grammar may write one."""
    async with Bench(says(" BRCA1")) as bench:
        events = await bench.ask(WHICH)
    assert done(events).answer == "BRCA1" and done(events).details["answer_in_list"] is False
    assert Step("the answer is none of the choices") in events


async def test_true_or_false_cites_what_the_sentence_names() -> None:
    """The word itself names nothing."""
    async with Bench(says(" False")) as bench:
        events = await bench.ask("True or false: psoriasis is not associated with Gene TNIP1")
    last = done(events)
    assert (last.answer, last.details["form"]) == ("False", "true_false")
    assert [citation["text"] for citation in last.details["citations"]] == ["Disease psoriasis associates Gene TNIP1"]
    assert "Question: psoriasis is not associated with Gene TNIP1\nChoices: True; False; unknown" in bench.prompt


async def test_what_the_graph_does_not_know_is_said_and_no_model_asked() -> None:
    """Nothing else is put in its place; no token is spent."""
    async with Bench(says(" must not be asked")) as bench:
        events = await bench.ask("How do I cook pasta?")
    text = "The knowledge graph (little graph 2026-01) has no entry for anything that the question names."
    text = f"{text} {MORE_STATEMENTS}"
    assert shown(events) == text and done(events).answer == text
    assert done(events).details["abstained"] is True and done(events).usage.prompt_tokens == 0
    assert bench.engine.requests == [] and bench.graph.encoded == []
    assert TranscriptDelta(text, "injected") in events


async def test_a_closed_question_without_context_is_abstained_from_in_its_own_words() -> None:
    """The bare answer is one of the answers that may be given."""
    async with Bench(says(" True")) as bench:
        events = await bench.ask("True or false: pasta treats hunger")
    assert done(events).answer == "unknown"
    assert shown(events).startswith("unknown\n\nThe knowledge graph")


async def test_a_known_entity_without_statements_is_abstained_from() -> None:
    """Unless its identifier is asked for, which the graph has."""
    async with Bench(says(" DOID:2929")) as bench:
        silent = await bench.ask("What treats Pelger-Huet anomaly?")
        told = await bench.ask("What is the Disease Ontology identifier of Pelger-Huet anomaly?")
    assert shown(silent) == ("The knowledge graph (little graph 2026-01) has no statement about Pelger-Huet anomaly.")
    assert "Disease Pelger-Huet anomaly (DOID:2929, Disease Ontology)" in bench.prompt
    assert done(told).answer == "DOID:2929"


async def test_a_node_that_the_source_lost_is_said_not_crashed_on() -> None:
    """Renamed since the names were read: the published program failed after 22 seconds."""
    async with Bench(says("")) as bench:
        bench.graph.unknown.add(PSORIASIS.node_id)
        events = await bench.ask("What treats psoriasis?")
    assert "has no statement about psoriasis" in shown(events)


async def test_a_source_that_fails_ends_the_answer_with_its_error() -> None:
    """No answer from a part of the facts."""

    class Broken(MemoryGraph):
        async def neighbourhood(self, node: Node) -> Neighbourhood:
            raise GraphError("the graph's server does not answer", GRAPH_SOURCE_UNAVAILABLE)

    async with Bench(says(""), graph=Broken()) as bench:
        with pytest.raises(GraphError, check=GRAPH_SOURCE_UNAVAILABLE.is_of):
            await bench.ask("What treats psoriasis?")


async def test_evidence_is_json_in_the_prompt() -> None:
    """Behind the name it belongs to."""
    async with Bench(says(" 2e-13")) as bench:
        await bench.ask("What is the GWAS p-value of psoriasis and IL23R?", evidence=True)
    line = next(line for line in bench.prompt.splitlines() if "IL23R {" in line)
    parsed, _ = json.JSONDecoder().raw_decode(line[line.index("{") :])
    assert parsed == {"gwas_pvalue": 2e-13, "pmids": ["19169254"]}


async def test_a_context_leaves_room_for_question_and_answer() -> None:
    """In a small window it is shorter."""
    genes = [make_node("Gene", f"GENE{number}") for number in range(500)]
    known = [make_statement(PSORIASIS, "ASSOCIATES_DaG", gene, row=row) for row, gene in enumerate(genes)]
    async with Bench(says(" many"), graph=MemoryGraph(known), max_model_len=1800) as bench:
        events = await bench.ask("Which genes has psoriasis?")
        assert 0 < done(events).details["context_tokens"] < 1000
        assert done(events).usage.prompt_tokens <= 1800 - 200


async def test_more_entities_than_are_used_are_told() -> None:
    """A question cannot make the server read a hundred neighbourhoods."""
    many = [make_node("Disease", f"D{number}") for number in range(12)]

    class Many:
        async def link(self, question: str, extractor: object = None) -> Linked:
            found = [Mention(node=node, start=0, end=1, method="nearest", score=0.9) for node in many]
            return Linked(mentions=tuple(found))

        async def broader(self, text: str, mention: Mention) -> None:
            return None

    async with Bench(says(" x"), linker=Many()) as bench:
        events = await bench.ask("D")
    assert isinstance(events[0], Step) and events[0].text.endswith("and 3 more; 4 not used")
    assert len(done(events).details["entities"]) == 8


async def test_the_papers_rule_is_an_option() -> None:
    """A single statement does not survive it, and that is said."""
    async with Bench(says(" x")) as bench:
        events = await bench.ask("What treats psoriasis?", pruning="paper")
    assert "but none was chosen for this question" in shown(events)


async def test_a_trace_holds_what_was_given_and_chosen() -> None:
    """It is JSON."""
    async with Bench(says(" HLA-B")) as bench:
        ask = AnswerRequest(request_id="r", messages=(Message("user", WHICH),))
        recorder = TraceRecorder(ask)
        async for event in bench.method.answer(ask):
            recorder.feed(event)
    record = json.loads(json.dumps(recorder.record()))
    assert record["details"]["context"].startswith("Disease psoriasis (DOID:8893")
    assert record["details"]["mentions"][0]["method"] == "exact"
    assert record["answer"] == "HLA-B" and record["transcript"] == " HLA-B"


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"mask": "full"}, "arrowhead.mask"),
        ({"choices": ["one"]}, "arrowhead.choices"),
        ({"choices": ["same", "same "]}, "arrowhead.choices"),
        ({"evidence": "yes"}, "arrowhead.evidence"),
        ({"context_tokens": 800}, "arrowhead.context_tokens"),
        ({"pruning": "none"}, "arrowhead.pruning"),
        ({"form": "general"}, "arrowhead.form"),
    ],
)
async def test_wrong_options_are_refused_by_name(options: dict[str, Any], param: str) -> None:
    """Before any work."""
    async with Bench(says("")) as bench:
        with pytest.raises(OptionInvalid) as refused:
            bench.method.check(AnswerRequest(request_id="r", messages=(Message("user", "psoriasis"),), options=options))
    assert refused.value.param == param


async def test_logprobs_of_a_chat_are_refused() -> None:
    """As for other methods; a completion reports them."""
    async with Bench(says(" x")) as bench:
        sampling = Sampling(logprobs=1)
        with pytest.raises(OptionInvalid, match="logprobs"):
            bench.method.check(AnswerRequest(request_id="r", messages=(Message("user", "q"),), sampling=sampling))
        ask = AnswerRequest(request_id="r", prompt="psoriasis", sampling=sampling)
        bench.method.check(ask)
        events = [event async for event in bench.method.answer(ask)]
    assert any(isinstance(event, TranscriptDelta) and event.logprobs for event in events)
