"""What a Put may say: sequences, programs, parameters, organisms, database names; and the forms of a Get."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.errors import BLAST_DATABASE, GatewayDataError
from retrieval.gateway.blast.databases.catalog import BlastDatabase, Discovery
from retrieval.gateway.blast.parameters import (
    MAX_LETTERS,
    Molecule,
    QuerySequence,
    for_short_queries,
    hit_list_size,
    read_program,
    read_sequences,
    search_arguments,
)
from retrieval.gateway.blast.process import error_message
from retrieval.gateway.blast.request import OrganismLimit, choose_database, organism_limit, read_put
from retrieval.gateway.blast.results.formats import parse_page_request, reply_with
from retrieval.gateway.blast.results.pages import NO_SIMILARITY

NT = "ACGTACGTTGCATGCAAGCTAGCTAGCATCGATCGACTAGCATCGACTAGC"
AA = "MEEPQSDPSVEPPLSQETFSDLWKLLPENNVLSPLPSQAMDDLMLSPDDIEQWFTEDPGP"


def database(name: str, molecule: Molecule, *, taxids: bool = True) -> BlastDatabase:
    return BlastDatabase(name=name, molecule=molecule, folder=Path(name), taxids=taxids, stamp=(("x", 1, 1, 1),))


SAMPLE = database("sample", "nucl")
GENOME = database("genome", "nucl")
PROTEOME = database("proteome", "prot")
PLAIN = database("plain", "nucl", taxids=False)
BROKEN = GatewayDataError("BLAST database broken: broken.nsq is missing", BLAST_DATABASE)
SITE = Discovery({"genome": GENOME, "proteome": PROTEOME, "plain": PLAIN}, {"broken": BROKEN})
NOTHING = Discovery({}, {})


def arguments(**params: str) -> tuple[str, ...]:
    program = read_program(params)
    return search_arguments(program, params)


def after(option: str, given: tuple[str, ...]) -> str:
    return given[given.index(option) + 1]


def test_fasta_headers_blanks_and_uracil_are_cleaned() -> None:
    """A pasted FASTA entry becomes its letters; its title is kept, without what breaks a line."""
    text = ">mine\u2028 α\tb\nacgu acgt\n1 acgtn\n"
    assert read_sequences(text, "nucl") == (QuerySequence("mine? ? b", "ACGTACGTACGTN"),)


def test_several_sequences_and_a_bare_one_are_read_in_order() -> None:
    """Letters before the first title are a query of their own."""
    found = read_sequences(f"{NT}\n>a\n{NT}\n\n>\n{NT}\n", "nucl")
    assert [query.title for query in found] == ["", "a", ""] and all(query.letters == NT for query in found)


def test_lower_case_is_kept_only_when_it_masks() -> None:
    """LCASE_MASK needs the letters as they were written."""
    assert read_sequences("acgtACGTAA", "nucl")[0].letters == "ACGTACGTAA"
    assert read_sequences("acgtACGTAA", "nucl", keep_case=True)[0].letters == "acgtACGTAA"


@pytest.mark.parametrize(
    ("text", "molecule", "message"),
    [
        ("", "nucl", "contains no data"),
        (" \n ", "nucl", "contains no data"),
        (">only a title", "nucl", "contains no data"),
        (f">a\n{NT}\n>b\n", "nucl", "contains no data"),
        ("ACGT", "nucl", "4 letters"),
        ("MEE", "prot", "3 letters"),
        ("A" * (MAX_LETTERS + 1), "nucl", f"{MAX_LETTERS} are allowed"),
        (f">x\n{NT}\n" * 51, "nucl", "50 are allowed"),
        ("rs1217074595", "nucl", "not valid"),
        ("ACGT; rm -rf /", "nucl", "not valid"),
        ("NM_000546.6", "nucl", "is an identifier"),
        ("P04637", "prot", "is an identifier"),
        (AA, "nucl", "Protein FASTA provided for nucleotide sequence"),
        (NT, "prot", "Nucleotide FASTA provided for protein sequence"),
    ],
)
def test_what_is_no_sequence_is_refused_in_ncbis_words(text: str, molecule: Molecule, message: str) -> None:
    """Each reason is told apart."""
    with pytest.raises(ValueError, match=message):
        read_sequences(text, molecule)


@given(st.text(max_size=400), st.sampled_from(["nucl", "prot"]))
def test_no_text_gets_past_the_letters(text: str, molecule: Molecule) -> None:
    """Whatever is sent, what reaches blast+ is letters under a one-line title, or nothing."""
    try:
        queries = read_sequences(text, molecule)
    except ValueError:
        return
    for query in queries:
        assert set(query.letters) <= set(string.ascii_uppercase + "*-")
        assert query.title.isprintable() and query.title.isascii()


@pytest.mark.parametrize(
    ("params", "task"),
    [
        ({}, "blastn"),
        ({"PROGRAM": "megablast"}, "megablast"),
        ({"PROGRAM": "blastn", "MEGABLAST": "on"}, "megablast"),
        ({"PROGRAM": "blastn", "SERVICE": "megablast"}, "megablast"),
        ({"PROGRAM": "BLASTP"}, "blastp"),
        ({"PROGRAM": "tblastx"}, ""),
    ],
)
def test_programs_have_their_tasks(params: dict[str, str], task: str) -> None:
    """The task is what blast+ is told."""
    assert read_program(params).task == task


@pytest.mark.parametrize(
    ("params", "letters", "task"),
    [
        ({"MEGABLAST": "on"}, 30, "blastn-short"),
        ({"MEGABLAST": "on"}, 31, "megablast"),
        ({"SHORT_QUERY_ADJUST": "false"}, 20, "blastn"),
        ({"WORD_SIZE": "11"}, 20, "blastn"),
        ({"PROGRAM": "blastp"}, 12, "blastp-short"),
        ({"PROGRAM": "blastx"}, 20, "blastx"),
    ],
)
def test_short_queries_get_the_task_for_short_queries(params: dict[str, str], letters: int, task: str) -> None:
    """Up to 30 letters, unless the caller chose otherwise."""
    program = for_short_queries(read_program(params), params, [QuerySequence("", "A" * letters)])
    assert program.task == task


def test_a_short_search_expects_more_and_filters_nothing() -> None:
    """The values NCBI documents for SHORT_QUERY_ADJUST; an EXPECT of the caller's own stays."""
    for name, expect in (("blastn", "1000"), ("blastp", "50000")):
        params = {"PROGRAM": name}
        program = for_short_queries(read_program(params), params, [QuerySequence("", "A" * 12)])
        found = search_arguments(program, params)
        assert after("-evalue", found) == expect
        assert after("-dust" if name == "blastn" else "-seg", found) == "no"
        assert after("-evalue", search_arguments(program, {**params, "EXPECT": "0.5"})) == "0.5"


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"EXPECT": "1e-5"}, ("-evalue", "1e-05")),
        ({"WORD_SIZE": "16"}, ("-word_size", "16")),
        ({"FILTER": "mL"}, ("-dust", "yes", "-soft_masking", "true")),
        ({"FILTER": "L"}, ("-dust", "yes", "-soft_masking", "false")),
        ({"FILTER": "F"}, ("-dust", "no")),
        ({"FILTER": "none", "PROGRAM": "blastp"}, ("-seg", "no")),
        ({"NUCL_REWARD": "1", "NUCL_PENALTY": "-3"}, ("-reward", "1", "-penalty", "-3")),
        ({"GAPCOSTS": "5 2"}, ("-gapopen", "5", "-gapextend", "2")),
        ({"PROGRAM": "blastp", "MATRIX": "pam30", "GAPCOSTS": "9 1"}, ("-matrix", "PAM30", "-gapopen", "9")),
        ({"PROGRAM": "blastp", "MATRIX_NAME": "BLOSUM45"}, ("-matrix", "BLOSUM45")),
        ({"PROGRAM": "blastp", "COMPOSITION_BASED_STATISTICS": "no"}, ("-comp_based_stats", "0")),
        ({"PROGRAM": "blastx", "GENETIC_CODE": "2"}, ("-query_gencode", "2")),
        ({"PROGRAM": "tblastn", "DB_GENETIC_CODE": "11"}, ("-db_gencode", "11")),
        ({"PERC_IDENT": "95"}, ("-perc_identity", "95")),
        ({"QUERY_FROM": "5", "QUERY_TO": "40"}, ("-query_loc", "5-40")),
        ({"LCASE_MASK": "on"}, ("-lcase_masking",)),
    ],
)
def test_documented_parameters_reach_blast(params: dict[str, str], expected: tuple[str, ...]) -> None:
    """Each one as the arguments that mean it."""
    found = arguments(**params)
    at = found.index(expected[0])
    assert found[at : at + len(expected)] == expected


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"PROGRAM": "psiblast"}, "PROGRAM psiblast"),
        ({"SERVICE": "phi"}, "SERVICE phi"),
        ({"EXPECT": "nan"}, "EXPECT"),
        ({"EXPECT": "1e9"}, "EXPECT"),
        ({"EXPECT": "-1"}, "EXPECT"),
        ({"EXPECT": "ten"}, "EXPECT is not a number"),
        ({"WORD_SIZE": "3"}, "WORD_SIZE must be a whole number from 4 to 100"),
        ({"WORD_SIZE": "8", "PROGRAM": "blastp"}, "from 2 to 7"),
        ({"FILTER": "R"}, "FILTER R"),
        ({"GAPCOSTS": "5"}, "GAPCOSTS must be two"),
        ({"GAPCOSTS": "11 1; ls", "PROGRAM": "blastp"}, "GAPCOSTS must be two"),
        ({"MATRIX": "../../etc/passwd", "PROGRAM": "blastp"}, "MATRIX must be one of"),
        ({"NUCL_PENALTY": "3"}, "NUCL_PENALTY"),
        ({"COMPOSITION_BASED_STATISTICS": "9", "PROGRAM": "blastp"}, "must be 0, 1, 2 or 3"),
        ({"GENETIC_CODE": "7", "PROGRAM": "blastx"}, "no genetic code"),
        ({"PHI_PATTERN": "A-x(2)-C"}, "PHI_PATTERN is not available"),
        ({"UNGAPPED_ALIGNMENT": "yes"}, "UNGAPPED_ALIGNMENT is not available"),
        ({"QUERY_FROM": "9", "QUERY_TO": "3"}, "QUERY_FROM is behind"),
    ],
)
def test_bad_values_are_refused_by_name(params: dict[str, str], message: str) -> None:
    """The page says which parameter it is, and what would do."""
    with pytest.raises(ValueError) as refused:
        arguments(**params)
    assert message in str(refused.value)


@given(
    st.dictionaries(
        st.sampled_from(["EXPECT", "WORD_SIZE", "FILTER", "GAPCOSTS", "MATRIX", "NUCL_REWARD", "NUCL_PENALTY", "X",
                         "PERC_IDENT", "QUERY_FROM", "QUERY_TO", "GENETIC_CODE", "COMPOSITION_BASED_STATISTICS"]),
        st.one_of(st.text(max_size=12), st.integers(-5, 60).map(str), st.sampled_from(["11 1", "5 2", "on", "mL"])),
    ),
    st.sampled_from(["blastn", "megablast", "blastp", "blastx", "tblastn", "tblastx"]),
)  # fmt: skip
def test_no_value_becomes_an_argument_unchecked(params: dict[str, str], program: str) -> None:
    """Arguments are options of blast+ and plain short values, whatever is sent."""
    try:
        found = arguments(PROGRAM=program, **params)
    except ValueError:
        return
    plain = set(string.ascii_letters + string.digits + "_.+-")
    assert all(set(argument) <= plain and 0 < len(argument) < 24 for argument in found)


def test_the_hit_list_has_a_size_whatever_is_asked() -> None:
    """NCBI takes its default for what is no number; nobody asks for more than is kept."""
    sizes = [hit_list_size({"HITLIST_SIZE": text}) for text in ("", "x", "0", "7", "99999999")]
    assert sizes == [50, 50, 1, 7, 5000]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(none)", OrganismLimit()),
        ("txid9606[ORGN]", OrganismLimit((9606,))),
        ("txid9606[Organism:exp]", OrganismLimit((9606,))),
        ('"Homo sapiens"[porgn:__txid9606]', OrganismLimit((9606,))),
        ("Homo sapiens[Organism] OR mouse[orgn]", OrganismLimit((9606, 10090))),
        ("(human[orgn] OR txid7955[orgn])", OrganismLimit((9606, 7955))),
        ("NOT txid9606[orgn]", OrganismLimit((9606,), excluded=True)),
        ("all[filter] NOT (mouse[orgn] OR rat[orgn])", OrganismLimit((10090, 10116), excluded=True)),
        ("NOT mouse[orgn] NOT rat[orgn]", OrganismLimit((10090, 10116), excluded=True)),
    ],
)
def test_organisms_are_read_as_numbers(text: str, expected: OrganismLimit) -> None:
    """The usual ways of naming organisms in Entrez."""
    assert organism_limit(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "human", "predicted[title]", "human[orgn] AND chromosome[title]", "NOT mouse[orgn] OR rat[orgn]", "NOT",
        "human[orgn] NOT mouse[orgn]", "1:100[slen]", "Nosuch animal[orgn]", " OR ".join(["rat[orgn]"] * 60), "[orgn]",
        "Homo sapiens[porgn:__txid9606] AND biomol mrna[prop]", "tumor[title] AND mouse[porgn:__txid10090]",
        "tumor AND mouse[porgn:__txid10090]", "mouse NOT human[porgn:__txid9606]",
    ],
)  # fmt: skip
def test_other_restrictions_are_refused_not_dropped(text: str) -> None:
    """A restriction that cannot be kept is an error that names the parameter."""
    with pytest.raises(ValueError, match="ENTREZ_QUERY"):
        organism_limit(text)


@pytest.mark.parametrize("program", ["blastp", "blastx", "tblastn", "tblastx"])
def test_an_identity_that_blast_cannot_ask_for_is_refused(program: str) -> None:
    """Only blastn has the option; dropped, the result would hold what the caller wanted left out."""
    with pytest.raises(ValueError, match="PERC_IDENT is not available for"):
        search_arguments(read_program({"PROGRAM": program}), {"PERC_IDENT": "90"})
    assert search_arguments(read_program({"PROGRAM": program}), {"PERC_IDENT": ""})


def test_hyphens_of_an_alignment_do_not_count_as_letters() -> None:
    """blast+ drops them or takes many of them for no sequence at all, and a range counts in what is left."""
    assert read_sequences(f"{'-' * 80}MKVLA--AGIV", "prot")[0].letters == "MKVLAAGIV"
    with pytest.raises(ValueError, match="contains no data"):
        read_sequences("-" * 50, "prot")


@pytest.mark.parametrize("text", ["human{}x", "{}human", "human[orgn]{}x", "(human{}[orgn]{}"])
def test_a_long_run_of_blanks_in_a_restriction_is_read_in_no_time(text: str) -> None:
    """What took a pattern's backtracking hours would keep the whole server from answering."""
    with pytest.raises(ValueError, match="ENTREZ_QUERY"):
        organism_limit(text.replace("{}", " \t" * 100_000))


@pytest.mark.parametrize(
    ("name", "program", "expected"),
    [
        ("plain", "blastn", "plain"),
        ("PLAIN", "megablast", "plain"),
        ("nt", "blastn", "sample"),
        ("", "blastn", "sample"),
        ("nr", "blastp", "proteome"),
        ("swissprot", "blastx", "proteome"),
        ("", "blastp", "proteome"),
        ("sample", "blastn", "sample"),
    ],
)
def test_a_name_means_what_is_here(name: str, program: str, expected: str) -> None:
    """An exact name first, else NCBI's usual names stand for the only database of the molecule, or for the sample."""
    assert choose_database(name, read_program({"PROGRAM": program}), SITE, SAMPLE).name == expected


def test_nt_is_the_only_nucleotide_database_and_without_one_the_sample() -> None:
    """And proteins are said to be missing."""
    assert choose_database("core_nt", read_program({}), Discovery({"genome": GENOME}, {}), SAMPLE) is GENOME
    assert choose_database("nt", read_program({}), NOTHING, SAMPLE) is SAMPLE
    with pytest.raises(ValueError, match="nr was not found; available here: sample"):
        choose_database("nr", read_program({"PROGRAM": "blastp"}), NOTHING, SAMPLE)


@pytest.mark.parametrize(
    ("name", "program", "message"),
    [
        ("../../etc/passwd", "blastn", r"was not found; available here: genome \(nucleotides\), plain"),
        ("mystery", "blastp", r"proteome \(proteins\)"),
        ("plain genome", "blastn", "was not found"),
        ("proteome", "blastn", "holds proteins; blastn searches nucleotides"),
        ("genome", "blastx", "holds nucleotides; blastx searches proteins"),
        ("broken", "blastn", "broken.nsq is missing"),
    ],
)
def test_an_unknown_or_unfit_database_is_an_error_that_helps(name: str, program: str, message: str) -> None:
    """What is available is named; no name is ever used as a path."""
    with pytest.raises(ValueError, match=message):
        choose_database(name, read_program({"PROGRAM": program}), SITE, SAMPLE)


def test_organisms_are_refused_where_the_database_does_not_know_them() -> None:
    """By name, and not ignored."""
    params = {"QUERY": NT, "DATABASE": "plain", "ENTREZ_QUERY": "txid9606[ORGN]"}
    with pytest.raises(ValueError, match="ENTREZ_QUERY: the sequences of database plain do not name"):
        read_put(params, SITE, SAMPLE)
    assert read_put({**params, "DATABASE": "nt"}, SITE, SAMPLE).arguments[-2:] == ("-taxids", "9606")


def test_a_range_behind_the_query_is_refused() -> None:
    """QUERY_FROM is held against the letters."""
    with pytest.raises(ValueError, match="QUERY_FROM is behind the end"):
        read_put({"QUERY": NT, "QUERY_FROM": "200"}, SITE, SAMPLE)


@pytest.mark.parametrize(
    ("params", "form"),
    [
        ({}, "html"),
        ({"FORMAT_TYPE": "XML"}, "xml"),
        ({"FORMAT_TYPE": "Text", "ALIGNMENT_VIEW": "Tabular"}, "tabular"),
        ({"FORMAT_TYPE": "JSON2_S"}, "json2_s"),
    ],
)
def test_forms_are_named_as_at_ncbi(params: dict[str, str], form: str) -> None:
    """HTML where nothing is named."""
    assert parse_page_request(params).form == form


def test_an_unknown_form_is_refused() -> None:
    """And the known ones are listed."""
    with pytest.raises(ValueError, match="FORMAT_TYPE sam is not made here; there are HTML, TEXT"):
        parse_page_request({"FORMAT_TYPE": "SAM"})


@pytest.mark.parametrize("name", ["EXPECT_LOW", "EXPECT_HIGH", "FORMAT_ENTREZ_QUERY"])
def test_a_filter_of_the_results_is_refused_not_dropped(name: str) -> None:
    """Else the page would look like an answer to another question; NCBI's words for none are let through."""
    with pytest.raises(ValueError, match=f"{name} is not available here"):
        parse_page_request({"FORMAT_TYPE": "XML", name: "1e-5"})
    assert parse_page_request({name: ""}) == parse_page_request({name: "(none)"}) == parse_page_request({})


def test_html_shows_markup_of_a_title_as_text() -> None:
    """A query's title is the caller's; it must not become part of the page."""
    reply = reply_with(parse_page_request({"FORMAT_TYPE": "HTML"}), "Query= <script>alert(1)</script>")
    assert "<script>" not in reply.body and "&lt;script&gt;" in reply.body


def test_an_empty_result_is_bold_in_html_as_at_ncbi() -> None:
    """Its markup is the one that counts as markup."""
    reply = reply_with(parse_page_request({"FORMAT_TYPE": "HTML"}), f"Query= <b>x</b>\n{NO_SIMILARITY}")
    assert "<b>No significant similarity found.</b>" in reply.body and "&lt;b&gt;x&lt;/b&gt;" in reply.body


@pytest.mark.parametrize(
    ("errors", "kept", "gone"),
    [
        (b"BLAST engine error: Error: Out of memory", "Out of memory", "engine"),
        (b"Warning: x\nBLAST Database error: no file in [/srv/data/blast::]", "no file in [", "/srv"),
        (b"bad letters ACGTACGTACGTACGT here", "bad letters", "ACGT"),
        (b"bad letters acgtacgtacgtacgt here", "bad letters", "acgt"),
        (b"Query_1 Jane Doe: failed", "failed", "Jane"),
        (b"\xff\xfe", "", "\n"),
    ],
)
def test_a_programs_error_is_told_without_sequence_title_or_path(errors: bytes, kept: str, gone: str) -> None:
    """What blast+ complains about reaches the caller, and nothing private with it."""
    text = error_message(errors, ("Jane Doe",))
    assert kept in text and gone not in text
