"""Which statements a question gets, in which order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from graph_doubles import (
    ACYCLOVIR,
    GENES,
    METHOTREXATE,
    PSORIASIS,
    RARE,
    STATEMENTS,
    ZOSTER,
    MemoryGraph,
    as_vectors,
    make_node,
    make_statement,
)
from hypothesis import given
from hypothesis import strategies as st

from retrieval.graph.context.select import (
    Context,
    ContextCandidates,
    ContextOptions,
    Pruning,
    Vectors,
    build_context,
    gather,
    paper_order,
    similarities,
)
from retrieval.graph.types import Mention, Neighbourhood, Node, Statement


def words(text: str) -> int:
    return len(text.split())


def around(node: Node, statements: Sequence[Statement] | None = None) -> Neighbourhood:
    own = MemoryGraph().statements(node.node_id) if statements is None else tuple(statements)
    return Neighbourhood(node=node, statements=own, graph="little graph", release="2026-01")


def mention(question: str, node: Node) -> Mention:
    start = question.index(node.name)
    return Mention(node=node, start=start, end=start + len(node.name), method="exact")


def context(question: str, nodes: Sequence[Node], options: ContextOptions | None = None) -> Context:
    gathered = gather(question, [mention(question, node) for node in nodes], [around(node) for node in nodes])
    vectors = Vectors(*as_vectors([s.text for s in gathered.statements], question))
    return build_context(gathered, vectors, words, options)


def ends(found: Context) -> list[str]:
    ids = {entity.node_id for entity in found.entities}
    return [s.target.name if s.source.node_id in ids else s.source.name for s in found.statements]


def test_what_the_question_names_comes_first() -> None:
    """Letter case does not matter, and one that is only near comes later."""
    found = context("Is psoriasis associated with the gene tnip1?", [PSORIASIS])
    assert ends(found)[0] == "TNIP1"
    assert found.named == 1


def test_of_two_entities_what_both_reach_comes_before_the_rest() -> None:
    """Both statements about the shared gene, though the question does not name it."""
    found = context("Tell me of psoriasis and herpes zoster", [PSORIASIS, ZOSTER])
    assert ends(found)[:2] == ["HLA-B", "HLA-B"]
    assert found.named == 0


def test_the_relation_that_is_asked_for_comes_before_others() -> None:
    """Drugs for a question about drugs, symptoms for one about symptoms."""
    assert ends(context("Which drugs treat psoriasis?", [PSORIASIS]))[0] == "Methotrexate"
    assert ends(context("What are signs and symptoms of psoriasis?", [PSORIASIS]))[0] == "Pruritus"
    assert set(ends(context("Which genes has psoriasis?", [PSORIASIS]))[:3]) == {"IL23R", "HLA-B", "TNIP1"}


def test_words_inside_an_entitys_name_are_not_read_as_names_or_relations() -> None:
    """ "disease" is the parent of "Parkinson's disease", and no question about it names that."""
    disease = make_node("Disease", "disease", "DOID:4")
    parkinson = make_node("Disease", "Parkinson's disease", "DOID:14330")
    parent = make_statement(parkinson, "ISA_DiD", disease)
    question = "What is known of Parkinson's disease?"
    gathered = gather(question, [mention(question, parkinson)], [around(parkinson, [parent])])
    assert build_context(gathered, Vectors(*as_vectors([parent.text], question)), words).named == 0


def test_a_symbol_that_is_an_english_word_counts_only_as_the_graph_writes_it() -> None:
    """WAS is a gene, "was" is not."""
    gene = make_node("Gene", "WAS", "7454")
    known = make_statement(PSORIASIS, "ASSOCIATES_DaG", gene)
    for question, named in (("What was found in psoriasis?", 0), ("Has psoriasis to do with WAS?", 1)):
        gathered = gather(question, [mention(question, PSORIASIS)], [around(PSORIASIS, [known])])
        assert build_context(gathered, Vectors(*as_vectors([known.text], question)), words).named == named


def test_a_statement_between_two_entities_is_there_once_and_first() -> None:
    """Both neighbourhoods hold it."""
    found = context("Does Methotrexate help in psoriasis?", [METHOTREXATE, PSORIASIS])
    assert [s.edge.edge_id for s in found.statements].count(STATEMENTS[3].edge.edge_id) == 1
    assert found.statements[0] == STATEMENTS[3]
    assert found.text.count("treats") == 1


def test_an_edge_from_two_sources_stays_two_statements() -> None:
    """The same edge twice is one; another source or article is another fact."""
    first = make_statement(PSORIASIS, "ASSOCIATES_DaG", GENES["HLA-B"])
    other = make_statement(PSORIASIS, "ASSOCIATES_DaG", GENES["HLA-B"], provenance=("DISEASES",))
    assert gather("q", [], [around(PSORIASIS, [first, first, other])]).statements == (first, other)


def test_an_entity_found_twice_has_one_neighbourhood() -> None:
    """The published program doubled the context of a disease that two words named."""
    once = gather("q", [], [around(PSORIASIS)])
    assert gather("q", [], [around(PSORIASIS), around(PSORIASIS)]) == once


def test_nothing_known_is_said_in_words() -> None:
    """An entity without statements still has its identifier."""
    found = context("What of Pelger-Huet anomaly?", [RARE])
    assert found.empty
    assert found.text == (
        "Disease Pelger-Huet anomaly (DOID:2929, Disease Ontology):\n"
        "The graph has no statement about this that fits the question."
    )


def test_vectors_of_other_statements_are_refused() -> None:
    """One row too few is a damaged store, not a shorter context."""
    with pytest.raises(ValueError, match="3 vectors for 5 statements"):
        similarities(Vectors(np.ones(4, np.float32), np.ones((3, 4), np.float32)), 5)


def paper_case(sizes: Sequence[int]) -> tuple[ContextCandidates, np.ndarray[tuple[int], np.dtype[np.float32]]]:
    found = []
    for number, size in enumerate(sizes):
        disease = make_node("Disease", f"disease {number}", f"DOID:{number}")
        genes = [make_node("Gene", f"G{number}-{i}") for i in range(size)]
        found.append(around(disease, [make_statement(disease, "ASSOCIATES_DaG", gene) for gene in genes]))
    gathered = gather("q", [], found)
    near = np.random.default_rng(sum(sizes)).uniform(0.3, 1.0, len(gathered.statements)).astype(np.float32)
    return gathered, near


def published(near: Sequence[float], volume: int, entities: int) -> list[int]:
    """The rule of the published program in its own words, for one node."""
    edge = np.percentile(near, 75)
    ranked = sorted(((value, -place) for place, value in enumerate(near)), reverse=True)
    return [-place for value, place in ranked if value > edge and value > 0.5][: int(volume / entities)]


@pytest.mark.parametrize("sizes", [(1,), (4,), (113,), (900,), (7, 300), (500, 500, 500)])
@pytest.mark.parametrize("volume", [100, 150])
def test_the_papers_rule_chooses_what_its_program_chooses(sizes: tuple[int, ...], volume: int) -> None:
    """Per entity: strictly over the percentile and over 0.5, nearest first, the volume shared."""
    gathered, near = paper_case(sizes)
    expected: list[int] = []
    start = 0
    for size in sizes:
        own = near[start : start + size].tolist()
        expected += [start + place for place in published(own, volume, len(sizes))]
        start += size
    assert paper_order(gathered, near, volume) == expected


def test_the_papers_rule_keeps_nothing_of_a_single_statement() -> None:
    """It is its own percentile; ours keeps it."""
    question = "Does Acyclovir treat herpes zoster?"
    options = ContextOptions(pruning="paper", tokens=None)
    assert context(question, [ACYCLOVIR], options).empty
    assert ends(context(question, [ACYCLOVIR])) == ["herpes zoster"]


_NAMES = st.text(alphabet="AB; \n[]é-1", min_size=1, max_size=12).filter(lambda name: name.strip())


@given(
    names=st.lists(_NAMES, max_size=60, unique=True),
    budget=st.integers(0, 200),
    evidence=st.booleans(),
    pruning=st.sampled_from(["budget", "paper"]),
)
def test_a_context_never_exceeds_its_budget(names: list[str], budget: int, evidence: bool, pruning: Pruning) -> None:
    """Whatever the names are; what is told and what is left out add up to all there is."""
    genes = [make_node("Gene", name) for name in names]
    known = [
        make_statement(PSORIASIS, "ASSOCIATES_DaG", gene, evidence={"score": 1.5, "list": [1] * 9}) for gene in genes
    ]
    gathered = gather("psoriasis", [], [around(PSORIASIS, known)])
    vectors = Vectors(*as_vectors([s.text for s in known], "psoriasis"))
    options = ContextOptions(tokens=budget, evidence=evidence, pruning=pruning)
    found = build_context(gathered, vectors, len, options)
    assert found.tokens == len(found.text) <= budget
    assert len(found.statements) + found.left_out == len(known)
    assert found.named == 0 and found.entities == (PSORIASIS,)
    for statement in found.statements:
        assert " ".join(statement.target.name.split()).replace('"', "") in found.text


def test_a_bigger_budget_only_adds_statements() -> None:
    """The smaller context's statements begin the bigger one's."""
    many = [make_statement(PSORIASIS, "ASSOCIATES_DaG", make_node("Gene", f"GENE{i}")) for i in range(300)]
    gathered = gather("psoriasis genes", [], [around(PSORIASIS, many)])
    vectors = Vectors(*as_vectors([s.text for s in many], "psoriasis genes"))
    before: tuple[Statement, ...] = ()
    for tokens in (20, 50, 100, 150, 400):
        found = build_context(gathered, vectors, words, ContextOptions(tokens=tokens))
        assert found.statements[: len(before)] == before and len(found.statements) > len(before)
        assert found.tokens >= 0.9 * tokens or len(found.statements) == len(many)
        before = found.statements


@pytest.mark.parametrize("tokens", [60, 200, 400, 800, 1500])
@pytest.mark.parametrize("shared", [0, 15, 400])
def test_a_budget_is_nearly_used_up(tokens: int, shared: int) -> None:
    """Also where much is said beside the statements: what both entities reach, or long evidence."""
    known = [
        make_statement(disease, "ASSOCIATES_DaG", make_node("Gene", f"GENE{i if i < shared else f'{place}x{i}'}"))
        for place, disease in enumerate((PSORIASIS, ZOSTER))
        for i in range(600)
    ]
    gathered = gather("genes", [], [around(PSORIASIS, known[:600]), around(ZOSTER, known[600:])])
    vectors = Vectors(*as_vectors([s.text for s in known], "genes"))
    found = build_context(gathered, vectors, words, ContextOptions(tokens=tokens))
    assert 0.85 * tokens <= found.tokens <= tokens or found.left_out == 0
