"""Forms of questions, grammars of their answers, and citations."""

from __future__ import annotations

import pytest
from graph_doubles import GENES, PSORIASIS, make_node, make_statement

from server.methods.kg_rag.prompts import KgRagOptions, ParsedQuestion, Prompts, read_question
from server.methods.kg_rag.report import node_url, p_value, references_of

AUTO = KgRagOptions()
LETTERED = "Which one?\nA) IL23R\nB. HLA-B, allele 27\n(C) none of these"


@pytest.mark.parametrize(
    ("text", "form", "choices"),
    [
        ("What treats psoriasis?", "general", ()),
        ("psoriasis is a skin disease", "general", ()),
        ("True or False: psoriasis is a skin disease", "true_false", ()),
        ("Psoriasis is a skin disease. True or false?", "true_false", ()),
        ("Is it true that psoriasis itches", "true_false", ()),
        ("Which? Given list is:  MIF, HLA-B,  PLA2G6, MIF", "multiple_choice", ("MIF", "HLA-B", "PLA2G6")),
        ("Which?\nOptions: a, b; c", "multiple_choice", ("a, b", "c")),
        (LETTERED, "multiple_choice", ("IL23R", "HLA-B, allele 27", "none of these")),
        ("Which?\na) IL23R\nb) HLA-B", "multiple_choice", ("IL23R", "HLA-B")),
        (
            "Which? Options: A) IL23R B) HLA-B, allele 27, C) TERT.",
            "multiple_choice",
            ("IL23R", "HLA-B, allele 27", "TERT"),
        ),
        ("Options are: x, y\nWhich? Options: a, b", "multiple_choice", ("a", "b")),
        ("Which? Options:\n  a; b  \n", "multiple_choice", ("a", "b")),
        ("It was untrue or false", "general", ()),
        ("Psoriasis is rare (True/False?)", "true_false", ()),
        ("Options: one", "general", ()),
        ("A. One letter only", "general", ()),
    ],
)
def test_the_form_is_read_off_the_question(text: str, form: str, choices: tuple[str, ...]) -> None:
    """A sentence alone is not taken for a test."""
    asked = read_question(text, AUTO)
    assert (asked.form, asked.choices) == (form, choices)
    assert asked.text.startswith(asked.stem) and "\n" not in asked.text


def test_choices_beside_the_question_go_before_those_in_it() -> None:
    assert read_question("True or false: x is y", AUTO).answers == ("True", "False", "unknown")
    beside = read_question("Which? Options: a, b", KgRagOptions(choices=("c", "d")))
    assert beside.answers == ("c", "d", "none of these") and beside.words.endswith("\nd")


def test_a_choice_that_says_none_is_the_abstention() -> None:
    """It is not offered twice."""
    asked = read_question(LETTERED, AUTO)
    assert asked.answers == asked.choices and asked.abstention == "none of these"


def test_a_written_answer_is_found_whatever_its_case() -> None:
    """A full stop behind it does not matter; another word does."""
    asked = read_question("Which? Options: HLA-B, vitamin B12.", AUTO)
    assert asked.answer_in(" hla-b. ") == "HLA-B"
    assert asked.answer_in("Vitamin B12") == "vitamin B12"
    assert asked.answer_in("HLA") == ""


def test_choices_that_differ_in_case_alone_are_told_apart() -> None:
    """Genes of man and mouse are written so."""
    asked = ParsedQuestion("Which?", "multiple_choice", ("TP53", "Tp53"))
    assert (asked.answer_in(" Tp53"), asked.answer_in(" TP53."), asked.answer_in("tp53")) == ("Tp53", "TP53", "TP53")


@pytest.mark.parametrize("none", ["None of these", "none of the above", "None of the above."])
def test_a_choice_that_says_none_in_other_words_is_the_abstention(none: str) -> None:
    """It is not doubled by one of ours."""
    asked = ParsedQuestion("Which?", "multiple_choice", ("a", none))
    assert asked.answers == ("a", none) and asked.abstention == none
    assert asked.answer_in(none.lower()) == none


def test_a_choice_within_another_word_is_named_all_the_same() -> None:
    """IL2 is not in the question because IL23R is."""
    assert read_question("Which is like IL23R?", KgRagOptions(choices=("IL2", "IL23R"))).words.endswith("\nIL2")


@pytest.mark.parametrize(
    "text",
    ["." * 200_000, "a" + " " * 200_000 + "b", "options: " * 20_000 + "\nx", "options: a" + " " * 200_000 + "b\nx",
     "A) x" + " " * 200_000 + "y\nB) z", "true or false " * 15_000, "-" * 200_000 + "true"],
)  # fmt: skip
def test_no_question_takes_more_than_linear_time_to_read(text: str) -> None:
    """Each of these took minutes. It is read on the event loop, for everybody."""
    assert read_question(text, AUTO).form in ("general", "true_false", "multiple_choice")


def test_the_grammar_allows_the_answers_and_nothing_else() -> None:
    """By the engine's own compiler, with characters that mean something in a pattern."""
    xgrammar = pytest.importorskip("xgrammar")
    choices = ("HLA-B", "a (b) [c] {d}|e^$", "x.y*z+?", "5'-q\"r\\s/t", "α-syn & é")
    grammar = ParsedQuestion("q", "multiple_choice", choices).grammar()
    assert grammar is not None
    vocabulary = [bytes([number]) for number in range(256)] + [b"</s>"]
    info = xgrammar.TokenizerInfo(vocabulary, stop_token_ids=[256])
    compiled = xgrammar.GrammarCompiler(info).compile_regex(grammar.spec)
    for answer in (*choices, "none of these"):
        assert xgrammar.GrammarMatcher(compiled).accept_string(f" {answer}")
    assert not xgrammar.GrammarMatcher(compiled).accept_string("HLA-C")


def test_a_prompt_has_the_context_before_the_question() -> None:
    prompts, asked = Prompts.load(), ParsedQuestion("Which?", "multiple_choice", ("a", "b"))
    assert prompts.base_form(asked, "FACTS").endswith(
        "Context:\nFACTS\n\nQuestion: Which?\nChoices: a; b; none of these\nAnswer:"
    )


@pytest.mark.parametrize(
    ("kind", "identifier", "url"),
    [
        ("Disease", "DOID:1612", "https://identifiers.org/DOID:1612"),
        ("Gene", "3106", "https://www.ncbi.nlm.nih.gov/gene/3106"),
        ("Compound", "DB00563", "https://go.drugbank.com/drugs/DB00563"),
        ("Compound", "inchikey:FBOZXECLQNJBKD-ZDUSSCGKSA-N", "https://identifiers.org/inchikey:FBOZXECLQNJBKD-ZDUSSCGKSA-N"),
        ("Compound", "CHEMBL25", "https://identifiers.org/chembl.compound:CHEMBL25"),
        ("Variant", "rs2476601", "https://www.ncbi.nlm.nih.gov/snp/rs2476601"),
        ("Symptom", "D011537", "https://id.nlm.nih.gov/mesh/D011537"),
        ("Protein", "P04637", "https://www.uniprot.org/uniprotkb/P04637"),
        ("gene/protein", "NCBI:6622", "https://www.ncbi.nlm.nih.gov/gene/6622"),
        ("drug", "DrugBank:DB01235", "https://go.drugbank.com/drugs/DB01235"),
        ("disease", "MONDO:5180", "https://identifiers.org/MONDO:0005180"),
        ("disease", "MONDO_grouped:13924_12592", ""),
        ("effect/phenotype", "HPO:1337", "https://identifiers.org/HP:0001337"),
        ("pathway", "REACTOME:R-HSA-109582", "https://reactome.org/content/detail/R-HSA-109582"),
        ("Gene", "HGNC:11138", "https://identifiers.org/HGNC:11138"),
        ("Disease", "MONDO:0005180", "https://identifiers.org/MONDO:0005180"),
        ("Disease", "DOID:1) evil](x", ""),
        ("Food", "banana", ""),
    ],
)  # fmt: skip
def test_identifiers_lead_to_their_pages(kind: str, identifier: str, url: str) -> None:
    """Only those of which the form says whose they are."""
    assert node_url(make_node(kind, "name", identifier)) == url


def test_the_smallest_p_value_is_taken() -> None:
    """Also from a list of findings; what is no number is none."""
    evidence = {"gwas_pvalue": "2e-8", "items": [{"pvalue": 1e-9}, {"fisher": "n/a"}, "x"]}
    assert p_value(make_statement(PSORIASIS, "ASSOCIATES_DaG", GENES["HLA-B"], evidence=evidence)) == 1e-9
    assert p_value(make_statement(PSORIASIS, "ASSOCIATES_DaG", GENES["HLA-B"])) is None


@pytest.mark.parametrize(("value", "expected"), [(10**400, None), (True, None), ("0.04", 0.04), (float("nan"), None)])
def test_a_p_value_is_a_number_that_is_one(value: object, expected: float | None) -> None:
    """JSON allows integers that no float holds."""
    assert p_value(make_statement(PSORIASIS, "ASSOCIATES_DaG", GENES["HLA-B"], evidence={"pvalue": value})) == expected


@pytest.mark.parametrize(
    ("pmid", "url"), [("PMID:123", "https://pubmed.ncbi.nlm.nih.gov/123"), ("PMC7", "https://www.ncbi.nlm.nih.gov/gene/3106")]
)  # fmt: skip
def test_an_article_is_linked_by_its_number_alone(pmid: str, url: str) -> None:
    """Own tables may write it with its prefix; what is no number has no page of PubMed."""
    listed = references_of([make_statement(PSORIASIS, "ASSOCIATES_DaG", GENES["HLA-B"], pmids=(pmid,))], [PSORIASIS])
    assert listed[0][1] == url


def test_names_cannot_end_a_references_title() -> None:
    """They stand in a Markdown link."""
    odd = make_node("Gene", "x](https://evil) [y", "1")
    ((title, url), _) = references_of([make_statement(PSORIASIS, "ASSOCIATES_DaG", odd)], [PSORIASIS])
    assert "]" not in title and "[" not in title
    assert url == "https://www.ncbi.nlm.nih.gov/gene/1"


def test_a_choice_is_shown_with_the_letter_that_the_question_gives_it() -> None:
    """A list without letters has none, and what is no choice neither."""
    lettered = read_question("Which gene is it?\nA. GNE\nB. PLCL1", AUTO)
    assert (lettered.shown("PLCL1"), lettered.shown("none of these")) == ("B. PLCL1", "none of these")
    assert read_question("Which? Options: GNE, PLCL1", AUTO).shown("PLCL1") == "PLCL1"
