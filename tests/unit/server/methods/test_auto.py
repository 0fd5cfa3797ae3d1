"""Auto over small methods and a verifier without weights: which of them answers, and what is told of the others."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from lexical_verifier import AS_THE_MODEL, lexical_gate

from models.card import ModelCard
from models.decoding.types import LoopUsage
from models.errors import ArrowheadError
from models.verifiers.base import Judgement, OperatingPoints, Pair
from server.errors import VERIFIER_UNAVAILABLE, RequestError
from server.methods.auto import Auto, AutoReaders
from server.methods.base import (
    AnswerOutcome,
    AnswerRequest,
    CallReplied,
    Done,
    Event,
    EvidenceRead,
    OptionInvalid,
    Source,
    Step,
    TextDelta,
)
from server.methods.genegpt.questions import QuestionReader
from server.methods.shared.reading.gate import Gate

GENERAL = ModelCard(name="general", source="-")
SMALL = ModelCard(name="small", source="-", trained_for=("genegpt",), verdicts=AS_THE_MODEL)
QUESTION = "Which drug reverses heparin in bleeding patients?"
ANSWERING = "The drug protamine reverses heparin in bleeding patients, which is what is wanted."
OTHER = "Zebras live in the savannah of Africa and eat grass there."


@dataclass
class Small:
    """A method with evidence of its own; ``seen`` counts what it was asked and how far it went."""

    name: str
    evidence: str = ""
    outcome: AnswerOutcome = "answered"
    details: Mapping[str, Any] = field(default_factory=dict)
    refuses: bool = False
    fails: bool = False
    seen: list[str] = field(default_factory=list)
    asked: list[AnswerRequest] = field(default_factory=list)
    description = "small"

    def check(self, ask: AnswerRequest) -> None:
        if self.refuses:
            raise OptionInvalid(f"{self.name} is not served", param="model")

    async def answer(self, ask: AnswerRequest) -> AsyncGenerator[Event, None]:
        self.asked.append(ask)
        try:
            yield Step(f"{self.name} searches")
            if self.fails:
                raise ArrowheadError(f"{self.name} failed")
            if self.evidence:
                yield self._found()
                self.seen.append("went on")
            yield TextDelta(f"answer of {self.name}")
            yield Done(
                answer=f"answer of {self.name}",
                finish_reason="stop",
                stop_reason=None,
                usage=LoopUsage(sampled_tokens=7),
                details=self.details,
                outcome=self.outcome,
            )
        finally:
            self.seen.append("closed")

    def _found(self) -> Event:
        if self.name != "genegpt":
            return EvidenceRead((Source(self.evidence),))
        record = {"endpoint": "esummary", "num_records": 1}
        return CallReplied("url", 0, "ok", "1 record", 0.1, 5, record)


@dataclass
class Greeting:
    language: str = "en"
    is_emergency: bool = False
    is_greeting: bool = False
    asks_nothing: bool = False


@dataclass
class Reader:
    reading: Greeting = field(default_factory=Greeting)

    async def read(self, message: str) -> Greeting | None:
        return self.reading


def _methods(**changed: Small) -> dict[str, Small]:
    usual = {
        "direct": Small("direct", refuses=True),
        "genegpt": Small("genegpt", "record"),
        "kg-rag": Small("kg-rag", OTHER, "not_found"),
        "medrag": Small("medrag", ANSWERING),
        "clinfo": Small("clinfo", OTHER, "not_found"),
        "weiseeule": Small("weiseeule", ANSWERING),
    }
    return usual | {name.replace("_", "-"): method for name, method in changed.items()}


async def _answered(
    served: dict[str, Small],
    question: str = QUESTION,
    card: ModelCard = SMALL,
    reader: Reader | None = None,
    gate: Gate | None = None,
    subjects: tuple[frozenset[str], ...] = (),
    **more: Any,
) -> tuple[list[Event], Done]:
    readers = AutoReaders(gate or lexical_gate(), reader or Reader(), QuestionReader.load(), lambda _: subjects)
    auto = Auto(served, card, readers)
    ask = AnswerRequest(request_id="1", prompt=question, **more)
    auto.check(ask)
    events = [event async for event in auto.answer(ask)]
    done = events[-1]
    assert isinstance(done, Done)
    return events, done


async def test_the_method_whose_evidence_answers_goes_on() -> None:
    """It says which and why, the answer is whole, and the others are closed and offered."""
    methods = _methods()
    events, done = await _answered(methods)

    assert done.answer == "answer of medrag" and done.details["answered_by"] == "medrag"
    first, *rest = events
    assert isinstance(first, Step) and first.text.startswith(
        "answered by medrag: of what was found, evidence of passages"
    )
    assert [event.text for event in rest if isinstance(event, Step)] == ["medrag searches"]
    offered = {one["method"]: one["found"] for one in done.details["alternatives"]}
    # No gene is looked up, and articles are not searched where passages answer.
    assert offered == {"genegpt": None, "kg-rag": True, "clinfo": None}
    assert methods["medrag"].seen == ["went on", "closed"]
    assert methods["genegpt"].asked == methods["clinfo"].asked == []


async def test_statements_of_just_what_is_asked_come_first() -> None:
    methods = _methods(kg_rag=Small("kg-rag", OTHER, "answered"))
    _, done = await _answered(methods)
    assert done.details["answered_by"] == "kg-rag"


async def test_articles_are_judged_by_their_own_quotes() -> None:
    """Where they answer and passages do not."""
    sure = Small("clinfo", OTHER, "answered", {"best": 0.9, "bar": 0.5})
    _, done = await _answered(_methods(medrag=Small("medrag", OTHER), clinfo=sure))
    assert done.details["answered_by"] == "clinfo"
    assert done.usage.sampled_tokens == 14  # those of the graph's end count too
    assert done.details["alternatives"][-1]["method"] == "medrag"


async def test_what_only_may_answer_stands_before_a_graph_without_such_a_statement() -> None:
    maybe = Small("clinfo", OTHER, "partial", {"best": 0.3, "bar": 0.5})
    graph = Small("kg-rag", OTHER, "not_found")
    _, done = await _answered(_methods(kg_rag=graph, medrag=Small("medrag", OTHER), clinfo=maybe))
    assert done.details["answered_by"] == "clinfo"


@pytest.mark.parametrize(
    ("outcome", "evidence", "answers"),
    [
        ("partial", OTHER, "medrag"),
        ("partial", "Ondansetron is given for it.", "clinfo"),
        ("answered", OTHER, "clinfo"),
    ],
)
async def test_what_only_may_answer_has_to_name_what_is_asked_about(outcome: Any, evidence: str, answers: str) -> None:
    """By any of its names; else the source that found nothing says so."""
    articles = Small("clinfo", evidence, outcome, {"best": 0.3 if outcome == "partial" else 0.9, "bar": 0.5})
    served = _methods(medrag=Small("medrag", OTHER), clinfo=articles)
    _, done = await _answered(served, subjects=(frozenset({"zofran", "ondansetron"}),))
    assert done.details["answered_by"] == answers


@pytest.mark.parametrize(
    ("evidence", "answers"),
    [("Neither of the variants is in the gene.", "genegpt"), ("The variant rs99 is in the gene.", "clinfo")],
)
async def test_what_was_looked_up_in_vain_is_answered_by_what_names_it(evidence: str, answers: str) -> None:
    """Sentences about another variant answer another question."""
    sure = Small("clinfo", evidence, "answered", {"best": 0.9, "bar": 0.5})
    nothing = {"genegpt": Small("genegpt", outcome="not_found"), "medrag": Small("medrag", OTHER), "clinfo": sure}
    _, done = await _answered(_methods() | nothing, "Which gene is SNP rs99 associated with?")
    assert done.details["answered_by"] == answers


async def test_evidence_about_another_identifier_answers_nothing() -> None:
    """Of a question without a plan too; what spells an abbreviation out is read as ever."""
    lost = {"genegpt": Small("genegpt", outcome="not_found"), "clinfo": Small("clinfo", OTHER, "not_found")}
    about_it = Small("medrag", "The drug protamine reverses LMP10 in bleeding patients.")
    for question, evidence, answers in (
        ("Which drug reverses LMP10 in bleeding patients?", about_it, "medrag"),
        ("Which drug reverses LMP11 in bleeding patients?", about_it, "genegpt"),
        ("Which drug reverses LMWH in bleeding patients?", Small("medrag", ANSWERING), "medrag"),
    ):
        _, done = await _answered(_methods() | lost | {"medrag": evidence}, question)
        assert done.details["answered_by"] == answers, question


async def test_a_look_up_with_records_answers() -> None:
    """And one that finds nothing leaves the question to the others, or says so where they have nothing either."""
    methods = _methods()
    _, done = await _answered(methods, "Which chromosome is BRCA1 on?")
    assert done.details["answered_by"] == "genegpt" and methods["medrag"].asked == []
    nothing = {"genegpt": Small("genegpt", outcome="not_found"), "medrag": Small("medrag", OTHER)}
    _, done = await _answered(_methods() | nothing, "Which chromosome is BRCA1 on?")
    assert (done.details["answered_by"], done.outcome) == ("genegpt", "not_found")


@pytest.mark.parametrize(
    ("graph", "records", "answers"),
    [("answered", "answered", "kg-rag"), ("not_found", "answered", "genegpt"), ("not_found", "abstained", "medrag")],
)
async def test_genes_of_a_disease_are_read_behind_the_graph_and_before_texts(
    graph: AnswerOutcome, records: AnswerOutcome, answers: str
) -> None:
    """To the answer: the record of a disease may name no gene."""
    methods = _methods(kg_rag=Small("kg-rag", OTHER, graph), genegpt=Small("genegpt", "record", records))
    methods["medrag"] = Small("medrag", "Genes that cause Marfan syndrome: FBN1 causes Marfan syndrome.")
    _, done = await _answered(methods, "Which gene causes Marfan syndrome?")
    assert done.details["answered_by"] == answers


@pytest.mark.parametrize(
    ("question", "answers"),
    [
        ("Loss of which gene causes Menkes disease?", "genegpt"),
        ("On which chromosome is Hotair in the mouse?", "genegpt"),
        ("Why does SNCA cause Parkinson disease?", "kg-rag"),
        ("Where are MLH1 and MSH2?", "genegpt"),
    ],
)
async def test_what_genegpt_reads_is_read_to_the_answer_where_nothing_else_may_answer(
    question: str, answers: str
) -> None:
    """Not what has words that it would pass over."""
    methods = _methods(genegpt=Small("genegpt", "record", "answered"), medrag=Small("medrag", OTHER, "not_found"))
    _, done = await _answered(methods, question)
    assert done.details["answered_by"] == answers


async def test_the_nearest_method_says_that_nothing_answers() -> None:
    events, done = await _answered(_methods(medrag=Small("medrag", OTHER, "not_found")))
    assert done.outcome == "not_found"
    assert isinstance(events[0], Step) and events[0].text.endswith("nothing that was found answers this")


async def test_a_model_that_chats_takes_greetings_and_what_no_source_answers() -> None:
    chatting = Small("direct")
    methods = _methods(direct=chatting)
    _, done = await _answered(methods, "Hello", GENERAL, Reader(Greeting(is_greeting=True)))
    assert done.details["answered_by"] == "direct" and methods["medrag"].asked == []
    _, done = await _answered(_methods(direct=Small("direct"), medrag=Small("medrag", OTHER)), card=GENERAL)
    assert done.details["answered_by"] == "direct"


async def test_a_model_that_writes_finds_its_evidence_without_writing() -> None:
    """The chosen method then begins anew, as it answers by default."""
    sure = Small("clinfo", OTHER, "answered", {"best": 0.9, "bar": 0.5})
    _, done = await _answered(_methods(medrag=Small("medrag", OTHER), clinfo=sure), card=GENERAL)
    assert done.details["answered_by"] == "clinfo"
    assert [ask.options.get("synthesis") for ask in sure.asked] == ["extractive", None]


async def test_marked_keywords_are_those_of_weiseeule() -> None:
    _, done = await _answered(_methods(), "#Which drug reverses **heparin** in bleeding patients?")
    assert done.details["answered_by"] == "weiseeule"


async def test_only_methods_of_the_key_are_asked_and_offered() -> None:
    methods = _methods()
    _, done = await _answered(methods, methods=frozenset({"kg-rag", "clinfo"}))
    assert methods["medrag"].asked == []
    assert {done.details["answered_by"]} | {one["method"] for one in done.details["alternatives"]} == {
        "kg-rag",
        "clinfo",
    }


async def test_a_request_names_the_methods_that_are_asked() -> None:
    """Of those that the key may use, and without the plain model where it is not among them."""
    methods = _methods(direct=Small("direct"))
    _, done = await _answered(methods, options={"methods": ["kg-rag", "clinfo"]}, card=GENERAL)
    assert done.details["answered_by"] in ("kg-rag", "clinfo")
    assert methods["medrag"].asked == methods["direct"].asked == []
    assert "methods" not in methods["kg-rag"].asked[0].options
    with pytest.raises(OptionInvalid, match=r"arrowhead\.methods, leaves"):
        await _answered(_methods(), options={"methods": ["kg-rag"]}, methods=frozenset({"medrag"}))


@pytest.mark.parametrize("methods", [[], "kg-rag", ["i-medrag"], [["kg-rag"]], [1]])
async def test_what_auto_cannot_choose_from_is_refused(methods: object) -> None:
    with pytest.raises(OptionInvalid, match="may choose from, of genegpt, kg-rag") as refused:
        await _answered(_methods(), options={"methods": methods})
    assert refused.value.param == "arrowhead.methods"


async def test_options_go_to_the_methods_that_have_them() -> None:
    """Articles are read without namespaces, whose passages are searched before them."""
    methods = _methods(medrag=Small("medrag", OTHER))
    await _answered(methods, options={"namespaces": ["mine"], "egress": "off"}, namespaces=frozenset({"mine"}))
    asked = {name: method.asked[0] for name, method in methods.items() if method.asked}
    assert asked["medrag"].options == {"namespaces": ["mine"]} and asked["medrag"].namespaces == frozenset({"mine"})
    assert asked["clinfo"].options == {"egress": "off"} and asked["clinfo"].namespaces == frozenset()


async def test_an_option_of_one_method_is_refused_by_name() -> None:
    with pytest.raises(OptionInvalid, match="Auto has no such option") as refused:
        await _answered(_methods(), options={"mask": "full"})
    assert refused.value.param == "arrowhead.mask"


async def test_a_source_that_fails_does_not_end_the_answer() -> None:
    """Unless no other one has anything: then its failure is the answer's."""
    _, done = await _answered(_methods(clinfo=Small("clinfo", fails=True)))
    assert done.details["answered_by"] == "medrag"
    with pytest.raises(ArrowheadError, match="medrag failed"):
        await _answered(_methods(medrag=Small("medrag", fails=True)), methods=frozenset({"medrag"}))


async def test_a_request_that_no_method_takes_is_refused() -> None:
    refusing = {name: Small(name, refuses=True) for name in _methods()}
    with pytest.raises(OptionInvalid, match="is not served"):
        await _answered(refusing)


class Broken:
    """A verifier that cannot be loaded."""

    @property
    def points(self) -> OperatingPoints:
        raise RequestError("the verifier cannot be loaded", VERIFIER_UNAVAILABLE)

    async def judge(self, pairs: Sequence[Pair]) -> list[Judgement]:
        raise RequestError("the verifier cannot be loaded", VERIFIER_UNAVAILABLE)


async def test_without_a_verifier_passages_are_read_and_the_step_says_so() -> None:
    """Not the plain model, as nobody knows that nothing answers."""
    methods = _methods(direct=Small("direct"))
    events, done = await _answered(methods, card=GENERAL, gate=Gate(Broken()))
    assert done.details["answered_by"] == "medrag"
    assert isinstance(events[0], Step) and "the verifier cannot be loaded" in events[0].text
