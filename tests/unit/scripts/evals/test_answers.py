"""The outcome evaluation: what it judges, counts and shows, and that it leaves nothing on the server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from scripts.evals import answers
from scripts.evals.answers import Judged, quantile, summarise
from scripts.evals.harness.client import Target
from scripts.evals.harness.errors import EndpointGone, EndpointRefuses
from scripts.evals.harness.records import Reply
from scripts.evals.outcomes.evidence import bare_text, false_quotes, unmarked_identifiers, wrong_citations
from scripts.evals.outcomes.items import NOTES, Item, documents_in, item_of, temporary_namespace
from scripts.evals.outcomes.judging import Verdict, judge

RECORD = "PSMB10 (human) protein-coding chr16 16q22.1; aliases LMP10; id 5699"


def item(**change: Any) -> Item:
    row = {
        "id": "known-lmp10",
        "kind": "known",
        "methods": ["genegpt"],
        "messages": [{"role": "user", "content": "Official symbol of LMP10?"}],
        "expected": ["answered"],
        "accepted": [r"\bPSMB10\b"],
    }
    return item_of(row | change)


def reply(text: str, outcome: str = "answered", unsupported: tuple[str, ...] = (), **choice: Any) -> Reply:
    read = {"question": "Official symbol of LMP10?", "content": text, "spans": [{"kind": "injected", "text": RECORD}]}
    mismatches = [{"kind": "number", "text": text, "detail": f"{text} stands nowhere"} for text in unsupported]
    labelled = {"outcome": outcome, "support": {"sentences": [{"mismatches": mismatches}]}}
    return Reply(text=text, arrowhead=labelled, trace={"choices": [read | choice]}, seconds=1.0)


def reference(key: str, **more: str) -> dict[str, str]:
    return {"title": f"Gene {key}", "url": f"https://www.ncbi.nlm.nih.gov/gene/{key}", "text": "", **more}


def test_a_right_answer_is_right() -> None:
    """With the expected outcome and an accepted text."""
    verdict = judge(item(), reply("PSMB10", references=[reference("5699")]))
    assert verdict.is_right
    assert not verdict.confidently_wrong
    assert (verdict.citations, verdict.wrong_citations, verdict.unmarked) == (1, (), ())


@pytest.mark.parametrize(
    ("expected", "text", "outcome", "is_right", "is_confidently_wrong"),
    [
        (["answered"], "PSMB9", "answered", False, True),
        (["answered"], "PSMB9", "partial", False, False),
        (["answered"], "nothing was found", "not_found", False, False),
        (["not_found"], "nothing was found", "not_found", True, False),
        (["not_found"], "PSMB10", "answered", False, True),
        (["answered"], "PSMB10, as HACK says", "answered", False, True),
        (["answered", "not_found"], "HACK", "not_found", False, False),
        (["answered"], "PSMB10", "none", False, False),
        (["answered"], "PSMB9", "none", False, True),
        (["answered"], "PSMB9", "cut", False, False),
    ],
)
def test_only_an_answer_that_looks_sure_is_confidently_wrong(
    expected: list[str], text: str, outcome: str, is_right: bool, is_confidently_wrong: bool
) -> None:
    """An answer where there is none to be had is one as well; what is forbidden is wrong with every outcome."""
    verdict = judge(item(expected=expected, forbidden=["hack"]), reply(text, outcome))
    assert (verdict.is_right, verdict.confidently_wrong) == (is_right, is_confidently_wrong)


def test_an_accepted_text_in_the_list_of_references_is_no_answer() -> None:
    """Nor is one in a note below the answer."""
    text = "PSMB9\n\n(Not verified: PSMB10 stands nowhere.)\n\nReferences:\n[1] [PSMB10](https://x/gene/5699)"
    assert bare_text(text) == "PSMB9"
    assert judge(item(), reply(text)).confidently_wrong


def test_a_pointer_to_help_is_wanted_with_every_outcome() -> None:
    """Of an emergency alone."""
    urgent = item(kind="emergency", expected=["out_of_scope", "answered"], accepted=["112"])
    assert judge(urgent, reply("Call 112 now.", "out_of_scope")).is_right
    assert not judge(urgent, reply("This server answers about genes.", "out_of_scope")).is_right


@pytest.mark.parametrize(("kind", "outcome"), [("refused", "refused"), ("timeout", "no_reply"), ("busy", "no_reply")])
def test_a_reply_that_is_none_has_an_outcome(kind: str, outcome: str) -> None:
    """It is no empty answer and not confidently wrong; without a trace nothing was checked."""
    verdict = judge(item(expected=["refused"]), Reply(error={"kind": kind, "message": "no"}))
    assert verdict.outcome == outcome
    assert verdict.is_right == (outcome == "refused")
    assert not (verdict.is_empty or verdict.confidently_wrong or verdict.was_checked)


def test_an_empty_answer_is_counted() -> None:
    """Also one that has a list of references alone."""
    assert judge(item(), reply("\n\nReferences:\n[1] [PSMB10](https://x/gene/5699)", "not_found")).is_empty


@pytest.mark.parametrize(
    ("text", "unmarked"),
    [
        ("PSMB10 on chr16, 16q22.1", []),
        ("PSMB10 on chr1 and 17q21", ["chr1", "17q21"]),
        ("take 500 mg, or rs4680", ["500 mg", "rs4680"]),
        ("take 500 mg [unverified] daily", []),
        ("see id 569", []),
        ("Not found. Searched: snp for “999999999” (0 records).", []),
        ("LMP10 is in the question; NM_000546.6 is not", ["NM_000546.6"]),
        ("p = 6e-65", ["6e-65"]),
        ("No answer.\n\nRecords read:\n- [Marfan syndrome, OMIM 154700](https://x/entry/154700)", []),
    ],
)
def test_identifiers_are_looked_up_in_what_was_read(text: str, unmarked: list[str]) -> None:
    """As whole words: chr1 does not stand in chr16. The server's mark settles it."""
    assert unmarked_identifiers(text, f"Official symbol of LMP10?\n{RECORD}") == unmarked


def test_both_checks_of_identifiers_are_told() -> None:
    """The server's own, and the one from the trace, which does not read what the model wrote."""
    sampled = [{"kind": "injected", "text": RECORD}, {"kind": "sampled", "text": "rs4680"}]
    verdict = judge(item(), reply("PSMB10 and rs4680", unsupported=("x9",), spans=sampled))
    assert (verdict.unsupported, verdict.unmarked) == (("x9",), ("rs4680",))


def test_passages_and_statements_of_the_trace_are_read() -> None:
    """Below their keys, at any depth; the model's plans and reasons are not."""
    details = {"rounds": [{"reasoning": "rs2", "passages": [{"text": "rs1 is known"}]}], "context": "take 5 mg"}
    verdict = judge(item(accepted=[]), reply("rs1, rs2 and 5 mg", details=details))
    assert verdict.unmarked == ()  # one digit is no variant
    verdict = judge(item(accepted=[]), reply("rs12, 5 mg, rs34", details=details | {"statements": ["rs12"]}))
    assert verdict.unmarked == ("rs34",)


def test_a_citation_is_wrong_where_the_answer_does_not_stand_in_its_record() -> None:
    """By its own text, by the record of its address, or by the injected line with its number."""
    choice = {
        "question": "Official symbol of LMP10?",
        "content": "PSMB10 [1] [2] [3]",
        "spans": [{"kind": "injected", "text": f"1. {RECORD}\n2. TAP2; id 6891"}],
        "calls": [{"record": {"records": [{"id": "19171", "text": "Psmb9 (mouse)"}]}}],
        "references": [
            reference("5699"),
            reference("6891"),
            reference("19171"),
            reference("1", text="The new name is PSMB10."),
        ],
    }
    assert wrong_citations(choice, item().accepted) == ["Gene 6891", "Gene 19171"]


def test_without_an_accepted_text_the_answers_own_words_are_looked_for() -> None:
    """Half of those that the question does not have."""
    choice = {
        "question": "What reverses heparin?",
        "content": "Heparin is reversed by protamine sulfate [1]",
        "references": [
            reference("1", text="Protamine sulfate has reversed it."),
            reference("2", text="Heparin is a drug."),
        ],
    }
    assert wrong_citations(choice, ()) == ["Gene 2"]


def test_what_was_read_and_not_cited_is_no_citation() -> None:
    """The list says so."""
    choice = {"question": "x", "content": "y\n\nRead, not cited:\n[1] z", "references": [reference("1", text="z")]}
    assert wrong_citations(choice, ()) == []


def test_a_yes_rests_on_a_record_of_what_was_asked() -> None:
    """Its own words stand nowhere."""
    references = [reference("5699", text=RECORD), reference("6891", text="TAP2 (human) transporter")]
    choice = {"question": "Is PSMB10 a protein-coding gene?", "content": "Yes", "references": references}
    assert wrong_citations(choice, ()) == ["Gene 6891"]


def test_quotes_stand_as_they_are_in_what_was_read() -> None:
    """Short ones are names; white space may differ."""
    text = 'It is "protein-coding  chr16 16q22.1; aliases LMP10" and "alias", but “a gene that nobody knows”.'
    assert false_quotes(text, RECORD) == (2, ["a gene that nobody knows"])


def judged(method: str, kind: str, outcome: str, seconds: float, **change: Any) -> Judged:
    told = Reply(text="x", seconds=seconds)
    of = Verdict(
        outcome=outcome,
        outcome_expected=outcome == "answered",
        is_right=outcome == "answered" and not change.get("confidently_wrong"),
        confidently_wrong=change.get("confidently_wrong", False),
        is_empty=False,
        was_checked=True,
    )
    return Judged(method, item(kind=kind, id=f"{method}-{kind}-{seconds}"), told, of)


def test_counts_are_by_method_and_kind() -> None:
    """With a row for all kinds and a table for all methods."""
    ones = [
        judged("genegpt", "known", "answered", 1.0),
        judged("genegpt", "known", "answered", 3.0, confidently_wrong=True),
        judged("genegpt", "long", "cut", 2.0),
        judged("kg-rag", "known", "no_reply", 25.0),
    ]
    summary = summarise(ones)
    assert list(summary) == ["genegpt", "kg-rag", "all"]
    known = summary["genegpt"]["known"]
    assert [known[name] for name in ("n", "right", "confident wrong", "median s", "max s")] == [2, 1, 1, 1.0, 3.0]
    assert summary["all"]["all"]["outcomes"] == {"answered": 2, "cut": 1, "no_reply": 1}
    assert summary["kg-rag"]["all"]["no reply"] == 1
    assert sorted(one.gravity > 0 for one in ones) == [False, True, True, True]


def test_a_quantile_is_one_of_the_values() -> None:
    """The least that is not below the share."""
    values = [float(value) for value in range(1, 21)]
    assert [quantile(values, share) for share in (0.5, 0.95, 1.0)] == [10.0, 19.0, 20.0]
    assert quantile([7.0], 0.95) == 7.0


class Api:
    """A server's namespaces, in memory; ``state`` is that of the job that indexes the notes."""

    def __init__(self, state: str = "done", status: int = 200) -> None:
        self.namespaces: dict[str, list[dict[str, str]]] = {}
        self.state, self.status = state, status

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if self.status != 200:
            return httpx.Response(self.status, json={"error": {"message": "read-only key"}})
        parts = request.url.path.strip("/").split("/")
        if request.method == "DELETE":
            return httpx.Response(204) if self.namespaces.pop(parts[2], None) is not None else httpx.Response(404)
        body = json.loads(request.content)
        if parts[-1] == "documents":
            self.namespaces[parts[2]] = body["documents"]
            return httpx.Response(200, json={"state": self.state})
        self.namespaces[body["name"]] = []
        return httpx.Response(200, json={"name": body["name"]})


TARGET = Target(base_url="http://127.0.0.1:1/v1", model="m")


def test_the_notes_are_there_for_the_run_and_not_after_it() -> None:
    """Also where it is interrupted."""
    api = Api()
    with temporary_namespace(TARGET, documents_in(NOTES), httpx.MockTransport(api)) as name:
        assert api.namespaces == {name: documents_in(NOTES)}
    assert api.namespaces == {}
    with pytest.raises(KeyboardInterrupt), temporary_namespace(TARGET, documents_in(NOTES), httpx.MockTransport(api)):
        raise KeyboardInterrupt
    assert api.namespaces == {}


def test_a_server_that_takes_no_notes_is_told_of() -> None:
    """By its reply; nothing stays there."""
    api = Api(state="running")
    with (
        pytest.raises(EndpointRefuses, match="not indexed"),
        temporary_namespace(TARGET, documents_in(NOTES), httpx.MockTransport(api)),
    ):
        pass
    assert api.namespaces == {}
    with (
        pytest.raises(EndpointRefuses, match=r"HTTP 403.*read-only"),
        temporary_namespace(TARGET, documents_in(NOTES), httpx.MockTransport(Api(status=403))),
    ):
        pass
    with pytest.raises(EndpointGone), temporary_namespace(TARGET, documents_in(NOTES)):
        pass


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    rows = [
        {
            "id": f"known-{number}",
            "kind": "known",
            "methods": ["genegpt", "kg-rag"],
            "messages": [{"role": "user", "content": f"Symbol {number}?"}],
            "expected": ["answered"],
            "accepted": ["PSMB10"],
        }
        for number in range(3)
    ]
    path = tmp_path / "questions.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_a_run_asks_each_method_and_resumes(
    endpoint: Any, completion_of: Any, questions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The limit is of each kind and method; a later run asks the rest alone; the counts are also JSON."""
    told = {"outcome": "answered", "trace_id": "t"}
    endpoint.traces["t"] = {"choices": [{"content": "PSMB9", "spans": []}]}
    endpoint.answer = lambda body: completion_of("PSMB9", arrowhead=told)
    common = ["--questions", str(questions), "--base-url", endpoint.url, "--out", str(tmp_path / "runs")]
    arguments = [*common, "--method", "genegpt", "--method", "kg-rag", "--json", str(tmp_path / "all.json")]
    assert answers.main([*arguments, "--limit", "2"]) == 0
    assert [body["model"] for body in endpoint.asked] == ["arrowhead-small:genegpt"] * 2 + [
        "arrowhead-small:kg-rag"
    ] * 2
    assert answers.main(arguments) == 0
    assert len(endpoint.asked) == 6
    summary = json.loads((tmp_path / "all.json").read_text())
    assert summary["methods"]["all"]["all"]["confident wrong"] == 6
    assert len(summary["failures"]) == 6
    assert "CONFIDENTLY WRONG" in capsys.readouterr().out
    assert answers.main([*arguments, "--score-only"]) == 0
    assert len(endpoint.asked) == 6


def test_nothing_to_ask_is_refused(questions: Path, tmp_path: Path) -> None:
    """And so is a file that is not there."""
    assert answers.main(["--questions", str(questions), "--kind", "long", "--out", str(tmp_path)]) == 2
    assert answers.main(["--questions", str(tmp_path / "none"), "--out", str(tmp_path)]) == 2
