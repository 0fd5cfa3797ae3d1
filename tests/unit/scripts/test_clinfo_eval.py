"""The evaluation of literature reviews: its measures, its reading of records, and the recorded runs."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from scripts.evals.clinfo import main, table_of
from scripts.evals.harness.records import Question, Record, Reply
from scripts.evals.review import metrics
from scripts.evals.review.baseline import FirstSentences
from scripts.evals.review.bertscore import bert_score
from scripts.evals.review.data import bioasq, reviews, rows_of, sample_questions, spread, write_pubmed_xml
from scripts.evals.review.recorded import ForeignCitation, against_recorded, citation_faults, retrieval, text_scores
from scripts.evals.review.scoring import answered, recall_curve, reliability, summarise
from server.methods.shared.evidence_table import EvidenceRow, Finding, Review, Sentence

SHARED = Path(__file__).parents[4] / "shared" / "data" / "qa"
ROOT = Path(__file__).parents[3]
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


def test_rouge_su4_counts_pairs_with_gaps_and_single_words() -> None:
    words = metrics.tokens("police killed the gunman")
    assert sum(metrics.skip_pairs(words).values()) == 6 + 4
    assert sum(metrics.skip_pairs([str(at) for at in range(8)]).values()) == 8 + (7 + 6 + 5 + 4 + 3)
    assert metrics.rouge_su4("police killed the gunman", ["police killed the gunman"]) == 1.0
    assert metrics.rouge_su4("a b", ["c d"]) == 0.0
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


def test_the_curve_and_the_reliability_follow_the_screening() -> None:
    assert recall_curve([record()])[0] == (1, 1.0)
    assert reliability([record()]) == [(0.2, 0.0, 1), (0.9, 1.0, 1)]
    assert recall_curve([]) == []


def test_a_record_without_a_trace_is_read_by_its_reply() -> None:
    bare = Record(record().question, Reply(text="Yes [1]", arrowhead={"answer": "Yes", "outcome": "answered"}))
    assert (answered(bare).text, answered(bare).kept, answered(bare).bad_numbers) == ("Yes", (), 1)


def test_an_answer_from_nothing_and_foreign_names_are_found() -> None:
    """The published run on PMID 32740477 kept no article and cites two all the same."""
    nothing = citation_faults("Deep networks help [1], as Kim et al. (2019) show [2].", [], {})
    assert nothing.from_nothing and nothing.numbers == (1, 2)
    item = {"34281357": {"author": [{"family": "Bozkurt", "given": "B"}]}}
    foreign = citation_faults("Myocarditis is rare, as Su et al. [1] state.", ["34281357"], item)
    assert foreign.foreign == (ForeignCitation("Su", "34281357"),) and foreign.is_wrong
    right = citation_faults("Myocarditis is rare, as Bozkurt et al. [1] state.", ["34281357"], item)
    assert not right.is_wrong and (right.checked, right.unchecked) == (1, 0)
    assert citation_faults("As Su et al. [1] state.", ["34281357"], {}).unchecked == 1
    assert not citation_faults("No relevant articles were found.", [], {}).is_wrong


def test_each_name_is_looked_up_in_the_article_that_it_is_named_for() -> None:
    """One name beside a year may be of any article; words in capitals and genera of a list are no authors."""
    items = {"1": {"author": [{"family": "Ng"}]}, "2": {"author": [{"family": "Shen"}]}}
    text = "A review by Drossman [1] agrees. Shen et al. [2] do, Ng and Foo (2019) as well. RAT and VR [2] help."
    found = citation_faults(text, ["1", "2"], items)
    assert found.foreign == (ForeignCitation("Drossman", "1"),) and found.checked == 3
    assert citation_faults("Shen et al. [1] agree.", ["1", "2"], items).is_wrong
    assert (found.num_sentences, found.num_cited) == (3, 3)


def test_a_citation_supports_what_a_lookup_finds_in_its_article() -> None:
    text = "Title\nIn 2104 patients, the drug lowered mortality by 17 percent."
    assert metrics.supports([text], "The drug lowered mortality by 17 percent.")
    assert metrics.supports(["other", text], "Mortality of patients was lowered by the drug.")
    assert not metrics.supports([text], "The drug lowered mortality by 71 percent.")
    assert not metrics.supports([text], "Garlic prevents dementia.") and not metrics.supports([], "x")
    told = summarise([record()], TEXTS)
    assert told["citations: recall"].value == told["citations: precision"].value == 1.0
    foreign = record()
    foreign.reply.trace["choices"][0]["details"]["evidence_table"][0]["uid"] = "2"
    assert summarise([foreign], TEXTS)["citations: recall"].value == 0.0


class OneVectorEach:
    """Give each different word a direction of its own."""

    name, dim, metric = "words", 64, "inner_product"

    def __init__(self) -> None:
        self._words: dict[str, int] = {}

    def encode_queries_with_tokens(self, texts: Sequence[str]) -> tuple[Any, list[Any]]:
        places = [[self._words.setdefault(w, len(self._words)) for w in text.lower().split()] for text in texts]
        return None, [np.eye(self.dim, dtype=np.float32)[at] for at in places]


def test_bertscore_matches_each_token_with_the_nearest() -> None:
    """Swapped, as published, precision and recall change places; long texts are cut at sentences."""
    encoder: Any = OneVectorEach()
    score = bert_score(encoder, "asthma risk rises today", "asthma risk")
    assert (score.precision, score.recall) == (0.5, 1.0) and score.f1 == pytest.approx(2 / 3)
    swapped = bert_score(encoder, "asthma risk rises today", "asthma risk", paper_compat=True)
    assert (swapped.precision, swapped.recall, swapped.f1) == (1.0, 0.5, score.f1)
    assert bert_score(encoder, "", "asthma").f1 == 0.0
    assert bert_score(encoder, "asthma " * 500, "asthma").precision == pytest.approx(1.0)


def test_swapping_answer_and_gold_changes_chrf_and_not_rouge_l() -> None:
    text, gold = "Asthma risk rises.", "Prenatal mental disorders increase the risk of childhood asthma."
    right, swapped = text_scores(text, gold), text_scores(text, gold, paper_compat=True)
    assert right["chrF"] != pytest.approx(swapped["chrF"])
    assert right["ROUGE-L"] == pytest.approx(swapped["ROUGE-L"])


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


@pytest.mark.shared_data
@pytest.mark.skipif(not SHARED.exists(), reason="the project's evaluation data is not beside the checkout")
def test_the_recorded_chrf_was_computed_with_answer_and_gold_swapped(capsys: pytest.CaptureFixture[str]) -> None:
    runs = list(rows_of(SHARED / "clinfo_recorded_runs_dev.jsonl.gz"))
    rows = list(rows_of(SHARED / "pubmedrs200_dev.jsonl.gz"))
    answers = {row["pmid"]: row["answer"] for row in rows}
    swapped = against_recorded(runs, answers, paper_compat=True)["chrF"]
    right = against_recorded(runs, answers, paper_compat=False)["chrF"]
    assert abs(swapped.computed - swapped.recorded) < 0.1 and swapped.same > swapped.total / 2
    assert right.same == 0
    found = retrieval(runs, {row["pmid"]: row["reference_pmids"] for row in rows})
    assert found["RS"]["recall"] > 0.95 * found["RS"]["candidates"]
    files = [str(SHARED / f"{name}.jsonl.gz") for name in ("clinfo_recorded_runs_dev", "pubmedrs200_dev")]
    assert main(["recorded", files[0], "--reviews", files[1], "--paper-compat"]) == 0
    told = capsys.readouterr().out
    assert "swapped" in told and "Drossman is named for PMID 31602169, which others wrote" in told
    assert "Fisk is named for PMID 24731290" in told and "Sokol is named for PMID 21912769" in told


def test_the_table_leaves_out_what_was_not_measured() -> None:
    table = table_of(summarise([record(outcome="abstained")], {}))
    assert "ROUGE-2" not in table
    assert "answered" in table
