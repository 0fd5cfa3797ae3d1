"""Each way of retrieval over one little graph; Cypher's where the database is installed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from comparison_graph import build_little
from openai import AsyncOpenAI

from models.engines.scripted_engine import ByteTokenizer
from retrieval.graph.context.select import ContextOptions
from scripts.evals.comparators import cypher_database
from scripts.evals.comparators.base import Retrieved
from scripts.evals.comparators.cypher_guard import CypherFailed, CypherRefused
from scripts.evals.comparators.cypher_rag import CypherRag
from scripts.evals.comparators.cypher_writers import (
    Attempt,
    ModelWriter,
    OracleWriter,
    names_asked,
    prompt_of,
    query_in,
    schema_text,
    text_of,
)
from scripts.evals.comparators.full_text import FullTextNodes, FullTextStatements
from scripts.evals.comparators.graph import Evaluated
from scripts.evals.comparators.kg_rag import KgRagRetriever
from scripts.evals.comparators.measures import VARIANTS
from scripts.evals.comparators.method_record import bare, names_and_value, told
from scripts.evals.comparators.questions import Question, made
from scripts.evals.kg.comparators import measure

QUESTION = "Is celiac disease associated with PLEK?"
needs_cypher = pytest.mark.skipif(not cypher_database.is_installed(), reason="needs the extra 'comparators'")


def words(text: str) -> int:
    return len(text.split())


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Evaluated:
    return build_little(tmp_path_factory.mktemp("comparison"))


@pytest.fixture(scope="module")
def database(graph: Evaluated, tmp_path_factory: pytest.TempPathFactory) -> Iterator[cypher_database.CypherDatabase]:
    path = tmp_path_factory.mktemp("cypher") / "graph.lbug"
    cypher_database.write_database(path, graph.statements)
    opened = cypher_database.CypherDatabase(path, cypher_database.Limits(rows=3))
    yield opened
    opened.close()


def schema(graph: Evaluated) -> cypher_database.Schema:
    return cypher_database.schema_of(graph.statements)


def client_that(reply: Callable[[dict[str, Any]], httpx.Response]) -> AsyncOpenAI:
    def answer(request: httpx.Request) -> httpx.Response:
        return reply(json.loads(request.content))

    # openai may come with a package of httpx's kind and another name; what it calls is the same.
    http: Any = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    return AsyncOpenAI(base_url="http://model.invalid/v1", api_key="none", http_client=http, max_retries=0)


def says(*replies: str, heard: list[str] | None = None) -> AsyncOpenAI:
    """A model that writes these, one after another."""
    left = list(replies)

    def reply(body: dict[str, Any]) -> httpx.Response:
        if heard is not None:
            heard.append(body["messages"][0]["content"])
        message = {"role": "assistant", "content": left.pop(0)}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        return httpx.Response(200, json={"id": "x", "object": "chat.completion", "created": 0, "model": "m",
                                         "choices": [choice]})  # fmt: skip

    return client_that(reply)


async def test_full_text_finds_statements_by_their_words(graph: Evaluated) -> None:
    """Best first, whatever the case, up to the budget."""
    retriever = FullTextStatements(graph.statements, 12, words)
    for question in (QUESTION, QUESTION.lower()):
        found = await retriever.retrieve(question)
        assert found.context == (
            'Disease celiac disease is associated with Gene PLEK [source: GWAS] {"gwas_pvalue":8e-09}'
        )
        assert len(found.facts) == 1
    assert await retriever.retrieve("???") == Retrieved("")


async def test_full_text_of_nodes_gives_all_of_the_best_named_one(graph: Evaluated) -> None:
    """As published: no budget, and another disease where the name has a slip."""
    retriever = FullTextNodes(graph.store)
    found = await retriever.retrieve(QUESTION)
    assert found.nodes == ("celiac disease",) and len(found.facts) == 4
    assert (await retriever.retrieve("gout")).facts == ()


async def test_kg_rag_retrieves_as_the_server_does(graph: Evaluated) -> None:
    """The named statement first, with its attributes and source, within the budget."""
    retriever = KgRagRetriever("KG-RAG", graph, ContextOptions(tokens=60, evidence=True), words)
    found = await retriever.retrieve(QUESTION)
    assert 'PLEK {"gwas_pvalue":8e-09}' in found.context
    assert found.facts[0].names == {"celiac disease", "plek"} and found.facts[0].source == "[source: GWAS]"
    assert words(found.context) <= 60
    assert (await retriever.retrieve("How do I cook pasta?")).note == "nothing in the question names a node"


async def test_every_question_is_measured_in_each_of_its_variants(graph: Evaluated) -> None:
    """One record for each; a question without a slip has none."""
    questions = made(graph.statements, 9)
    retriever = FullTextStatements(graph.statements, 500, words)
    records = await measure([retriever], {"made": questions}, words)
    slips = sum(bool(question.slipped) for question in questions)
    assert len(records) == 2 * len(questions) + slips and {record.variant for record in records} == set(VARIANTS)
    assert all(record.edge and record.p_value and record.provenance for record in records)


async def test_the_methods_own_prompt_and_record_hold_the_evidence(graph: Evaluated) -> None:
    """For a full answer and for the shortest one."""
    questions = made(graph.statements, 9)
    for answers in (names_and_value, bare):
        for one in await told(graph, questions, answers, ByteTokenizer(())):
            assert one.text_edge and one.text_p_value and one.text_provenance, one
            assert one.cited_edge and one.cited_p_value and one.cited_provenance, one


def test_a_schema_is_told_in_cyphers_own_patterns(graph: Evaluated) -> None:
    """Node types, relationship types with their ends, and properties."""
    text = schema_text(schema(graph))
    assert "(:Disease)-[:ASSOCIATES_DaG]->(:Gene)" in text and "(:Compound)-[:TREATS_CtD]->(:Disease)" in text
    assert "p_value: DOUBLE" in text


@pytest.mark.parametrize(
    ("question", "pairs"),
    [
        (QUESTION, [("celiac disease", "PLEK")]),
        (
            "What is the GWAS p-value for the association between head and neck cancer and TERT?",
            [("head", "neck cancer and TERT"), ("head and neck cancer", "TERT")],
        ),
        ("How do I cook pasta?", []),
    ],
)
def test_the_oracle_copies_names_as_they_stand(question: str, pairs: list[tuple[str, str]]) -> None:
    """Where a name may end at more than one place, at each of them."""
    assert list(names_asked(question)) == pairs


def test_a_query_is_found_in_a_models_prose() -> None:
    """Fenced or bare."""
    assert query_in("Sure:\n```cypher\nMATCH (a)\nRETURN a\n```\nHope it helps") == "MATCH (a)\nRETURN a"
    assert query_in(" MATCH (a) RETURN a ") == "MATCH (a) RETURN a"
    assert text_of("O'Neil\\") == "'O\\'Neil\\\\'"


@needs_cypher
async def test_an_oracles_query_finds_exact_names_only(
    graph: Evaluated, database: cypher_database.CypherDatabase
) -> None:
    """In small letters nothing, unless the query compares small letters."""
    exact, any_case = (CypherRag(OracleWriter(schema(graph), c), database, 800, words) for c in (False, True))
    found = await exact.retrieve(QUESTION)
    assert json.loads(found.context)["p_value"] == 8e-09
    assert found.facts[0].names >= {"celiac disease", "plek"} and found.facts[0].source == '"GWAS"'
    assert found.prompt == prompt_of(schema(graph), QUESTION)
    assert found.note.startswith("MATCH (d:Disease)") and found.nodes is None
    lower = QUESTION.replace("PLEK", "plek")
    assert (await exact.retrieve(lower)).context == ""
    assert (await any_case.retrieve(lower)).context == found.context
    apostrophe = await exact.retrieve("Is GATA3 associated with Hodgkin's lymphoma?")
    assert json.loads(apostrophe.context)["gene"] == "GATA3"
    assert "another wording" in (await exact.retrieve("How do I cook pasta?")).note


@needs_cypher
async def test_a_model_may_repair_its_query_once(graph: Evaluated, database: cypher_database.CypherDatabase) -> None:
    """It is told what it wrote and what was wrong; both prompts count."""
    heard: list[str] = []
    wrong, right = "MATCH (d:Nope) RETURN d", "```\nMATCH (d:Disease)-[r]->(g:Gene {name: 'RORA'}) RETURN d, r, g\n```"
    rag = CypherRag(ModelWriter(says(wrong, right, heard=heard), "m", schema(graph)), database, 800, words)
    found = await rag.retrieve(QUESTION)
    assert "childhood-onset asthma" in found.context and "_ID" not in found.context
    assert found.facts[0].names >= {"childhood-onset asthma", "rora"} and "GWAS" in found.facts[0].source
    assert wrong in heard[1] and "Nope does not exist" in heard[1] and heard[0] in found.prompt
    rag = CypherRag(ModelWriter(says(wrong, "DROP TABLE Gene"), "m", schema(graph)), database, 800, words)
    found = await rag.retrieve(QUESTION)
    assert found.context == "" and "begins with MATCH" in found.note


@needs_cypher
async def test_a_model_that_does_not_answer_is_told_in_the_note(
    graph: Evaluated, database: cypher_database.CypherDatabase
) -> None:
    """The run goes on; nothing was retrieved."""
    for client in (client_that(lambda _: httpx.Response(503, json={})), says("")):
        found = await CypherRag(ModelWriter(client, "m", schema(graph)), database, 800, words).retrieve(QUESTION)
        assert found.context == "" and found.note.startswith("the model")


@needs_cypher
def test_a_query_is_bounded_in_rows_and_time(database: cypher_database.CypherDatabase) -> None:
    """What is cut off is said; what fails or writes is an error of ours."""
    rows, complete = database.read("MATCH (a) RETURN a.name")
    assert len(rows) == 3 and not complete
    with pytest.raises(CypherFailed, match="Parser exception"):
        database.read("MATCH (a) RETURN")
    with pytest.raises(CypherRefused):
        database.read("MATCH (a) SET a.name = '' RETURN a")


@needs_cypher
def test_a_query_that_takes_too_long_is_stopped(graph: Evaluated, tmp_path: Path) -> None:
    """A product of many nodes does not hold the run up."""
    path = tmp_path / "graph.lbug"
    cypher_database.write_database(path, graph.statements)
    opened = cypher_database.CypherDatabase(path, cypher_database.Limits(seconds=0.05))
    ends = ", ".join(f"(n{place})" for place in range(12))
    with pytest.raises(CypherFailed, match="Interrupted"):
        opened.read(f"MATCH {ends} WHERE n0.name + n1.name = n2.name + n11.name RETURN count(*)")
    opened.close()


@needs_cypher
def test_a_database_is_never_written_over(graph: Evaluated, tmp_path: Path) -> None:
    """Nor is one opened that is not there."""
    (tmp_path / "there").write_text("")
    with pytest.raises(CypherFailed, match="there already"):
        cypher_database.write_database(tmp_path / "there", graph.statements)
    with pytest.raises(CypherFailed, match="cannot be opened"):
        cypher_database.CypherDatabase(tmp_path / "missing")
    with pytest.raises(CypherFailed, match="cannot name a table"):
        cypher_database.quoted("a`b")


def test_a_repair_tells_the_query_and_its_fault(graph: Evaluated) -> None:
    """Below the schema and the question."""
    text = prompt_of(schema(graph), QUESTION, Attempt("MATCH", "Parser exception"))
    assert text.index(QUESTION) < text.index("MATCH\n\nThe reason:\nParser exception")


def test_answers_for_the_record_are_a_full_and_a_bare_one() -> None:
    """The published scoring takes either for right."""
    question = Question(text=QUESTION, perturbed="", disease="celiac disease", gene="PLEK", p_value=8e-09)
    assert (bare(question), "8e-09" in names_and_value(question)) == ("Yes.", True)
