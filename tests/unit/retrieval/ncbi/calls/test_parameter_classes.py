"""What a call carries: each class by example, and that no sequence, place or prose passes for less than it is."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.ncbi.calls.parameter_classes import (
    CLASSES,
    ParamClass,
    classes_of,
    is_organism,
    organism_in,
    species_of_title,
)
from retrieval.types import Endpoint, NcbiCall


class _Diseases:
    """A vocabulary of two entries."""

    def contains(self, phrase: str) -> bool:
        return phrase.lower() in {"breast cancer", "asthma"}


def _term(term: str, db: str = "gene", **more: str) -> tuple[ParamClass, ...]:
    return classes_of(NcbiCall("esearch", db, {"db": db, "term": term} | more))


def _call(endpoint: Endpoint, **params: str) -> tuple[ParamClass, ...]:
    return classes_of(NcbiCall(endpoint, params.get("db", ""), params))


@pytest.mark.parametrize(
    "term",
    [
        "LMP10", "BRCA1[sym]", "Kit[gene]", "C1orf127", "Trp53", "HLA-DRB1", "LOC100506321", "RP11-255A11.4",
        "FLJ20209", "brca1", "BRCA*", '"BRCA1"', "(BRCA1)",
    ],
)  # fmt: skip
def test_a_symbol_is_one_word_written_as_symbols_are(term: str) -> None:
    """In capitals or with a digit; in a field for symbols, however it is written."""
    assert _term(term) == ("symbol",)


@pytest.mark.parametrize(
    ("term", "db"),
    [
        ("rs429358", "snp"), ("429358[rs]", "snp"), ("5699[uid]", "gene"), ("5699", "gene"), ("12345678", "pubmed"),
        ("NM_000059.4", "nuccore"), ("PMC1234567", "pubmed"), ("ENSG00000139618", "gene"), ("CP034493.1", "nuccore"),
        ("HGNC:1100", "gene"), ("txid9606[orgn]", "gene"), ("NCT01234567", "pubmed"), ("VCV000012345", "clinvar"),
    ],
)  # fmt: skip
def test_an_id_is_an_accession_or_a_number_of_the_database(term: str, db: str) -> None:
    """By its prefix, by its field, or as the bare number of a database that numbers its records."""
    assert _term(term, db) == ("id",)


@pytest.mark.parametrize(
    "term", ["human[orgn]", "Homo sapiens[organism]", "human", "7[chr]", "review[pt]", "alive[prop]"]
)
def test_a_term_is_a_word_of_a_closed_list(term: str) -> None:
    """Organisms, chromosomes and Entrez's own filters, each in its field."""
    assert _term(term) == ("term",)


def test_a_vocabulary_makes_a_phrase_a_term() -> None:
    """The whole phrase has to be an entry; one word more, and it is free text."""
    for term, expected in (("breast cancer", "term"), ("Asthma[mesh]", "term"), ("breast cancer stage", "free_text")):
        call = NcbiCall("esearch", "pubmed", {"db": "pubmed", "term": term})
        assert classes_of(call, _Diseases()) == (expected,)
    assert _term("breast cancer", "pubmed") == ("free_text",)


@pytest.mark.parametrize(
    "term",
    [
        "breast cancer", "lymphoma", "Smith J[au]", "Smith", "john smith[gene]", "[john smith]", "x[unknown tag]",
        "patient with cough", "BRCA1 TP53", "a[pdat]", "open [bracket", 'open "quote', "mueller@example.org",
        "lymphoma[dis]", "Straße",
    ],
)  # fmt: skip
def test_everything_else_is_free_text(term: str) -> None:
    """Two words, a name, an unknown field, a bracket without its partner."""
    assert "free_text" in _term(term, "pubmed")


@pytest.mark.parametrize(
    ("term", "db"),
    [
        ("chr1:123-456", "gene"), ("CHR7 117559590", "gene"), ("16:89919709", "snp"), ("1-12345-A-G", "snp"),
        ("NM_000492.3:c.350G>A", "clinvar"), ("c.68-7T>A", "clinvar"), ("p.Arg117His", "clinvar"), ("V600E", "gene"),
        ("C677T", "gene"), ("117559590", "snp"), ("7[chr] AND 117559590[chrpos]", "snp"), ("17q21.31", "gene"),
        ("7[chr] AND 117559590", "gene"), ("1000000:2000000[chrpos]", "snp"), ("7:55191822-55191823[bp]", "snp"),
        ("117,559,590-117,559,600", "gene"), ("chromosome X position 1,000,000", "gene"),
        ("NC_000007.14:117559590:G:A", "snp"), ("[chr1:123-456]", "gene"),
    ],
)  # fmt: skip
def test_places_and_variants_are_coordinates(term: str, db: str) -> None:
    """Positions, ranges, bands, and changes named by their position, in any notation."""
    assert "coordinates" in _term(term, db)


@pytest.mark.parametrize(
    "term",
    ["ACGT" * 5, "acgtacgtac gtacgtacgt", "1 acgtacgtac gtacgtacgt 21", "gene ACGTACGTACGTACGTACGT", "ACGTACGTACGT",
     "MKTAYIAKQRQISFVKSHFSRQ", "ＡＣＧＴ" * 5],
)  # fmt: skip
def test_bases_and_residues_are_a_sequence(term: str) -> None:
    """In blocks, with numbers between, among words, in full-width letters."""
    assert "sequence" in _term(term)


def test_a_call_has_the_classes_of_all_its_values() -> None:
    """Least telling first; formats, counts and dates carry nothing."""
    term = "LMP10[sym] AND human[orgn] AND breast cancer AND 2019:2024[pdat]"

    assert _term(term, retmax="5", retmode="json", sort="relevance", mindate="2020") == ("symbol", "term", "free_text")
    assert _term("2019:2024[pdat]") == ()
    assert _term("LMP10", field="sym") == ("symbol",)
    assert _term("SMITH", field="author") == ("free_text",)
    assert _term("1000:2000", field="chrpos") == ("coordinates",)


def test_ids_are_judged_one_by_one() -> None:
    """A list has the classes of its members; a stretch of a record is a place."""
    assert _call("esummary", db="gene", id="5699,8138") == ("id",)
    assert _call("esummary", db="gene", id="5699,BRCA1,smith") == ("id", "symbol", "free_text")
    assert _call("efetch", db="nuccore", id="NC_000007.14") == ("id",)
    assert _call("efetch", db="nuccore", id="NC_000007.14", seq_start="1", seq_stop="9") == ("id", "coordinates")
    assert _call("efetch", db="nuccore", id="NC_000007.14:117559590-117559600") == ("coordinates",)
    assert _call("efetch", db="nuccore", id="ACGT" * 6) == ("sequence",)


def test_blast_and_links() -> None:
    """A query is a sequence, a request id is an id; a link's name is one of NCBI's, or text."""
    assert _call("blast_put", QUERY="ACGTACGTACGT", DATABASE="nt", PROGRAM="blastn") == ("sequence",)
    assert _call("blast_put", QUERY="ACGTACGTACGT", ENTREZ_QUERY="breast cancer") == ("free_text", "sequence")
    assert _call("blast_get", RID="ABCD1234016") == ("id",)
    assert _call("elink", dbfrom="gene", db="omim", id="5699", linkname="gene_omim") == ("id",)
    assert _call("elink", dbfrom="gene", db="omim", id="5699", linkname="john_smith") == ("id", "free_text")
    assert _call("elink", dbfrom="gene", db="pubmed", id="5699", term="lung cancer") == ("id", "free_text")
    assert _call("einfo", db="gene") == _call("einfo") == ()


_text = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=40)
_bases = st.text("ACGTUNacgtun", min_size=20, max_size=60)
_number = st.integers(1, 300_000_000)
_chromosome = st.sampled_from([*map(str, range(1, 23)), "X", "Y", "MT"])
_places = st.one_of(
    st.builds("chr{}:{}-{}".format, _chromosome, _number, _number),
    st.builds("Chr{}:{:,}-{:,}".format, _chromosome, _number, _number),
    st.builds("NM_{:06d}.{}:c.{}{}>{}".format, st.integers(1, 999_999), st.integers(1, 9), _number,
              st.sampled_from("ACGT"), st.sampled_from("ACGT")),
    st.builds("NC_{:06d}.{}:g.{}del".format, st.integers(1, 24), st.integers(1, 14), _number),
    st.builds("{}[chrpos]".format, _number),
    st.builds("{}:{}[chrpos]".format, _number, _number),
    st.builds("{}[chr] AND {}[pos]".format, _chromosome, _number),
)  # fmt: skip
_apart = st.sampled_from([" ", " AND ", "; ", "(", '"'])


@given(
    before=_text,
    bases=_bases,
    after=_text,
    name=st.sampled_from(["term", "ENTREZ_QUERY", "id", "field", "RID", "WebEnv"]),
)
def test_no_sequence_passes_for_less(before: str, bases: str, after: str, name: str) -> None:
    """20 bases in a row are a sequence in whatever stands around them, and in whatever parameter."""
    value = f"{before}{bases}{after}".replace(",", " ") if name == "id" else f"{before}{bases}{after}"

    assert CLASSES[-1] == "sequence"
    assert "sequence" in classes_of(NcbiCall("esearch", "gene", {name: value}))


@given(before=_text, place=_places, after=_text, apart=_apart)
def test_no_place_passes_for_less(before: str, place: str, after: str, apart: str) -> None:
    """A position between any other words is a place, or more than that."""
    found = classes_of(NcbiCall("esearch", "pubmed", {"term": f"{before}{apart}{place} {after}"}))

    assert {"coordinates", "sequence"} & set(found)


@pytest.mark.parametrize(
    "text", ["\u284a\u286f\u2868\u286e", "\U000e004a\U000e006f", ".--- --- .... -.", "!!! ???", "\u200b\u200c"]
)
@pytest.mark.parametrize("tag", ["", "[sym]", "[mesh]"])
def test_text_without_letters_is_free_text(text: str, tag: str) -> None:
    """Braille, tag characters and punctuation can be read as well; no class would mean that there is nothing."""
    assert _term(text + tag) == ("free_text",)


def test_a_request_id_has_the_shape_of_one() -> None:
    """Words in its place are text."""
    assert _call("blast_get", RID="ABCDEFGH012") == ("id",)
    assert (
        _call("blast_get", RID="JOHN_SMITH_HAS_HIV") == _call("blast_get", RID="chr17-43044295-A-G") == ("free_text",)
    )


_words = st.lists(st.text(string.ascii_letters + string.digits + "-.", min_size=1, max_size=12), min_size=2, max_size=6)
_tags = st.sampled_from(["", "[tiab]", "[sym]", "[mesh]", "[orgn]", "[uid]", "[All Fields]"])


@given(words=_words, quoted=st.booleans(), tag=_tags)
def test_no_phrase_passes_for_less_than_free_text(words: list[str], quoted: bool, tag: str) -> None:
    """Two or more words that no vocabulary knows, in any field."""
    phrase = " ".join(words)
    if {"AND", "OR", "NOT"} & set(words) or is_organism(phrase) or not any(map(str.isalnum, "".join(words[:1]))):
        return
    found = classes_of(NcbiCall("esearch", "gene", {"term": (f'"{phrase}"' if quoted else phrase) + tag}))

    assert {"free_text", "coordinates", "sequence"} & set(found)


def test_species_are_recognised_in_titles_and_questions() -> None:
    """Definition lines start with the species; questions name it anywhere."""
    assert species_of_title("PREDICTED: Mus musculus actin (Acta1), mRNA") == "mouse"
    assert species_of_title("Human chromosome 14 DNA sequence BAC") == "human"
    assert species_of_title("Eukaryotic synthetic construct chromosome 15") == ""
    assert organism_in("What is the official symbol of Lmp10 in mouse?") == "mouse"
    assert organism_in("Which gene of Danio rerio is it?") == "zebrafish"
    assert organism_in("What is the official symbol of LMP10?") == ""
    assert organism_in("What does the gene CAT do?") == ""
    assert organism_in("WHERE IS ACTN3 IN THE MOUSE?") == "mouse"


def test_a_webenv_is_an_id_in_the_form_of_ncbi_alone() -> None:
    assert _call("efetch", query_key="1", WebEnv="MCID_67f0a2b1c4d5e6f708192a3b") == ("id",)
    assert _call("efetch", query_key="1", WebEnv="MCID_john_smith_has_hiv") == ("free_text",)
