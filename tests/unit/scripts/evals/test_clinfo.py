"""The evaluation of literature reviews: its measures, and its reading of records."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from scripts.evals import clinfo_measures as metrics
from scripts.evals.clinfo import bioasq, main, reviews, sample_questions, spread, table_of, write_pubmed_xml
from scripts.evals.clinfo_measures import FirstSentences, answered, summarise
from scripts.evals.harness.records import Question, Record, Reply
from server.methods.shared.evidence_table import EvidenceRow, Finding, Review, Sentence

ROOT = Path(__file__).parents[4]
TEXTS = {"1": "A title\nDrug X lowers pain. It is safe.", "2": "Other\nNothing here."}


def record(group: str = "summary", key: Any = None, **fields: Any) -> Record:
    question = Question(
        id="q",
        group=group,
        text="Does X help?",
        key=key,
        messages=(),
        meta={"gold": ["1"], "ideal": ["Drug X lowers pain."], "snippets": [{"pmid": "1", "text": "It is safe."}]},
    )
    review = Review(
        rows=(EvidenceRow(number=1, uid="1", title="A", url="", result=Finding("v", "Drug X lowers pain.")),),
        sentences=(Sentence("Drug X lowers pain.", (1,)),),
    )
    screening = [{"key": "PMID:2", "score": 0.2}, {"key": "PMID:1", "score": 0.9}]
    choice = {
        "outcome": "answered",
        "answer": "Drug X lowers pain.",
        "content": "Drug X lowers pain. [1]",
        "details": {**review.details, "screening": screening},
    } | fields
    return Record(question, Reply(trace={"choices": [choice]}))


def test_average_precision_is_that_of_bioasq() -> None:
    assert metrics.average_precision(["a", "x", "b"], {"a", "b"}) == pytest.approx((1 + 2 / 3) / 2)
    assert metrics.average_precision(["x"] * 10 + ["a"], {"a"}) == 0.0
    assert metrics.average_precision(["a"], {str(at) for at in range(20)} | {"a"}) == pytest.approx(0.1)
    assert metrics.average_precision([], {"a"}) == 0.0


def test_rouge_2_takes_the_reference_that_fits_best() -> None:
    assert metrics.rouge2("the cat sat", ["the cat sat", "x y"]) == 1.0
    assert metrics.rouge2("", ["x y"]) == 0.0


def test_rouge_2_agrees_with_the_library() -> None:
    from rouge_score.rouge_scorer import RougeScorer

    told, wanted = "The drug lowers pain in most patients.", "In most patients the new drug lowers pain."
    expected = RougeScorer(["rouge2"]).score(wanted, told)["rouge2"].fmeasure
    assert metrics.rouge2(told, [wanted]) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Yes, it does.", "yes"),
        ("**No.** It", "no"),
        ("TL;DR: yes", "yes"),
        ("No significant change", ""),
        ("Maybe", ""),
    ],
)
def test_a_verdict_is_a_word_of_its_own(text: str, said: str) -> None:
    assert metrics.verdict(text) == said


def test_macro_f1_counts_a_missing_verdict_as_wrong() -> None:
    assert metrics.macro_f1(["yes", "no"], ["yes", "no"]) == 1.0
    assert metrics.macro_f1(["", ""], ["yes", "no"]) == 0.0
    assert metrics.macro_f1(["yes", "yes"], ["yes", "no"]) == pytest.approx(1 / 3)


def test_snippets_overlap_by_characters_of_the_same_article() -> None:
    span = metrics.span_of("1", "It is\n safe.", TEXTS["1"])
    assert span is not None
    assert metrics.span_of("1", "It is unsafe.", TEXTS["1"]) is None
    assert metrics.snippet_f1([span], [span]) == 1.0
    assert metrics.snippet_f1([("2", span[1], span[2])], [span]) == 0.0


def test_names_are_found_as_words() -> None:
    assert metrics.mentions("Mutations of BRCA-1 matter", ["brca 1"])
    assert not metrics.mentions("Mutations of BRCA12", ["BRCA1"])
    assert metrics.reciprocal_rank(["x", "TP53 it is"], ["TP53"]) == 0.5
    assert metrics.list_scores(["AXL and FLT3", "none"], [["FLT3"], ["AXL"], ["KIT"]]) == (0.5, 2 / 3)


def test_a_record_is_scored_by_what_it_found_kept_and_quotes() -> None:
    told = summarise([record()], TEXTS)
    assert told["documents: MAP@10"].value == 1.0
    assert told["evidence: recall"].value == told["evidence: precision"].value == 1.0
    assert told["quotes: verbatim"].value == 1.0
    assert told["snippets: F1"].value == 0.0
    assert told["ideal answer: ROUGE-2 F1"].value == 1.0
    assert told["answers with a number of no article"].value == 0.0
    assert told["sentences with a source"].value == 1.0


def test_the_baseline_takes_first_sentences_of_the_best_by_words() -> None:
    simple = FirstSentences(TEXTS)
    assert simple.best("does drug X lower pain", 1) == ["1"]
    assert simple.answer("does drug X lower pain") == "Drug X lowers pain."
    assert simple.answer("zzz") == ""


def test_a_number_without_an_article_and_an_answer_without_evidence_are_counted() -> None:
    told = summarise([record(content="X [1]. Y [7].")], {})
    assert told["answers with a number of no article"].value == 1.0
    told = summarise([record(details={})], {})
    assert told["answers without evidence"].value == 1.0
    assert told["evidence: recall"].value == 0.0


def test_an_abstention_has_no_text_to_score() -> None:
    told = summarise([record(outcome="abstained")], TEXTS)
    assert told["answered"].value == 0.0
    assert told["ideal answer: ROUGE-2 F1"].value is None


def test_a_changed_quote_is_not_verbatim() -> None:
    other = record()
    rows = other.reply.trace["choices"][0]["details"]["evidence_table"]
    rows[0]["result"] = {"value": "v", "quote": "Drug X removes pain."}
    assert summarise([other], TEXTS)["quotes: verbatim"].value == 0.0


def test_exact_answers_are_looked_for_in_the_sentences() -> None:
    told = summarise([record("factoid", [["pain", "ache"]]), record("yesno", "yes", answer="Yes, it does.")], {})
    assert told["factoid: MRR of sentences"].value == 1.0
    assert told["yes/no: macro-F1"].value == pytest.approx(0.5)


def test_a_record_without_a_trace_is_read_by_its_reply() -> None:
    bare = Record(record().question, Reply(text="Yes [1]", arrowhead={"answer": "Yes", "outcome": "answered"}))
    assert (answered(bare).text, answered(bare).kept, answered(bare).bad_numbers) == ("Yes", (), 1)


def test_a_collection_becomes_xml_that_the_gateway_reads(tmp_path: Path) -> None:
    rows = [{"pmid": "1", "title": "p<0.05 & more", "abstract": "A.", "origin": "x"}]
    source, out = tmp_path / "c.jsonl.gz", tmp_path / "c.xml"
    with gzip.open(source, "wt") as file:
        file.writelines(json.dumps(one) + "\n" for one in rows)
    assert write_pubmed_xml(source, out) == 1
    assert ElementTree.parse(out).findtext(".//ArticleTitle") == "p<0.05 & more"


def test_questions_of_the_sample_name_articles_of_the_sample() -> None:
    questions = sample_questions(ROOT / "scripts" / "evals" / "questions" / "articles.jsonl")
    rows = (ROOT / "retrieval" / "gateway" / "store" / "sample" / "articles.tsv").read_text().splitlines()
    known = {row.split("\t")[0] for row in rows}
    assert len(questions) >= 25
    assert all(set(one.meta["gold"]) <= known for one in questions)


def test_regimes_keep_the_source_out_as_the_paper_does(tmp_path: Path) -> None:
    row = {"pmid": "9", "question": "Q?", "answer": "A.", "reference_pmids": ["1"], "restrict_until": "2021-10-31"}
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps(row) + "\n")
    options = {regime: reviews(path, regime)[0].arrowhead for regime in ("rs", "sd", "us")}
    assert options == {"rs": {"date_to": "2021-10-31"}, "sd": {"exclude_pmids": ["9"]}, "us": {}}


def test_questions_are_spread_over_types_and_may_lose_their_articles(tmp_path: Path) -> None:
    path = tmp_path / "q.jsonl"
    rows = [{"id": at, "type": "yesno", "question": "Q?", "gold_pmids": [at + 1]} for at in range(10)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [one.id for one in spread(bioasq(path), 2)] == ["0", "5"]
    assert bioasq(path, without_gold=True)[0].arrowhead == {"exclude_pmids": ["1"]}


def test_a_wrong_file_is_refused_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bioasq", str(tmp_path / "none.jsonl"), "--out", str(tmp_path / "out.jsonl")]) == 2
    assert "none.jsonl" in capsys.readouterr().out


def test_the_table_leaves_out_what_was_not_measured() -> None:
    table = table_of(summarise([record(outcome="abstained")], {}))
    assert "ideal answer: ROUGE-2 F1 |" not in table
    assert "answered" in table
