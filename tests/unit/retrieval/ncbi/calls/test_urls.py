"""Call URLs: what is accepted, what is refused and why, and that the grammar writes nothing that is refused."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retrieval.errors import CALL_REJECTED, NcbiError
from retrieval.ncbi.calls.urls import (
    NcbiSite,
    Searched,
    build_request,
    cache_key,
    call_regex,
    is_loopback_url,
    looks_like_call,
    parse_call_url,
    public_url,
)
from retrieval.types import NcbiCall

EUTILS = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils/"
BLAST = "https://blast.ncbi.nlm.nih.gov/blast/Blast.cgi"
SEQUENCE = "ATTCTGCCTTTAGTAATTTGATGACAGAGACTTCTTGGG"


@given(st.from_regex(call_regex(), fullmatch=True))
def test_every_text_of_the_grammar_is_accepted(text: str) -> None:
    """A call the grammar lets a model write is never refused, and is seen as a call."""
    call = parse_call_url(text)

    assert looks_like_call(text)
    assert call.endpoint in text.lower() or call.endpoint.startswith("blast_")


@pytest.mark.parametrize("endpoint", ["esearch", "esummary", "efetch", "elink", "einfo", "blast_put", "blast_get"])
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(data=st.data())
def test_each_endpoint_of_the_grammar_parses_as_itself(endpoint: str, data: st.DataObject) -> None:
    """Restricting the grammar to one endpoint gives calls of that endpoint alone."""
    text = data.draw(st.from_regex(call_regex(endpoints=[endpoint]), fullmatch=True))  # type: ignore[list-item]

    assert parse_call_url(text).endpoint == endpoint


def test_the_grammar_starts_with_the_opener() -> None:
    """The caller may strip the literal prefix to build a trigger."""
    assert call_regex().startswith("https://(")
    assert call_regex(["ACGTACGTACGT"], endpoints=["blast_put"]).startswith("https://(")


def test_the_grammar_uses_no_syntax_that_grammar_engines_lack() -> None:
    """No lookaround, no back-references, no special classes, no lazy quantifiers."""
    assert not re.search(r"\(\?|\\[1-9dDwWsSbB]|[*+?}]\?(?!\()", call_regex().replace(r"\?", ""))
    assert len(call_regex()) < 4000


@pytest.mark.parametrize(
    "call",
    [
        EUTILS + "esearch.fcgi?db=gene&retmax=5&retmode=json&sort=relevance&term=LMP10",
        EUTILS + "esearch.fcgi?db=gene&term=BRCA1[sym]+AND+Homo+sapiens[orgn]",
        EUTILS + "esearch.fcgi?db=omim&retmax=20&retmode=json&sort=relevance&term=Meesmann+corneal+dystrophy",
        EUTILS + "esearch.fcgi?db=omim&retmax=20&retmode=json&sort=relevance&term=Meesmann corneal dystrophy",
        EUTILS + "esummary.fcgi?db=snp&retmax=10&retmode=json&id=1217074595",
        EUTILS + "efetch.fcgi?db=nuccore&rettype=fasta&id=NC_000020.11",
        EUTILS + "elink.fcgi?dbfrom=gene&db=omim&id=5699",
        EUTILS + "einfo.fcgi?db=gene&retmode=json",
        BLAST + f"?CMD=Put&PROGRAM=blastn&MEGABLAST=on&DATABASE=nt&FORMAT_TYPE=XML&QUERY={SEQUENCE}&HITLIST_SIZE=5",
        BLAST + "?CMD=Get&FORMAT_TYPE=Text&RID=52V2HPJ2013",
    ],
)
def test_the_grammar_writes_the_calls_of_the_published_prompts(call: str) -> None:
    """The forms that the published demonstrations use can be written under the grammar."""
    assert re.fullmatch(call_regex(), call)
    parse_call_url(call)


def test_given_sequences_are_the_only_queries() -> None:
    """With the question's sequence given, no other QUERY can be written."""
    regex = call_regex([SEQUENCE])
    put = BLAST + "?CMD=Put&PROGRAM=blastn&DATABASE=nt&QUERY="

    assert re.fullmatch(regex, put + SEQUENCE)
    assert not re.fullmatch(regex, put + SEQUENCE + "A")
    assert not re.fullmatch(regex, put + SEQUENCE[:-1])


@pytest.mark.parametrize(
    ("searched", "terms", "others"),
    [
        (Searched("Where is the F/V (Leiden) gene?"), ["F/V", "Leiden+gene", "the F/V"], ["Leyden", "gene+Where"]),
        (Searched("growth hormone", "gene", whole=True), ["growth hormone", "growth+hormone"], ["growth", "hormone"]),
        (Searched("HLA-DRB1*15:01", whole=True), ["HLA-DRB1"], ["HLA"]),
        (Searched(), ["anything"], []),
        (Searched("word " * 41), ["anything"], []),
        (Searched(SEQUENCE * 2), ["anything"], []),
    ],
)
def test_a_search_is_for_words_of_a_given_text(searched: Searched, terms: list[str], others: list[str]) -> None:
    """A small model miscopies what it does not know; other calls can still be written."""
    regex, start = call_regex(searched=searched), EUTILS + "esearch.fcgi?db=gene&retmode=json&term="
    assert [term for term in (*terms, *others) if re.fullmatch(regex, start + term)] == terms
    in_omim = re.fullmatch(regex, start.replace("=gene", "=omim") + terms[0])
    assert (in_omim is None) == (searched.db == "gene")
    assert re.fullmatch(regex, EUTILS + "esummary.fcgi?db=snp&retmode=json&id=1217074595")


def test_a_given_sequence_with_other_characters_is_refused() -> None:
    """A sequence cannot smuggle grammar or URL syntax into the regular expression."""
    with pytest.raises(NcbiError, check=CALL_REJECTED.is_of):
        call_regex(["ACGTACGTACGT|.*"])


@pytest.mark.parametrize(
    ("text", "call"),
    [
        (
            "https://eutils.ncbi.nlm.nih.gov/entrez/eutils/esearch.fcgi?term=Type 1 diabetes&DB=Gene&retMax=5",
            NcbiCall("esearch", "gene", {"term": "Type 1 diabetes", "db": "gene", "retmax": "5"}),
        ),
        (
            EUTILS + "esearch.fcgi?db=gene&term=%CE%B2-globin%20%5Bsym%5D",
            NcbiCall("esearch", "gene", {"db": "gene", "term": "beta-globin [sym]"}),
        ),
        (
            EUTILS + "esearch.fcgi?db=gene&term=β-globin&tool=x&email=a@b.c&api_key=123",
            NcbiCall("esearch", "gene", {"db": "gene", "term": "beta-globin"}),
        ),
        (EUTILS + "esearch.fcgi?db=gene&term=A[sym", NcbiCall("esearch", "gene", {"db": "gene", "term": "A[sym]"})),
        (EUTILS + "esummary.fcgi?db=snp&id=rs12,+RS13", NcbiCall("esummary", "snp", {"db": "snp", "id": "12,13"})),
        (EUTILS + "esummary.fcgi?db=gene&id=1&id=2", NcbiCall("esummary", "gene", {"db": "gene", "id": "1,2"})),
        (
            EUTILS + "elink.fcgi?dbfrom=gene&db=snp&id=rs12",
            NcbiCall("elink", "snp", {"dbfrom": "gene", "db": "snp", "id": "rs12"}),
        ),
        (
            EUTILS + "efetch.fcgi?db=nucleotide&id=NM_000014.6",
            NcbiCall("efetch", "nuccore", {"db": "nuccore", "id": "NM_000014.6", "rettype": "fasta"}),
        ),
        (
            EUTILS + "efetch.fcgi?db=pubmed&rettype=xml&id=1",
            NcbiCall("efetch", "pubmed", {"db": "pubmed", "id": "1", "retmode": "xml"}),
        ),
        (
            EUTILS + "efetch.fcgi?db=gene&rettype=native&retmode=text&id=1",
            NcbiCall("efetch", "gene", {"db": "gene", "retmode": "text", "id": "1"}),
        ),
        (
            "https://blast.ncbi.nlm.nih.gov/Blast.cgi?query=ACGT ACGT\nACGT&cmd=put&program=BLASTN&database=NT",
            NcbiCall("blast_put", "nt", {"QUERY": "ACGTACGTACGT", "PROGRAM": "blastn", "DATABASE": "nt"}),
        ),
        (
            "https://blast.ncbi.nlm.nih.gov/blast/Blast.cgi?RID=52V2HPJ2013&CMD=GET",
            NcbiCall("blast_get", "", {"RID": "52V2HPJ2013"}),
        ),
    ],
)
def test_writing_is_read_leniently(text: str, call: NcbiCall) -> None:
    """Encoding, case, order, white space and redundant parts do not lose a call."""
    assert parse_call_url(text) == call


@pytest.mark.parametrize(
    ("text", "param"),
    [
        ("ftp://eutils.ncbi.nlm.nih.gov/entrez/eutils/einfo.fcgi", "url"),
        ("https://evil.example/entrez/eutils/einfo.fcgi", "host"),
        ("https://eutils.ncbi.nlm.nih.gov.evil.example/entrez/eutils/einfo.fcgi", "host"),
        ("https://eutils.ncbi.nlm.nih.gov@evil.example/entrez/eutils/einfo.fcgi", "host"),
        ("https://user@eutils.ncbi.nlm.nih.gov/entrez/eutils/einfo.fcgi", "host"),
        ("https://eutils.ncbi.nlm.nih.gov:22/entrez/eutils/einfo.fcgi", "host"),
        ("https://www.ncbi.nlm.nih.gov/gene/?term=LMP10", "host"),
        (EUTILS + "epost.fcgi?db=gene&id=1", "endpoint"),
        (EUTILS + "../../etc/einfo.fcgi", "endpoint"),
        (EUTILS + "einfo.fcgi/x", "endpoint"),
        (EUTILS + "blast_put.fcgi?db=gene", "endpoint"),
        ("https://blast.ncbi.nlm.nih.gov/blast/other.cgi?CMD=Put", "endpoint"),
        (BLAST + "?CMD=Delete&RID=52V2HPJ2013", "CMD"),
        (BLAST + "?CMD=Put&CMD=Get&RID=52V2HPJ2013", "CMD"),
        (BLAST + "?CMD=Get&RID=R_1_0", "RID"),
        (BLAST + "?CMD=Put&PROGRAM=blastn&DATABASE=nt&QUERY=rs1217074595", "QUERY"),
        (BLAST + f"?CMD=Put&PROGRAM=blastn&DATABASE=nt&QUERY={'A' * 2001}", "QUERY"),
        (EUTILS + "esearch.fcgi?db=sra&term=x", "db"),
        (EUTILS + "esearch.fcgi?term=x", "db"),
        (EUTILS + "esearch.fcgi?db=gene", "term"),
        (EUTILS + "esearch.fcgi?db=gene&term=", "term"),
        (EUTILS + "esearch.fcgi?db=gene&term=" + "x " * 151, "term"),
        (EUTILS + "esearch.fcgi?db=gene&term=a%00b", "term"),
        (EUTILS + "esearch.fcgi?db=gene&term=a%0Ab", "term"),
        (EUTILS + "esearch.fcgi?db=gene&term=<script>", "term"),
        (EUTILS + "esearch.fcgi?db=nuccore&term=" + "ACGT" * 20, "term"),
        (EUTILS + "esearch.fcgi?db=gene&term=%FF", "url"),
        (EUTILS + "esearch.fcgi?db=gene&term=A&B", "url"),
        (EUTILS + "esearch.fcgi?db=gene&term=A&term=B", "term"),
        (EUTILS + "esearch.fcgi?db=gene&term=A&WebEnv=x", "webenv"),
        (EUTILS + "esearch.fcgi?db=gene&term=A&retmax=100000", "retmax"),
        (EUTILS + "esearch.fcgi?db=gene&term=A&retstart=second", "retstart"),
        (EUTILS + "esummary.fcgi?db=gene&id=", "id"),
        (EUTILS + "esummary.fcgi?db=gene&id=" + ",".join(["1"] * 51), "id"),
        (EUTILS + "esummary.fcgi?db=gene&" + "&".join(["id=1"] * 51), "id"),
        (EUTILS + "esummary.fcgi?db=gene&id=" + "ACGT" * 20, "id"),
        (EUTILS + "esearch.fcgi?db=gene&term=" + "x" * 9000, "url"),
    ],
)
def test_a_refusal_names_the_part(text: str, param: str) -> None:
    """Everything outside the table is refused, and the model is told which part to change."""
    with pytest.raises(NcbiError, check=CALL_REJECTED.is_of) as refused:
        parse_call_url(text)

    assert refused.value.param == param
    assert len(refused.value.message) > 10


@given(st.text(max_size=120).map(lambda s: EUTILS + "esearch.fcgi?db=gene&term=" + s) | st.text(max_size=200))
def test_any_text_is_either_a_checked_call_or_refused(text: str) -> None:
    """Hostile text raises nothing but CALL_REJECTED, and what passes has only known parameters."""
    try:
        call = parse_call_url(text)
    except NcbiError:
        return

    assert set(call.params) <= {"db", "term", "retmax", "retmode", "sort", "retstart", "rettype", "field", "datetype",
                                "reldate", "mindate", "maxdate", "idtype"}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (EUTILS + "esearch.fcgi?db=gene&term=x", True),
        ("HTTPS://EUTILS.NCBI.NLM.NIH.GOV/x", True),
        ("https://www.ncbi.nlm.nih.gov/gene/5699", True),
        ("https://example.org/?q=ncbi.nlm.nih.gov/", False),
        ("https://evilncbi.nlm.nih.gov/", False),
        ("see https://eutils.ncbi.nlm.nih.gov/", False),
        (EUTILS + "esearch.fcgi?db=gene&term=x\n\nQuestion: y", False),
        ("G", False),
        ("", False),
    ],
)
def test_only_an_ncbi_url_looks_like_a_call(text: str, expected: bool) -> None:
    """A wrong NCBI URL is a call attempt that gets an error; anything else is prose."""
    assert looks_like_call(text) is expected


SITE = NcbiSite(email="a@b.example", api_key="secret-key")


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60))
def test_a_term_arrives_as_it_was(term: str) -> None:
    """Any character survives the way into the URL, and none of them starts another parameter."""
    call = NcbiCall("esearch", "gene", {"db": "gene", "term": term})

    query = dict(parse_qsl(urlsplit(build_request(call, SITE).url).query, keep_blank_values=True))

    assert query == {
        "db": "gene", "term": term, "retmode": "json", "tool": "arrowhead", "email": "a@b.example",
        "api_key": "secret-key",
    }  # fmt: skip


def test_blast_gets_no_eutils_key() -> None:
    """The key belongs to E-utilities; BLAST gets tool and e-mail, and its command."""
    call = NcbiCall("blast_put", "nt", {"PROGRAM": "blastn", "DATABASE": "nt", "QUERY": "ACGTACGTAC"})

    url = build_request(call, SITE).url

    assert url.startswith("https://blast.ncbi.nlm.nih.gov/blast/Blast.cgi?CMD=Put&PROGRAM=blastn&")
    assert "secret-key" not in url and "tool=arrowhead" in url


def test_nothing_shown_holds_the_key() -> None:
    """The public URL and every repr leave identity out."""
    call = NcbiCall("esearch", "gene", {"db": "gene", "term": "x"})

    shown = public_url(call, SITE) + repr(SITE) + repr(build_request(call, SITE))

    assert "secret-key" not in shown and "email=" not in shown


@pytest.mark.parametrize(
    ("params", "same"),
    [
        ({"term": "LMP10", "db": "gene"}, True),
        ({"db": "gene", "term": "LMP10", "retmode": "json"}, True),
        ({"db": "gene", "term": "lmp10"}, False),
        ({"db": "gene", "term": "LMP10", "retmode": "xml"}, False),
        ({"db": "gene", "term": "LMP10", "retmax": "5"}, False),
    ],
)
def test_the_key_of_a_call_is_what_decides_its_reply(params: dict[str, str], same: bool) -> None:
    """Parameter order and defaults do not matter to the cache, everything NCBI looks at does."""
    first = NcbiCall("esearch", "gene", {"db": "gene", "term": "LMP10"})

    assert (cache_key(first, SITE) == cache_key(NcbiCall("esearch", "gene", params), SITE)) is same
    assert cache_key(first, SITE) == cache_key(first, NcbiSite())
    assert cache_key(first, SITE) != cache_key(first, NcbiSite(eutils_url="http://127.0.0.1/entrez/eutils"))


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("http://127.0.0.1:1/x", True),
        ("http://[::1]/x", True),
        ("http://localhost/x", True),
        ("http://10.0.0.1/x", False),
        ("http://localhost.example/x", False),
        ("http://127.0.0.1@ncbi.example/", False),
        ("", False),
    ],
)
def test_loopback_is_judged_by_the_host(url: str, loopback: bool) -> None:
    """Only this machine's own names count, whatever else the URL holds."""
    assert is_loopback_url(url) is loopback
