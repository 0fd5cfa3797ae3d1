"""Every call that the table offers has a reader for its reply; every other is refused with what to write instead."""

from __future__ import annotations

import itertools

import pytest
from gateway_records import call as gateway_call

from retrieval.errors import CALL_REJECTED, NcbiError
from retrieval.gateway.store.reader import GatewayStore
from retrieval.ncbi.calls.table import CALLS, DATABASES, EFETCH_FORMS, WHOLE_RETTYPES
from retrieval.ncbi.calls.urls import parse_call_url
from retrieval.ncbi.replies.condense import condense
from retrieval.ncbi.replies.parse import parse_reply
from retrieval.ncbi.replies.records import FailedRecord, IdList, ParsedReply, RecordList
from retrieval.types import Endpoint, Focus, RawReply

EUTILS = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils/"
IDS = {
    "gene": "7157", "snp": "28934578", "omim": "151623", "clinvar": "12374", "pubmed": "10000001",
    "nuccore": "NG_017013.2", "taxonomy": "9606", "medgen": "9000",
}  # fmt: skip
# The gateway has no proteins; their forms are those of nuccore, and read from recorded replies.
LOCAL = tuple(db for db in DATABASES if db in IDS)


def url(endpoint: str, **params: str) -> str:
    return f"{EUTILS}{endpoint}.fcgi?" + "&".join(f"{name}={value}" for name, value in params.items() if value)


def answered(store: GatewayStore, endpoint: Endpoint, **params: str) -> ParsedReply:
    """The reply of the gateway to a call as it is sent, read."""
    call = parse_call_url(url(endpoint, **params))
    reply = gateway_call(store, endpoint, **call.params)
    assert reply.status == 200, reply.body[:200]
    parsed = parse_reply(call, RawReply(200, reply.content_type, reply.body, len(reply.body)))
    assert condense(parsed, Focus()).text.startswith("[")
    return parsed


def choices(endpoint: Endpoint, name: str) -> tuple[str, ...]:
    return ("", *next(param.choices for param in CALLS[endpoint] if param.name == name))


FETCHED = [
    (db, rettype, retmode) for db in LOCAL for rettype, retmodes in EFETCH_FORMS[db].items() for retmode in retmodes
]


@pytest.mark.parametrize(("db", "rettype", "retmode"), FETCHED)
def test_every_form_of_efetch_that_is_offered_is_read(store: GatewayStore, db: str, rettype: str, retmode: str) -> None:
    """A record with the id that was asked for, or that id in a list; never an error."""
    parsed = answered(store, "efetch", db=db, rettype=rettype, retmode=retmode, id=IDS[db])

    if rettype in ("uilist", "acc") and isinstance(parsed, IdList):
        assert [uid.split(":")[0] for uid in parsed.ids] == [IDS[db]]
        return
    assert isinstance(parsed, RecordList)
    (record,) = parsed.records
    assert not isinstance(record, FailedRecord)
    assert IDS[db] in getattr(record, "uid", "") + getattr(record, "title", "")


EVERY_FORM = list(itertools.product(DATABASES, choices("efetch", "rettype"), choices("efetch", "retmode")))


def test_every_other_form_of_efetch_is_refused_with_the_forms_that_are_read() -> None:
    """Before it is sent; the text has something that is allowed, and a form is never changed to another one."""
    refused = 0
    for db, rettype, retmode in EVERY_FORM:
        forms = EFETCH_FORMS[db]
        try:
            sent = parse_call_url(url("efetch", db=db, rettype=rettype, retmode=retmode, id="1")).params
        except NcbiError as error:
            refused += 1
            assert error.param in ("rettype", "retmode")
            assert "write" in error.message and db in error.message
            continue
        assert sent.get("retmode", "") in forms[sent.get("rettype", "")]
        assert sent.get("rettype", "") in ((rettype,) if rettype in forms else ("", next(iter(forms))))
        assert rettype in forms or rettype in ("", *WHOLE_RETTYPES)
    assert refused > len(EVERY_FORM) // 3


@pytest.mark.parametrize(
    "written", ["retmode=asn.1", "rettype=vcv", "rettype=gene_table", "rettype=native&retmode=asn.1", "rettype=flt"]
)
def test_forms_without_a_reader_are_no_choice(written: str) -> None:
    """ASN.1, the exons of a gene and ClinVar's own XML: the refusal lists the choices there are."""
    with pytest.raises(NcbiError, match="must be one of", check=CALL_REJECTED.is_of):
        parse_call_url(f"{EUTILS}efetch.fcgi?db=gene&{written}&id=1")


@pytest.mark.parametrize("db", LOCAL)
@pytest.mark.parametrize("retmode", choices("esearch", "retmode"))
@pytest.mark.parametrize("rettype", choices("esearch", "rettype"))
def test_every_form_of_esearch_is_read(store: GatewayStore, db: str, retmode: str, rettype: str) -> None:
    """A count has no ids and is not empty."""
    term = "NG_017013.2" if db == "nuccore" else "Homo+sapiens" if db == "taxonomy" else IDS[db]
    parsed = answered(store, "esearch", db=db, retmode=retmode, rettype=rettype, term=term)

    assert isinstance(parsed, IdList) and parsed.count
    assert bool(parsed.ids) is (rettype != "count")
    condensed = condense(parsed, Focus())
    assert not condensed.empty
    if rettype == "count":
        assert condensed.text == f"[{parsed.count} record{'' if parsed.count == 1 else 's'} found]"


@pytest.mark.parametrize("db", LOCAL)
@pytest.mark.parametrize("retmode", choices("esummary", "retmode"))
@pytest.mark.parametrize("version", ["", "2.0"])
def test_every_form_of_esummary_is_read(store: GatewayStore, db: str, retmode: str, version: str) -> None:
    """In JSON and both versions of XML."""
    parsed = answered(store, "esummary", db=db, retmode=retmode, version=version, id=IDS[db])

    assert isinstance(parsed, RecordList)
    assert len(parsed.records) == 1 and not isinstance(parsed.records[0], FailedRecord)


@pytest.mark.parametrize("retmode", choices("elink", "retmode"))
@pytest.mark.parametrize(
    ("cmd", "text"),
    [
        ("", "[2 ids: 10000001,10000002]"),
        ("neighbor", "[2 ids: 10000001,10000002]"),
        ("neighbor_score", "[2 ids: 10000001,10000002]"),
        (
            "acheck",
            "[1 id checked\n1. omim gene_omim, snp gene_snp, pubmed gene_pubmed, clinvar gene_clinvar; id 7157]",
        ),
        ("ncheck", "[1 id checked\n1. has neighbors: N; id 7157]"),
    ],
)
def test_every_command_of_elink_is_read(store: GatewayStore, retmode: str, cmd: str, text: str) -> None:
    """Links as ids; of a check, what it says of each id."""
    assert cmd in choices("elink", "cmd")
    parsed = answered(store, "elink", dbfrom="gene", db="pubmed", cmd=cmd, retmode=retmode, id="7157")

    assert condense(parsed, Focus()).text == text


@pytest.mark.parametrize("retmode", choices("einfo", "retmode"))
@pytest.mark.parametrize("db", ["", *LOCAL])
def test_every_form_of_einfo_is_read(store: GatewayStore, retmode: str, db: str) -> None:
    """The databases, or one of them with its number of records and its fields."""
    parsed = answered(store, "einfo", db=db, retmode=retmode)

    if not db:
        assert isinstance(parsed, IdList) and "gene" in parsed.ids
        return
    text = condense(parsed, Focus()).text
    assert text.startswith("[1 database\n1. ") and "; records " in text and "; fields ALL, " in text
    assert text.endswith(f"; id {db}]")


def test_the_choices_of_a_command_are_all_tested() -> None:
    """A command that is added to the table needs a reader first."""
    assert set(choices("elink", "cmd")) == {"", "neighbor", "neighbor_score", "acheck", "ncheck"}
    assert set(EFETCH_FORMS) == set(DATABASES)
