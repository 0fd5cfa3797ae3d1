"""KG-RAG without the model: statements of the graph, or what their absence means."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from graph_doubles import (
    ACYCLOVIR,
    GENES,
    METHOTREXATE,
    PSORIASIS,
    STATEMENTS,
    ExactLinker,
    MemoryGraph,
    make_node,
    make_statement,
)
from lexical_verifier import LexicalJudge
from passage_bench import done, shown

from models.card import ModelCard
from models.encoders.relation_head import ALL, NOTHING, OTHER, SECOND, AskedRelation
from models.engines.base import EngineOptions
from models.engines.scripted_engine import ByteTokenizer, ScriptedEngine
from server.engine.lifecycle import EngineLifecycle
from server.methods.base import AnswerRequest, Event, Evidence, EvidenceRead, Message, OptionInvalid
from server.methods.kg_rag.method import KgRag, Readers
from server.methods.shared.conversation.follow_ups import about


class Reads:
    """Tell one relation and one denial of every question, and keep what was read."""

    def __init__(self, name: str, words: str = "", is_sure: bool = True, denial: str = NOTHING) -> None:
        self.relation = AskedRelation(name, is_sure, frozenset(words.split()), denial)
        self.seen: list[str] = []

    async def asked(self, question: str) -> AskedRelation:
        self.seen.append(question)
        return self.relation


PLAIN = Reads(OTHER)
DENIES = Reads(OTHER, denial=ALL)


async def asked(
    question: str, graph: MemoryGraph | None = None, reads: Reads | None = PLAIN, **options: Any
) -> list[Event]:
    card = ModelCard(name="tiny", source="tiny", prompt_form="base", trained_for=("genegpt",))
    engine = ScriptedEngine(card, EngineOptions(), lambda prompt: " True", tokenizer=ByteTokenizer(()))
    lifecycle = EngineLifecycle(card, lambda: engine)
    await lifecycle.load()
    graph = graph or MemoryGraph()
    linker = ExactLinker(graph, kinds=("Disease", "Compound", "Gene", "Symptom"))
    method = KgRag(lifecycle, graph, linker, Readers(LexicalJudge(), reads), max_answer_tokens=200)
    ask = AnswerRequest(request_id="r", messages=(Message("user", question),), options=options)
    try:
        method.check(ask)
        events = [event async for event in method.answer(ask)]
    finally:
        await engine.close()
    assert engine.requests == []
    return events


async def test_true_rests_on_a_statement_that_is_quoted() -> None:
    """With its source, and what was read before the answer."""
    events = await asked("True or false: methotrexate treats psoriasis.")
    assert shown(events).startswith(
        "True\n\n“Compound Methotrexate treats Disease psoriasis.” [1]\n\nReferences:\n[1] "
    )
    assert (done(events).answer, done(events).outcome) == ("True", "answered")
    (evidence,) = [event for event in events if isinstance(event, Evidence)]
    (reference,) = evidence.references
    assert shown(events)[reference.start : reference.end] == "[1]"
    read = next(event for event in events if isinstance(event, EvidenceRead))
    assert "Compound Methotrexate treats Disease psoriasis" in [source.text for source in read.sources]


@pytest.mark.parametrize(
    ("statement", "outcome", "told"),
    [
        ("acyclovir treats psoriasis", "not_found", "has no such statement, which does not mean that it is false"),
        ("methotrexate resembles psoriasis", "not_found", "has no such statement"),
        ("methotrexate is good for psoriasis", "abstained", "but not by a relation that the statement names"),
        ("aspirin treats Parkinson disease", "abstained", "nothing is linked to an entry of the knowledge graph"),
        ("acyclovir treats psoriasis and herpes zoster", "abstained", "more than two names"),
        ("methotrexate is contraindicated as a drug in psoriasis", "not_found", "has no such statement"),
    ],
)
async def test_true_is_not_said_without_one(statement: str, outcome: str, told: str) -> None:
    events = await asked(f"True or false: {statement}.")
    assert (done(events).answer, done(events).outcome) == ("unknown", outcome)
    assert shown(events).startswith("unknown\n\n(") and told in shown(events)
    assert not any(isinstance(event, Evidence) for event in events)


async def test_a_denial_is_false_where_the_graph_states_what_it_denies() -> None:
    """The verifier takes the statement for the contrary of what is denied."""
    statement = make_statement(METHOTREXATE, "TREATS_CtD", PSORIASIS)
    denial = "True or false: Compound methotrexate not treats Disease psoriasis."
    events = await asked(denial, MemoryGraph([statement]), DENIES)
    assert (done(events).answer, done(events).outcome) == ("False", "answered")
    assert "“Compound Methotrexate treats Disease psoriasis.”" in shown(events)
    open_one = await asked("True or false: methotrexate never treats herpes zoster.", reads=DENIES)
    assert done(open_one).outcome == "abstained" and "The statement is negated" in shown(open_one)


async def test_the_order_of_two_genes_matters() -> None:
    """What regulates is not what is regulated, and a statement turned round is not read as it stands."""
    one, two = GENES["HLA-B"], GENES["IL23R"]
    graph = MemoryGraph([*STATEMENTS, make_statement(one, "REGULATES_GrG", two), make_statement(two, "ISA_GiG", one)])
    kinds = Reads("parents")
    right = await asked("True or false: IL23R is a subtype of HLA-B.", graph, kinds)
    wrong = await asked("True or false: HLA-B is a subtype of IL23R.", graph, kinds)
    assert (done(right).answer, done(wrong).answer) == ("True", "unknown")
    turned = await asked("True or false: HLA-B includes IL23R, a kind of it.", graph, Reads("children"))
    assert done(turned).answer == "True"


async def test_a_negated_edge_supports_nothing() -> None:
    """Graphs with findings of absence have them as edges, too."""
    graph = MemoryGraph([make_statement(METHOTREXATE, "NOT:treats", PSORIASIS)])
    events = await asked("True or false: methotrexate treats psoriasis.", graph)
    choice = await asked("Which drug is for psoriasis. Given list is: methotrexate, aspirin", graph)
    assert done(events).answer == "unknown" and done(choice).answer == "none of these"


async def test_identifiers_are_compared() -> None:
    """Another identifier is not called false, but the graph's own is told."""
    right = await asked("True or false: the Disease Ontology identifier of psoriasis is DOID:8893.")
    wrong = await asked("True or false: the Disease Ontology identifier of psoriasis is DOID:88931.")
    other = await asked("True or false: the Disease Ontology identifier of guttate psoriasis type 2 is DOID:8893.")
    assert done(other).answer == "unknown"
    assert done(right).answer == "True" and "“Disease psoriasis: DOID:8893.” [1]" in shown(right)
    assert done(wrong).outcome == "not_found" and "has Disease psoriasis: DOID:8893;" in shown(wrong)


async def test_a_choice_needs_a_statement_for_it_alone() -> None:
    """For every name of the question."""
    both = "Which Gene is associated with psoriasis and herpes zoster. Given list is: IL23R, HLA-B, TERT"
    events = await asked(both)
    assert (done(events).answer, done(events).outcome) == ("HLA-B", "answered")
    assert shown(events).count("HLA-B.” [") == 2
    several = await asked("Which Gene is associated with psoriasis. Given list is: IL23R, HLA-B, TERT")
    assert (done(several).answer, done(several).outcome) == ("none of these", "abstained")
    assert "more than one choice: IL23R, HLA-B" in shown(several)
    nothing = await asked("Which Gene is associated with psoriasis. Given list is: BRCA1, TERT")
    assert (done(nothing).answer, done(nothing).outcome) == ("none of these", "not_found")


async def test_a_question_gets_the_statements_of_its_relation() -> None:
    """Of all of them where they are few, and their number where they are more."""
    events = await asked("Which genes are associated with psoriasis?")
    assert done(events).outcome == "answered"
    quoted = [line for line in shown(events).splitlines() if line.startswith("“")]
    assert len(quoted) == 3 and all("psoriasis associates Gene" in line for line in quoted)
    genes = [make_node("Gene", f"G{number}X") for number in range(9)]
    many = MemoryGraph([make_statement(PSORIASIS, "ASSOCIATES_DaG", gene) for gene in genes])
    assert (
        "(These are 8 of 9 statements of the knowledge graph (little graph 2026-01) that fit the question.)"
        in shown(await asked("Which genes are associated with psoriasis?", many))
    )
    drugs = await asked("Which drugs treat psoriasis?")
    assert "Methotrexate" in done(drugs).answer and "IL23R" not in done(drugs).answer


async def test_statements_of_more_sources_curators_and_articles_come_first() -> None:
    """The encoder is not asked: a name says nothing of how well a statement is founded."""
    graph = MemoryGraph(
        [
            make_statement(PSORIASIS, "ASSOCIATES_DaG", GENES["TNIP1"]),
            make_statement(PSORIASIS, "ASSOCIATES_DaG", GENES["HLA-B"], pmids=("1", "2")),
            make_statement(PSORIASIS, "ASSOCIATES_DaG", GENES["IL23R"], evidence={"curated_by": ["UniProtKB"]}),
        ]
    )
    quoted = done(await asked("Which genes are associated with psoriasis?", graph)).answer
    assert [quoted.index(name) for name in ("IL23R", "HLA-B", "TNIP1")] == sorted(
        quoted.index(name) for name in ("IL23R", "HLA-B", "TNIP1")
    )
    assert graph.encoded == []


async def test_what_treats_stands_before_what_relieves_symptoms() -> None:
    """The question's own word decides; asked for relief, only that is shown."""
    graph = MemoryGraph(
        [
            make_statement(ACYCLOVIR, "PALLIATES_CpD", PSORIASIS, provenance=("A", "B", "C")),
            make_statement(METHOTREXATE, "TREATS_CtD", PSORIASIS),
        ]
    )
    both = done(await asked("Which drugs treat psoriasis?", graph)).answer
    assert both.index("Methotrexate") < both.index("Acyclovir")
    relief = done(await asked("Which medicines relieve the symptoms of psoriasis?", graph)).answer
    assert "Acyclovir" in relief and "Methotrexate" not in relief


async def test_year_and_licence_of_a_statement_are_told() -> None:
    """In its reference, and with its evidence in the trace."""
    found = make_statement(METHOTREXATE, "TREATS_CtD", PSORIASIS, provenance=("PharmacotherapyDB",))
    edge = replace(found.edge, licence="CC0", evidence={"year": 2016, "category": "DM"})
    events = await asked("Which drugs treat psoriasis?", MemoryGraph([replace(found, edge=edge)]))
    assert "(PharmacotherapyDB, 2016, CC0)" in shown(events)
    (citation,) = done(events).details["citations"]
    assert (citation["licence"], citation["year"], citation["evidence"]["category"]) == ("CC0", 2016, "DM")


@pytest.mark.parametrize(
    ("question", "outcome"),
    [
        ("Is there a drug that treats psoriasis?", "answered"),
        ("Is psoriasis treated with aspirin?", "abstained"),
        ("Is psoriasis associated with IL23R?", "answered"),
        ("Is herpes zoster associated with IL23R?", "not_found"),
        ("Is psoriasis associated with BRCA1?", "abstained"),
        ("Which pathways are associated with psoriasis?", "not_found"),
        ("Tell me about psoriasis", "abstained"),
        ("Who won the cup?", "not_found"),
    ],
)
async def test_what_the_graph_does_not_say_is_told(question: str, outcome: str) -> None:
    """No is never said, and yes where a statement says it; its absence is told."""
    events = await asked(question)
    assert done(events).outcome == outcome
    assert shown(events).startswith("Yes\n") == (question == "Is psoriasis associated with IL23R?")
    assert not shown(events).lower().startswith("no ")
    assert done(events).details["abstained"] == (outcome != "answered")


async def test_the_names_that_a_follow_up_gets_are_no_words_of_it() -> None:
    """A question with names of an earlier turn behind it is answered as one that has them itself."""
    events = await asked(about("Which genes are associated with it?", ["psoriasis"]))
    assert done(events).outcome == "answered"


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"synthesis": "generated"}, "arrowhead.synthesis"),
        ({"synthesis": "quoted"}, "arrowhead.synthesis"),
        ({"linking": "model"}, "arrowhead.linking"),
        ({"sentences": 3}, "arrowhead.sentences"),
    ],
)
async def test_what_needs_a_model_that_writes_is_refused(options: dict[str, Any], param: str) -> None:
    """With the field at fault."""
    with pytest.raises(OptionInvalid) as refused:
        await asked("Which drugs treat psoriasis?", **options)
    assert refused.value.param == param


def test_the_doubles_have_what_the_tests_name() -> None:
    """The statement that the first test quotes."""
    assert any(s.source == METHOTREXATE and s.target == PSORIASIS for s in STATEMENTS)


async def test_a_retracted_article_is_marked_where_the_statement_is_cited() -> None:
    """In the reference and in the trace; another article of the statement is opened instead, if there is one."""
    pmids = ("19169254", "20953190")
    graph = MemoryGraph([make_statement(PSORIASIS, "ASSOCIATES_DaG", GENES["IL23R"], pmids=pmids)])
    graph.retractions = frozenset({"19169254"})
    events = await asked("True or false: psoriasis associates with IL23R.", graph)
    assert "RETRACTED: PMID 19169254" in shown(events)
    (evidence,) = [event for event in events if isinstance(event, Evidence)]
    assert evidence.references[0].url.endswith("/20953190")
    assert done(events).details["citations"][0]["retracted"] == ["19169254"]


async def test_what_is_asked_is_learned_and_not_looked_up_in_words() -> None:
    """The kinds of names stand in their places, and words that the training questions have are read."""
    reads = Reads("treats", "prescribed")
    events = await asked("What is prescribed for psoriasis?", reads=reads)
    assert reads.seen == ["What is prescribed for Disease?"]
    await asked("What is prescribed for Pelger-Huet anomaly?", reads=reads)
    assert len(reads.seen) == 1  # which relation is asked for does not matter where there is no statement
    assert (done(events).answer, done(events).outcome) == ("Compound Methotrexate treats Disease psoriasis", "answered")
    doubtful = await asked("What is prescribed for psoriasis?", reads=Reads("treats", is_sure=False))
    assert done(doubtful).outcome == "abstained"
    other = await asked("Which drugs treat psoriasis?", reads=Reads("other"))
    assert "Methotrexate" in done(other).answer


async def test_what_the_other_name_has_as_well_is_left_out_behind_a_denial() -> None:
    """A denial of all has no answer in a graph."""
    second = Reads("genes", denial=SECOND)
    events = await asked("Which genes are associated with psoriasis but not with herpes zoster?", reads=second)
    assert "IL23R" in done(events).answer and "HLA-B" not in done(events).answer
    assert "is left out; no graph is complete" in shown(events)
    for question in ("Which genes are not associated with psoriasis?", "Is psoriasis not associated with IL23R?"):
        none = await asked(question, reads=DENIES)
        assert (done(none).answer, done(none).outcome) == (done(none).details["reason"], "abstained")


async def test_what_a_denial_asks_for_is_what_is_left_over_of_the_names() -> None:
    """Where the graph states it of all others; it is told not to follow."""
    events = await asked(
        "Which does not help in psoriasis: methotrexate or acyclovir?", reads=Reads("treats", denial=ALL)
    )
    assert (done(events).outcome, done(events).details["excluded"]) == ("partial", True)
    assert "Compound Methotrexate treats" in shown(events) and "not of Acyclovir, which does not mean" in shown(events)
    choice = "Which Gene is not associated with psoriasis. Given list is: IL23R, TERT"
    one = await asked(choice, reads=DENIES)
    assert (done(one).answer, done(one).outcome) == ("TERT", "partial")
    two = await asked(f"{choice}, BRCA1", reads=DENIES)
    assert (done(two).answer, done(two).outcome) == ("none of these", "abstained")


async def test_of_several_names_those_that_are_stated_are_told() -> None:
    """Which of two drugs treats a disease; nothing follows for the other one."""
    events = await asked("Which treats psoriasis, acyclovir or methotrexate?", reads=Reads("treats"))
    assert done(events).answer == "Compound Methotrexate treats Disease psoriasis"
    assert "has no such statement of Acyclovir, which does not mean" in shown(events)


async def test_an_answer_is_not_whole_where_a_denial_could_not_be_read() -> None:
    events = await asked("Which drugs treat psoriasis?", reads=None)
    assert done(events).outcome == "partial" and "denies what it names could not be read" in shown(events)


async def test_where_nothing_fits_both_names_each_has_its_own() -> None:
    events = await asked("Which drugs treat psoriasis or herpes zoster?")
    assert done(events).outcome == "partial"
    assert "Methotrexate" in done(events).answer and "Acyclovir" in done(events).answer
    assert "No statement fits all of the names" in shown(events)


async def test_names_of_one_kind_are_asked_for_what_they_share() -> None:
    """No statement can stand between them."""
    events = await asked("Do psoriasis and herpes zoster have a gene in common?", reads=Reads("genes"))
    assert done(events).answer.count("HLA-B") == 2


@pytest.mark.parametrize("relation", ["parents", "children"])
async def test_kinds_of_a_disease_are_not_what_it_is_a_kind_of(relation: str) -> None:
    skin, guttate = make_node("Disease", "skin disease"), make_node("Disease", "guttate psoriasis")
    graph = MemoryGraph([make_statement(PSORIASIS, "ISA_DiD", skin), make_statement(guttate, "ISA_DiD", PSORIASIS)])
    events = await asked("How about psoriasis?", graph, Reads(relation))
    assert [part in done(events).answer for part in ("skin disease", "guttate")] == [
        relation == "parents",
        relation == "children",
    ]
