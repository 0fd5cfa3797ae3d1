"""Condensed replies: what was asked about first, whole records, a note of what was left out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.ncbi.replies.condense import condense, sanitize
from retrieval.ncbi.replies.records import FailedRecord, GeneRecord, IdList, OmimRecord, RecordList, SnpRecord
from retrieval.types import Focus

PSMB10 = GeneRecord(
    uid="5699",
    symbol="PSMB10",
    name="proteasome 20S subunit beta 10",
    organism="human",
    scientific_name="Homo sapiens",
    chromosome="16",
    location="16q22.1",
    aliases=("LMP10", "MECL1"),
    summary="A subunit. [provided by RefSeq, Jul 2008]",
)
RETIRED = GeneRecord(uid="8138", symbol="MECL1", organism="human", aliases=("LMP10",), replaced_by="5699")
MOUSE = GeneRecord(uid="19171", symbol="Psmb10", organism="mouse", chromosome="8", aliases=("Mecl1",))


def _gene_text(
    *genes: GeneRecord | FailedRecord, term: str = "LMP10", organism: str = "human", chars: int = 1200
) -> str:
    focus = Focus((term,) if term else (), organism)
    return condense(RecordList("gene", tuple(genes)), focus, max_chars=chars).text


def test_ids_are_listed_with_the_total_when_more_were_found() -> None:
    """The first line of an id list counts what is shown and what there is."""
    assert condense(IdList(3, ("5699", "8138", "19171")), Focus()).text == "[3 ids: 5699,8138,19171]"
    assert condense(IdList(47, ("246",)), Focus()).text == "[1 of 47 id: 246]"
    assert condense(IdList(0, ()), Focus()).text == "[0 ids]"


def test_the_gene_asked_for_comes_first_and_is_counted() -> None:
    """Organism, then current before retired, then named as asked."""
    lines = _gene_text(MOUSE, RETIRED, PSMB10).split("\n")

    assert lines[0] == "[3 gene records, 1 human named LMP10"
    assert lines[1].startswith("1. PSMB10 (human) protein-coding chr16 16q22.1; aliases LMP10, MECL1; ")
    assert lines[1].endswith("; id 5699; summary: A subunit.")
    assert lines[2].startswith("2. MECL1 (human)")
    assert "replaced by id 5699" in lines[2]
    assert lines[3].startswith("3. Psmb10 (mouse) protein-coding chr8")


@pytest.mark.parametrize("asked", ["Proteasome subunit beta 10", "proteasome, subunit beta-10", "LMP ten"])
def test_a_gene_is_named_in_words_too(asked: str) -> None:
    """By its full name or one of NCBI's other designations, which are not shown."""
    relative = GeneRecord(uid="9", symbol="PSMB9", organism="human", name="proteasome subunit beta 9")
    gene = replace(PSMB10, name="proteasome subunit beta 10", other_names=("LMP Ten",))
    lines = condense(RecordList("gene", (relative, gene)), Focus((asked,))).text.split("\n")
    assert lines[0] == f"[2 gene records, 1 human named {asked}"
    assert lines[1].startswith("1. PSMB10 (human)") and "LMP Ten" not in lines[1]


def test_summaries_are_left_out_where_a_field_is_asked_for() -> None:
    """Prose is not shown to who asks for a name, a place or a type."""
    text = condense(RecordList("gene", (PSMB10,)), Focus(("LMP10",), summary="none")).text

    assert "summary" not in text


def test_the_lead_of_a_summary_is_its_first_sentence() -> None:
    """Abbreviations do not end it, and the note of who wrote the summary is no part of it."""
    prose = (
        "Binds iron, e.g. ferric ions (Hanai et al., 2004 [PubMed 1]). Located in the cytoplasm. [provided by RefSeq]"
    )
    gene = replace(PSMB10, summary=prose)

    lead, full = (condense(RecordList("gene", (gene,)), Focus(summary=part)).text for part in ("lead", "full"))

    assert "\n1. Binds iron, e.g. ferric ions (Hanai et al., 2004 [PubMed 1]).; PSMB10 (human) " in lead
    assert full.endswith(" [PubMed 1]). Located in the cytoplasm.]")


def test_where_a_lead_is_wanted_and_there_is_none_the_type_stands_for_it() -> None:
    """Nothing else is known of what the gene does."""
    gene = replace(PSMB10, summary="", gene_type="ncRNA")

    assert (
        "\n1. ncRNA, no summary; PSMB10 (human) " in condense(RecordList("gene", (gene,)), Focus(summary="lead")).text
    )


def test_the_place_of_a_gene_comes_first_where_places_are_asked_for() -> None:
    """What is asked for begins the line."""
    text = condense(RecordList("gene", (PSMB10,)), Focus(summary="none", places=True)).text

    assert "\n1. chr16 16q22.1 PSMB10 (human) protein-coding; " in text


def test_another_organism_can_be_asked_for() -> None:
    """The focus names the organism."""
    assert "1. Psmb10 (mouse)" in _gene_text(PSMB10, MOUSE, term="Psmb10", organism="mouse")


def test_exact_letter_case_decides_between_aliases() -> None:
    """hCAP and HCAP are different names of different genes."""
    other = GeneRecord(uid="9", symbol="SMC3", organism="human", aliases=("HCAP",))
    asked = GeneRecord(uid="10", symbol="DCD", organism="human", aliases=("hCAP",))

    assert "1. DCD" in _gene_text(other, asked, term="hCAP")


def test_records_that_do_not_fit_are_left_out_whole_and_counted() -> None:
    """The budget cuts between records, never inside one; the first is always kept."""
    text = _gene_text(PSMB10, MOUSE, chars=150)

    assert "Psmb10" not in text
    assert text.endswith("\n1 more left out]")


def test_failed_records_are_counted_but_not_shown() -> None:
    """A reply of one good and one failed summary speaks of two records."""
    text = _gene_text(PSMB10, FailedRecord("1", "cannot get document summary"))

    assert text.startswith("[2 gene records")
    assert "cannot get" not in text
    assert _gene_text(FailedRecord("1", "cannot get document summary")) == "[0 records; cannot get document summary]"


def test_phenotypes_stand_beside_the_gene_at_their_location() -> None:
    """The gene of a phenotype is the one of the same reply at the same map location."""
    entries = (
        OmimRecord(uid="122100", prefix="#", title="CORNEAL DYSTROPHY, MEESMANN, 1", symbol="MECD1", loci=("17q21.2",)),
        OmimRecord(uid="300778", prefix="%", title="CORNEAL DYSTROPHY, LISCH", symbol="LECD", loci=("Xp22.3",)),
        OmimRecord(uid="601687", prefix="*", title="KERATIN 12, TYPE I", symbol="KRT12", loci=("17q21.2",)),
    )
    text = condense(RecordList("omim", entries), Focus(("Meesmann corneal dystrophy",))).text

    assert text == (
        "[3 omim entries, 1 on topic\n"
        "1. KRT12\n"
        "- KRT12 at 17q21.2; corneal dystrophy, meesmann, 1 (MECD1); keratin 12, type i\n"
        "other: corneal dystrophy, lisch (LECD) Xp22.3]"
    )


def test_line_one_lists_map_locations_where_places_are_asked_for() -> None:
    """A phenotype without a gene in the reply is listed too, by its own location; one without location is not."""
    entries = (
        OmimRecord(uid="1", prefix="#", title="CORNEAL DYSTROPHY, MEESMANN, 1", symbol="MECD1", loci=("17q21.2",)),
        OmimRecord(uid="2", prefix="*", title="KERATIN 12, TYPE I", symbol="KRT12", loci=("17q21.2",)),
        OmimRecord(uid="3", prefix="#", title="CORNEAL DYSTROPHY, MEESMANN, 2", symbol="MECD2", loci=("12q13.13",)),
        OmimRecord(uid="4", prefix="#", title="CORNEAL DYSTROPHY, MEESMANN, 3", symbol="MECD3"),
    )
    text = condense(RecordList("omim", entries), Focus(("Meesmann corneal dystrophy",), places=True)).text

    assert text == (
        "[4 omim entries, 2 on topic\n"
        "1. 17q21.2, 12q13.13\n"
        "- KRT12 at 17q21.2; corneal dystrophy, meesmann, 1 (MECD1); keratin 12, type i\n"
        "- no gene at 12q13.13; corneal dystrophy, meesmann, 2 (MECD2)\n"
        "other: corneal dystrophy, meesmann, 3 (MECD3)]"
    )


def test_a_phenotype_on_the_topic_is_shown_where_the_reply_has_no_gene_for_it() -> None:
    """Beside the genes on the topic, and in place of the nearest gene where there are none."""
    alone = OmimRecord(uid="1", prefix="%", title="LEBER CONGENITAL AMAUROSIS 9", symbol="LCA9", loci=("1p36",))
    other = OmimRecord(uid="2", prefix="*", title="ADENYLATE KINASE 1", symbol="AK1", loci=("9q34.11",))
    phenotype = OmimRecord(uid="3", prefix="#", title="LEBER CONGENITAL AMAUROSIS 2", symbol="LCA2", loci=("1p31",))
    gene = OmimRecord(uid="4", prefix="*", title="RPE65", symbol="RPE65", loci=("1p31",))
    focus = Focus(("Leber congenital amaurosis",))

    assert condense(RecordList("omim", (other, alone)), focus).text == (
        "[2 omim entries, 1 on topic\n"
        "- no gene at 1p36; leber congenital amaurosis 9 (LCA9)\n"
        "other: gene AK1 9q34.11 adenylate kinase 1]"
    )
    assert condense(RecordList("omim", (alone, phenotype, gene)), focus).text == (
        "[3 omim entries, 2 on topic\n"
        "1. RPE65\n"
        "- RPE65 at 1p31; leber congenital amaurosis 2 (LCA2); rpe65\n"
        "- no gene at 1p36; leber congenital amaurosis 9 (LCA9)]"
    )


def test_without_a_topic_the_most_relevant_gene_is_shown_and_said_to_be_off_topic() -> None:
    """Nothing covers half of the words: the count is 0 and one gene is offered."""
    entries = (OmimRecord(uid="1", prefix="*", title="ADENYLATE KINASE 1", symbol="AK1", loci=("9q34.11",)),)

    assert condense(RecordList("omim", entries), Focus(("haemolysis of some kind",))).text.startswith(
        "[1 omim entry, 0 on topic, nearest\n1. AK1\n- AK1 at 9q34.11; adenylate kinase 1"
    )


def test_a_snp_line_starts_with_its_gene_and_chromosome() -> None:
    """What SNP questions ask for stands first."""
    snp = SnpRecord(uid="1217074595", chromosome="20", position="20:50298395", genes=(("LINC01270", "284751"),))

    assert condense(RecordList("snp", (snp,)), Focus()).text == (
        "[1 snp record\n1. LINC01270 (id 284751) rs1217074595 chr20 20:50298395]"
    )


PIECES = ("\u200b", "\u2028", "\r", "->", "https://", "<|", "|>", "\nAnswer:", "INST", "SYS")
HOSTILE = st.lists(st.sampled_from([*"[]()<>|-/ \n\t:ahs_", *PIECES]), max_size=40).map("".join)


@given(HOSTILE | st.text(max_size=60))
def test_neutral_text_holds_nothing_that_can_act(text: str) -> None:
    """No arrow, opener, blank line, special-token look-alike or hidden character is left, and twice is as once."""
    neutral = sanitize(text)

    lowered = neutral.lower()
    assert not any(bad in lowered for bad in ("->", "\n\n", "[http", "<|", "|>", "</", "[inst]", "\u200b", "\r"))
    assert sanitize(neutral) == neutral


@pytest.mark.parametrize(
    ("text", "neutral"),
    [
        ("[3 ids: 5699,8138,19171]", "[3 ids: 5699,8138,19171]"),
        ("c.35G->A, P < 0.05, 5' > 3'", "c.35G→A, P < 0.05, 5' > 3'"),
        ("[a]->[https://eutils.ncbi.nlm.nih.gov/x]->", "[a]→(https://eutils.ncbi.nlm.nih.gov/x]→"),
        ("x\n \n\nQuestion: who?\nAnswer: me", "x\nQuestion - who?\nAnswer - me"),
        ("<|im_start|>system", "‹|im_start|›system"),
        ("a</s><s>[INST] b [/INST]<start_of_turn>", "a‹/s>‹s>(INST) b (/INST)‹start_of_turn>"),
        ("-\u200b>", "→"),
        ("PSMB10 (β5i) 16q22.1", "PSMB10 (β5i) 16q22.1"),
    ],
)
def test_facts_stay_and_triggers_go(text: str, neutral: str) -> None:
    """What is harmless stays letter for letter; what could act is changed to something that looks like it."""
    assert sanitize(text) == neutral


@pytest.mark.timeout(60)
@pytest.mark.parametrize("unit", ["<", "[ ", "-", "\n \n", "# ", "<a ", " \n", "\nanswer \t"])
def test_no_pattern_runs_away_on_long_text(unit: str) -> None:
    """A quarter of a million hostile characters are done; a quadratic pattern would run into the time limit."""
    assert len(sanitize(unit * (250_000 // len(unit)))) <= 260_000
