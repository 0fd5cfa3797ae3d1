"""What a real server sends a collector of an answer by each method: a tree, and no word of the question."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
from shipped_data import give_data

pytest.importorskip("opentelemetry.sdk")
from span_collector import Seen, SpanCollector

EUTILS = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils"
KEY = "canary-key-5d1c"
QUESTION = "Which drug reverses zebrawort?"
SUBQUESTIONS = ("What activates antithrombin?", "What is quillfeather?")
PLAN = json.dumps({"analysis": "nothing is known", "queries": SUBQUESTIONS})
STATEMENT = "True or false: Parkinson disease is associated with Gene PARK7"
SCRIPT = [
    {"suffix": f"Question: {QUESTION}\n", "text": f"[{EUTILS}/esearch.fcgi?db=gene&term=quillfeather]->"},
    {"regex": r"\[0 ids\]\n$", "text": "Answer: not found\n\n"},
    {"regex": r"\[error: [^\]]*\]\n$", "text": "Answer: not known\n\n"},
    {"regex": r"JSON:\n$", "text": PLAN},
    {"regex": r"Question: What [\s\S]*Answer:\s*$", "text": " Heparin does [1]."},
    {"regex": r"Reasoning:\s*$", "text": " The notes tell."},
    {"regex": r"Answer:\s*$", "text": " True"},
]
# Of questions, queries, passages and nodes; the key; the namespace's name.
CANARIES = (
    "zebrawort",
    "uillfeather",
    "eparin",
    "ntithrombin",
    "arkinson",
    "PARK7",
    "DOID",
    "notes",
    "DEAD",
    "NONSENSE",
    KEY,
)
ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "genegpt": (QUESTION, {}),
    "kg-rag": (STATEMENT, {}),
    "medrag": (QUESTION, {"k": 1}),
    "i-medrag": (QUESTION, {"k": 1}),
}


def _trace(number: int) -> str:
    return f"{number:032x}"


def _head(number: int) -> dict[str, str]:
    return {"traceparent": f"00-{_trace(number)}-00000000000000aa-01"}


def _ask(server: Any, method: str, number: int, question: str, **options: Any) -> None:
    server.client(KEY).chat.completions.create(
        model=f"scripted:{method}",
        messages=[{"role": "user", "content": question}],
        extra_body={"arrowhead": options},
        extra_headers=_head(number),
    )


@pytest.fixture(scope="module")
def collector(
    host_with: Callable[..., AbstractContextManager[Any]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SpanCollector]:
    """With all that a server sends of these answers. Traces 1 to 4 are those of ``ASKED``, in its order."""
    folder = tmp_path_factory.mktemp("spans")
    give_data(folder / "data" / "arrowhead")
    (folder / "script.json").write_text(json.dumps(SCRIPT))
    with SpanCollector() as made:
        settings = {
            "HOME": str(folder),
            "XDG_DATA_HOME": str(folder / "data"),
            "ARROWHEAD_MODEL__SCRIPT": str(folder / "script.json"),
            "ARROWHEAD_RETRIEVAL__ENCODERS": "hashing",
            "ARROWHEAD_SERVER__API_KEYS": KEY,
            "ARROWHEAD_TRACING__ENDPOINT": made.url,
        }
        with host_with(settings) as server:
            for method in ("kg-rag", "medrag"):  # opens the graph and the notes
                question, options = ASKED[method]
                _ask(server, method, 99, question, **options)
            for number, (method, (question, options)) in enumerate(ASKED.items(), 1):
                _ask(server, method, number, question, **options)
        yield made


def _tree(collector: SpanCollector, number: int) -> Seen:
    """Without the wait for the rate limit, which depends on the clock."""
    (root,) = collector.trees(_trace(number))
    return root


def _lines(root: Seen) -> list[str]:
    return [line for line in root.lines() if line.strip() != "wait for the rate limit"]


def test_an_answer_with_calls_has_each_call_between_two_continuations(collector: SpanCollector) -> None:
    """With the request to NCBI inside the call."""
    root = _tree(collector, 1)
    assert _lines(root) == [
        "POST /v1/chat/completions",
        "  answer",
        "    generate",
        "    call",
        "      ncbi",
        "    generate",
    ]
    (call,) = root.all("call")
    assert call.attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.type": "extension",
        "gen_ai.tool.name": "esearch",
        "arrowhead.status": "empty",
        "arrowhead.remote": False,
        "arrowhead.from_cache": False,
        "arrowhead.attempts": 1,
        "arrowhead.found": 0,
    }
    assert not call.is_error


def test_an_answer_from_the_graph_has_its_linking_and_lookups(collector: SpanCollector) -> None:
    """Each node is looked up for itself, the question is encoded once, cited articles are looked up once."""
    (answer,) = _tree(collector, 2).children
    names = [child.name for child in answer.children]

    assert sorted(names) == ["encode", "generate", "link", "lookup", "lookup", "ncbi"]
    assert names[0] == "link" and names[-1] == "generate"
    (link,) = answer.all("link")
    assert link.attributes == {"arrowhead.extraction": "dictionary", "arrowhead.found": 2}
    assert {lookup.attributes["arrowhead.source"] for lookup in answer.all("lookup")} == {"here"}
    assert all(lookup.attributes["arrowhead.found"] > 0 for lookup in answer.all("lookup"))


def test_an_answer_from_passages_has_its_search(collector: SpanCollector) -> None:
    """The query is encoded inside the search."""
    root = _tree(collector, 3)
    assert _lines(root) == [
        "POST /v1/chat/completions",
        "  answer",
        "    search",
        "      encode",
        "    generate",
        "    generate",
    ]
    (search,) = root.all("search")
    assert search.attributes == {
        "gen_ai.operation.name": "retrieval",
        "arrowhead.retriever": "hybrid",
        "arrowhead.namespaces": 1,
        "arrowhead.queries": 1,
        "arrowhead.k": 1,
        "arrowhead.rerank": 0,
        "arrowhead.found": 1,
    }


def test_a_round_holds_its_plan_its_search_and_its_answers_side_by_side(collector: SpanCollector) -> None:
    """Tasks of a round are its children, what comes after all rounds is not."""
    root = _tree(collector, 4)
    assert _lines(root) == [
        "POST /v1/chat/completions",
        "  answer",
        "    round",
        "      generate",
        "      search",
        "        encode",
        "      generate",
        "      generate",
        "    round",
        "      generate",
        "    generate",
        "    generate",
    ]
    assert [found.attributes for found in root.all("round")] == [{"arrowhead.round": 1}, {"arrowhead.round": 2}]
    assert root.all("search")[0].attributes["arrowhead.queries"] == len(SUBQUESTIONS)


def test_no_word_of_a_question_passage_or_node_is_in_a_span(collector: SpanCollector) -> None:
    """Nor the key, nor the namespace's name."""
    sent = collector.everything
    assert sent.count(b"generate") > 10
    assert [canary for canary in CANARIES if canary.encode() in sent] == []
