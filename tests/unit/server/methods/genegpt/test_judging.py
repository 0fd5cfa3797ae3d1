"""What a GeneGPT answer amounts to, from its look-ups and what was read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from models.decoding.types import Call, CallFinished, CallReply, CallStatus, LoopDone, LoopFinish, LoopUsage
from server.methods.base import AnswerOutcome
from server.methods.genegpt.judging import is_searched_rightly, judge
from server.methods.genegpt.lookups import Lookup, Transcript, looked_up
from server.methods.genegpt.questions import QuestionReader
from server.methods.genegpt.report import told
from server.methods.shared.empty_states import MORE_RECORDS

EUTILS = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils/"
RECORD = (
    "[2 gene records, 1 human named BRCA1\n1. BRCA1 (human) protein-coding chr17 17q21.31; aliases FANCS; id 672\n"
    "2. Brca1 (mouse) protein-coding chr11; id 12189]"
)


def lookup(endpoint: str = "esearch", db: str = "gene", term: str = "BRCA1", status: CallStatus = "ok") -> Lookup:
    found = {"ok": 2, "empty": 0}.get(status, 0)
    return Lookup(endpoint, db, term, status, found, f"{found} ids")


SEARCHED, READ = lookup(), lookup("esummary", term="672,12189")
NOTHING = lookup(status="empty")
NO_RECORD = lookup("esummary", term="672", status="empty")
FAILED = replace(lookup(status="error"), result="error: NCBI timed out")

READER = QuestionReader.load()


def made(question: str, *lookups: Lookup, read: str = RECORD) -> Transcript:
    asked = READER.read(question)
    shown = read if any(one.num_records for one in lookups) else ""
    return Transcript(question, lookups, shown, asked.asking, asked.is_in_scope)


PARTS = (
    "[5 gene records, 0 human named RP11-303E16.8\n1. chr19 19q13.4 RP11 (human) protein-coding; retinitis pigmentosa "
    "11; id 6106]"
)
NAMESAKES = (
    "[5 gene records, 2 human named hCAP\n1. SMC3 (human) protein-coding chr10; aliases BAM, HCAP; id 9126\n"
    "2. DCD (human) protein-coding chr12; aliases HCAP, PIF; id 117159]"
)


def test_an_answer_from_records_of_other_names_is_not_given() -> None:
    """NCBI finds RP11 where RP11-303E16.8 was searched for; an accession number stands in no record."""
    search = lookup(term="RP11-303E16.8")
    told = judge("chr19", "stop", made("Which chromosome is RP11-303E16.8 gene located on?", search, READ, read=PARTS))
    assert told.outcome == "abstained" and not told.is_shown and "is named “RP11-303E16.8”" in told.reason
    found = judge("BRCA1", "stop", made("Symbol of ENSG00000012048?", lookup(term="ENSG00000012048"), READ))
    assert found.outcome == "answered"


@pytest.mark.parametrize(
    ("name", "read", "is_answered"),
    [
        ("leptin", "[2 gene records, 1 human named leptin\n1. LEP (human) chr7; leptin; id 3\n2. LEPR (human)]", True),
        ("beta globin", "[1 gene record, 0 human named beta globin\n1. HBB (human) chr11; globin beta chain]", True),
        ("daf-16", "[1 gene record, 0 human named daf-16\n1. daf-16 (worm) chrI; Forkhead box; id 172981]", True),
        ("daf-16", "[1 gene record, 0 human named daf-16\n1. daf-2 (worm) chrIII; id 175410]", False),
        ("leptin", "[1 gene record, 0 human named leptin\n1. LEPR (human) chr1; leptin receptor; id 3953]", False),
        ("leptin", "[2 gene records, 0 human named leptin\n1. LEPR (human) chr1; leptin receptor\n2. LEPROT]", False),
        ("leptin", "[1 gene record, 0 human named leptin\n1. Lep (mouse) chr6; leptin; id 16846]", False),
        ("insulin receptor", "[1 gene record, 0 human named insulin receptor\n1. CTLA4 (human) chr2; id 1493]", False),
    ],
)
def test_a_name_in_words_is_that_of_a_record_that_was_read(name: str, read: str, is_answered: bool) -> None:
    """NCBI finds "leptin receptor" too; a word such as "chain" makes no other name."""
    place = next(part for part in read.replace(";", " ").split() if part.startswith("chr"))
    told = judge(place, "stop", made(f"Where is the {name} gene?", lookup(term=name), READ, read=read))
    assert (told.outcome == "answered") == is_answered
    assert is_answered or f"none of the records that were read is named “{name}”" in told.reason


def test_a_name_of_several_genes_is_told() -> None:
    """Where it is the symbol of one of them, that one is meant."""
    told = judge("SMC3", "stop", made("What is the symbol of hCAP?", lookup(term="hCAP"), READ, read=NAMESAKES))
    assert told.outcome == "partial" and told.is_shown
    assert told.reason == "“hCAP” is a name of 2 human genes: SMC3, DCD; another one may be meant."
    symbol = NAMESAKES.replace("hCAP", "DCD")
    assert judge("DCD", "stop", made("Symbol of DCD?", lookup(term="DCD"), READ, read=symbol)).outcome == "answered"


@pytest.mark.parametrize(
    ("answer", "made_from", "outcome", "is_shown"),
    [
        ("BRCA1", made("Which gene is FANCS?", lookup(term="FANCS"), READ), "answered", True),
        ("BRCA1", made("Which gene is FANCS?", SEARCHED, READ), "abstained", False),
        ("Yes", made("Is there a gene called ABC9?", lookup(term="Is there a gene"), READ), "abstained", False),
        ("Yes", made("Is there a gene called ABC9?", lookup(term="ABC9"), READ), "abstained", False),
        ("chr17", made("Where is BRCA1?", SEARCHED, READ), "answered", True),
        ("chr17", made("Is BRCA1 on chromosome 17?", SEARCHED, READ), "answered", True),
        ("BRCA1, FANCS", made("Names of BRCA1?", SEARCHED, READ), "answered", True),
        ("TP53", made("Which gene is FANCS?", SEARCHED, READ), "abstained", False),
        ("),612522, 0", made("Which genes are for diabetes?", SEARCHED, READ), "abstained", False),
        ("not found", made("Where is BRCA1?", SEARCHED, READ), "abstained", False),
        ("not found", made("Where is BRCA1?", NOTHING), "not_found", False),
        ("not found", made("Where is BRCA1?", SEARCHED, NO_RECORD), "call_failed", False),
        ("not found", made("Where is EGFR?", lookup(term="LFR", status="empty")), "abstained", False),
        ("not found", made("What are the genes?", lookup(term="What are the", status="empty")), "abstained", False),
        ("not found", made("Gene of rs99?", lookup(term="rs99", status="empty")), "abstained", False),
        ("not found", made("Gene of rs99?", lookup(db="snp", term="rs99", status="empty")), "not_found", False),
        ("not found", made("Where is BRCA1?", FAILED), "call_failed", False),
        ("not found", made("Where is BRCA1?"), "abstained", False),
        ("not found", made("Capital of France?", lookup(term="France", status="empty")), "out_of_scope", False),
        ("hello", made("hello"), "out_of_scope", False),
        ("BRCA1", made("Which gene is FANCS?"), "abstained", False),
        ("", made("Where is BRCA1?", SEARCHED, READ), "abstained", True),
    ],
)  # fmt: skip
def test_the_outcome_follows_from_what_was_looked_up(
    answer: str, made_from: Transcript, outcome: AnswerOutcome, is_shown: bool
) -> None:
    """Whatever is not an answer says why, in a sentence."""
    verdict = judge(answer, "stop", made_from)

    assert (verdict.outcome, verdict.is_shown) == (outcome, is_shown)
    assert bool(verdict.reason) == (outcome != "answered")


@pytest.mark.parametrize(
    ("question", "answer", "outcome"),
    [
        ("Is BRCA1 a tumour suppressor?", "No", "abstained"),
        ("Is BRCA1 a tumour suppressor?", "Yes", "abstained"),
        ("Is BRCA1 a tumour suppressor?", "Yes, it is one of the best known.", "abstained"),
        ("Is BRCA1 a protein-coding gene?", "Yes", "answered"),
        ("Is BRCA1 a protein-coding gene?", "No", "abstained"),
        ("Does BRCA1 encode a protein?", "Yes", "answered"),
        # The record of the mouse has both.
        ("Is BRCA1 on chr11?", "Yes", "abstained"),
    ],
)
def test_a_yes_or_no_needs_a_record_that_states_it(question: str, answer: str, outcome: AnswerOutcome) -> None:
    """Of a model that only copies: a bare word looks as sure when it is wrong."""
    verdict = judge(answer, "stop", made(question, SEARCHED, READ))

    assert verdict.outcome == outcome
    assert verdict.is_shown == (outcome == "answered")


def test_the_type_of_another_gene_is_no_answer() -> None:
    """Only a line that names the asked gene states its type."""
    other = made("Is ABC9 a protein-coding gene?", lookup(term="ABC9"), READ)
    parsed = made("Is FANCS protein-coding?", lookup(term="FANCS"), READ)

    assert judge("Yes", "stop", other).outcome == "abstained"
    assert judge("Yes", "stop", parsed).outcome == "answered"


def ended(finish: LoopFinish = "stop") -> LoopDone:
    return LoopDone(finish, None, (), LoopUsage())


@pytest.mark.parametrize("finish", ["length", "call_limit", "timeout", "abort"])
def test_an_answer_that_a_limit_ends_is_cut(finish: LoopFinish) -> None:
    """With what there is, unless the model can only copy: then half an answer may be another one."""
    verdict = told("It is on", ended(finish), [SEARCHED, READ])
    assert (verdict.outcome, verdict.is_shown) == ("cut", True)
    assert verdict.reason.startswith("The answer is not complete")
    assert not judge("It is", finish, made("Where is BRCA1?", SEARCHED, READ)).is_shown


@pytest.mark.parametrize(
    ("answer", "lookups", "outcome"),
    [
        ("It is on chromosome 17.", (SEARCHED, READ), "answered"),
        ("No, BRCA1 lies on chromosome 17.", (SEARCHED, READ), "answered"),
        ("The records do not say.", (SEARCHED, READ), "answered"),
        ("BRCA1", (), "partial"),
        ("BRCA1", (FAILED,), "call_failed"),
        ("There is no such gene.", (NOTHING,), "not_found"),
        (" ", (SEARCHED, READ), "abstained"),
    ],
)
def test_the_outcome_of_a_general_model_follows_from_its_calls_alone(
    answer: str, lookups: tuple[Lookup, ...], outcome: AnswerOutcome
) -> None:
    """Its text is shown whatever it says."""
    verdict = told(answer, ended(), lookups)
    assert verdict.outcome == outcome and verdict.is_shown
    assert bool(verdict.reason) == (outcome != "answered")


def test_a_lookup_is_read_from_the_call() -> None:
    """Field tags and operators are no part of the name; a failed record of NCBI is none."""
    url = f"{EUTILS}esearch.fcgi?db=gene&term=%22BRCA1%22[sym]+AND+human[orgn]"
    reply = CallReply("[0 ids]", "empty", {"endpoint": "esearch", "db": "gene", "num_records": 1})
    found = Lookup.of(CallFinished(Call(url, 0), reply, "[0 ids]", 3, 0.1))

    assert (found.db, " ".join(found.term.split()), found.num_records) == ("gene", "BRCA1 human", 0)


@pytest.mark.parametrize(
    ("question", "expected"),
    [("hello", False), ("thanks!", False), ("What is the capital of France?", False), ("Where is TP53?", True),
     ("Which genes cause cystic fibrosis?", True), ("rs334?", True), ("On which chromosome is that SNP?", True),
     ("ATTGCATTAGCCGATTACGGATTTAGC", True)],
)  # fmt: skip
def test_scope_is_what_ncbi_holds(question: str, expected: bool) -> None:
    """By a word of the field or an identifier."""
    assert READER.read(question).is_in_scope == expected


def test_a_search_for_a_part_of_a_name_is_not_right() -> None:
    """LFR is not EGFR; the asked words in another order are not the asked name; "which gene" names nothing."""
    assert is_searched_rightly(lookup(term="cystic fibrosis"), "Which genes cause cystic fibrosis?")
    assert not is_searched_rightly(lookup(term="fibrosis cystic"), "Which genes cause cystic fibrosis?")
    assert not is_searched_rightly(lookup(term="LFR"), "What is EGFR?")
    assert not is_searched_rightly(lookup(term="Which gene"), "Which gene causes Marfan syndrome?", {"which", "gene"})
    assert not is_searched_rightly(lookup(term="Which"), "Which chromosome holds the CFTR gene?", {"which"})
    assert not is_searched_rightly(lookup(db="snp", term="rs99"), "Where is rs999?")


def test_a_name_of_an_earlier_reply_is_searched_for_rightly() -> None:
    """As the gene that an alignment has found is; not where the reply is to a search for something else."""
    question = "What are the aliases of the gene with the sequence ACGTACGTACGT?"
    hit = Lookup("blast", "nt", "", "ok", 1, "1 hit")
    gene = replace(lookup(term="BRCA1"), is_of_reply=True)
    assert judge("FANCS", "stop", made(question, hit, gene, READ)).outcome == "answered"
    stray = judge("FANCS", "stop", made(question, lookup(term="TP53"), gene, READ))
    assert (stray.outcome, stray.is_shown) == ("abstained", False)


@pytest.mark.parametrize("finish", ["length", "call_limit"])
def test_an_answer_that_repeats_itself_says_so(finish: str) -> None:
    """Not that it was too long or had no calls left."""
    transcript = made("Where is BRCA1?", SEARCHED, READ)
    verdict = judge("brca1 on]->", finish, transcript, stop_reason="repetition")  # type: ignore[arg-type]

    assert (verdict.outcome, verdict.reason) == ("cut", "The answer is not complete: it repeated itself.")


def test_ids_of_a_search_without_a_word_of_it_are_no_records_on_that_word() -> None:
    """NCBI dropped XYZQQQ, and what it found is on diabetes: there is nothing that could have been read."""
    result = "2 ids, not of XYZQQQ"
    search = replace(lookup(db="omim", term="XYZQQQ diabetes"), has_ignored=True, result=result)
    question = "What are genes related to XYZQQQ diabetes?"
    told = judge("not found and ignored: XYZQQQ", "stop", made(question, search, read=""))

    assert (told.outcome, told.is_shown) == ("not_found", False)
    assert "has one of the words" in told.reason and f"({result})" in told.reason


@pytest.mark.parametrize(("is_local", "num_records", "says"), [(True, 0, True), (False, 0, False), (True, 2, False)])
def test_what_the_gateway_here_lacks_can_be_added(is_local: bool, num_records: int, says: bool) -> None:
    """Not what NCBI itself has no record of."""
    sentence = looked_up([replace(lookup(term="ZZTOP99"), is_local=is_local, num_records=num_records)])
    assert (MORE_RECORDS in sentence) is says
