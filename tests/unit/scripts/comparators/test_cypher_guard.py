"""Which queries of a model reach the database."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.evals.comparators.cypher_guard import MAX_QUERY, CypherRefused, checked

READS = (
    "MATCH (d:Disease)-[r]-(g:Gene) WHERE d.name = 'asthma' RETURN d.name, r.p_value;",
    'match (d:Disease {name: "drop table"}) return d limit 5',
    "MATCH (d:`set`) WHERE d.set = 1.5 RETURN d.create AS x ORDER BY d.name SKIP 1 LIMIT 3",
    "OPTIONAL MATCH (a)-[:TREATS*1..2]->(b) WITH a, count(*) AS n WHERE n > 1 RETURN a, n",
    "MATCH (a) WHERE NOT (a.name IN ['x', 'O\\'Neil']) AND EXISTS { MATCH (a)-[]-(b) } RETURN collect(DISTINCT a.name)",
    "MATCH (a) RETURN a.name UNION MATCH (b) RETURN b.name",
)
WRITES_AND_MORE = (
    "CREATE (:Gene {id: 'x'})",
    "MATCH (a) SET a.name = 'x' RETURN a",
    "MATCH (a) DETACH DELETE a",
    "MATCH (a) RETURN a; MATCH (b) DELETE b",
    "COPY (MATCH (a) RETURN a.name) TO 'out.csv'",
    "LOAD FROM '/etc/passwd' RETURN *",
    "MATCH (a) LOAD FROM '/etc/passwd' RETURN *",
    "MATCH (a) WHERE a.x > 1.LOAD FROM 'f' RETURN *",
    "MATCH (a) CALL show_tables() RETURN *",
    "UNWIND range(1, 100000000) AS x RETURN x",
    "MATCH (a) UNWIND [1] AS x RETURN x",
    "MATCH (a) RETURN range(1, 100000000)",
    "MATCH (a) RETURN `range`(1, 100000000)",
    "MATCH (a) RETURN a.range (1, 100000000)",
    "MATCH (a) // RETURN\nDELETE a RETURN a",
    "MATCH (a) /* x */ RETURN a",
    "MATCH (a) WHERE a.name = $name RETURN a",
    "EXPLAIN MATCH (a) RETURN a",
    "ATTACH 'x' AS y",
    "INSTALL httpfs",
    "MATCH (a)",
    "MATCH (a) RETURN 'open",
    "MATCH (a) RETURN a \\u0043",
    "",
    "Here is the query you asked for",
    "MATCH (a) RETURN a" + " " * MAX_QUERY + ", a",
)


@pytest.mark.parametrize("query", READS)
def test_reading_is_let_through(query: str) -> None:
    """Also where names and strings hold words of writing."""
    assert checked(query) == query.removesuffix(";")


@pytest.mark.parametrize("query", WRITES_AND_MORE)
def test_anything_else_is_refused(query: str) -> None:
    """Files, other statements, long lists, comments, and text that is no query."""
    with pytest.raises(CypherRefused):
        checked(query)


@given(st.text(max_size=200))
def test_no_text_breaks_the_guard(text: str) -> None:
    """It is refused or it begins as a reading query does."""
    try:
        assert checked(text).casefold().startswith(("match", "optional"))
    except CypherRefused as refused:
        assert refused.message


@given(st.sampled_from(READS), st.sampled_from(["CREATE", "delete", "Set", "LOAD", "call", "COPY", "unwind", "DROP"]))
def test_a_clause_of_writing_is_refused_after_any_reading(query: str, clause: str) -> None:
    """Wherever it is appended, in any letter case."""
    with pytest.raises(CypherRefused):
        checked(f"{query.removesuffix(';')} {clause} (x)")
