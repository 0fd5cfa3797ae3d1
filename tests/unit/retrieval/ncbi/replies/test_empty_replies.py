"""Which replies say that nothing was found."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from retrieval.errors import BLAST_FAILED, NCBI_MALFORMED, NCBI_REPLY_ERROR, NCBI_TIMEOUT, NcbiError
from retrieval.ncbi.replies.parse import is_empty_reply, is_not_found
from retrieval.types import Endpoint, NcbiCall, RawReply

KNOWN = {"uid": "5699", "name": "PSMB10", "organism": {"scientificname": "Homo sapiens", "commonname": "human"}}
UNKNOWN = {"uid": "1", "error": "cannot get document summary"}
NO_HITS = "BLASTN 2.16.0+\n\nQuery= \n\nLength=30\n\n***** No hits found *****\nNo significant similarity found.\n"


def _search(count: int, *ids: str) -> str:
    return json.dumps({"esearchresult": {"count": str(count), "idlist": ids}})


def _summary(*documents: Mapping[str, object]) -> str:
    return json.dumps({"result": {"uids": [d["uid"] for d in documents]} | {str(d["uid"]): d for d in documents}})


@pytest.mark.parametrize(
    ("endpoint", "body", "expected"),
    [
        ("esearch", _search(0), True),
        ("esearch", _search(1, "5699"), False),
        ("esearch", _search(7), False),  # rettype=count, or a page behind the last
        ("esearch", json.dumps({"esearchresult": {"ERROR": "Invalid db name specified: pubmed"}}), True),
        ("esummary", _summary(UNKNOWN), True),
        ("esummary", _summary(KNOWN, UNKNOWN), False),
        ("esummary", json.dumps({"esummaryresult": ["Invalid uid x at position= 0"]}), True),
        ("elink", json.dumps({"linksets": [{"dbfrom": "gene", "ids": ["1"]}]}), True),
        ("elink", json.dumps({"linksets": [{"linksetdbs": [{"links": ["164050"]}]}]}), False),
        ("einfo", json.dumps({"einforesult": {"dblist": ["gene"]}}), False),
        ("efetch", "\n1. Error occurred: cannot get document summary 9\n", True),
        ("efetch", "\n1. PSMB10\nID: 5699\n\n2. Error occurred: cannot get document summary 9\n", False),
        ("efetch", "\n1. *176847 PROTEASOME SUBUNIT; PSMB10\nID: 176847\n", False),
        ("efetch", ">NC_1:1-4 x\nACGT\n", False),
        ("efetch", "Error: Failed to retrieve sequence\n", True),
        ("efetch", '<?xml version="1.0"?>\n<PubmedArticleSet></PubmedArticleSet>', True),
        ("efetch", "<PubmedArticleSet><PubmedArticle><x/></PubmedArticle></PubmedArticleSet>", False),
        ("efetch", "<eFetchResult>\n<ERROR>no</ERROR></eFetchResult>", True),
        ("efetch", "<!DOCTYPE pmc-articleset>\n<pmc-articleset>\n</pmc-articleset>", True),
        ("efetch", "<pmc-articleset><article><front/></article></pmc-articleset>", False),
        ("efetch", "<TaxaSet></TaxaSet>", True),
        ("efetch", "30446595\n", False),
        ("esearch", json.dumps({"esearchresult": {"count": "7"}}), False),
        ("esearch", json.dumps({"esearchresult": {"count": "0"}}), True),
        ("elink", json.dumps({"linksets": [{"idchecklist": {"idlinksets": [{"id": "1"}], "ids": []}}]}), True),
        ("elink", json.dumps({"linksets": [{"idchecklist": {"ids": [{"value": "1", "hasneighbor": "N"}]}}]}), False),
        ("einfo", "<eInfoResult><DbInfo><DbName>gene</DbName><Count>0</Count></DbInfo></eInfoResult>", False),
        ("blast_put", NO_HITS, True),
        ("blast_get", "<p><!--\nQBlastInfoBegin\n\tStatus=UNKNOWN\nQBlastInfoEnd\n--><p>", True),
        ("esearch", "<html>maintenance</html>", False),
        ("esummary", json.dumps({"result": {"uids": 5}}), False),
    ],
)
def test_a_miss_is_an_answer_that_found_nothing(endpoint: Endpoint, body: str, expected: bool) -> None:
    """What is broken is none: it must show as broken."""
    reply = RawReply(200, "text/plain", body, len(body))

    assert is_empty_reply(NcbiCall(endpoint, "gene", {"db": "gene", "id": "5699", "term": "x"}), reply) is expected


def test_only_a_refusal_of_the_one_asked_is_a_miss() -> None:
    """No such record or database; not a broken or silent gateway."""
    assert is_not_found(NcbiError("no", NCBI_REPLY_ERROR)) and is_not_found(NcbiError("no", BLAST_FAILED))
    assert not is_not_found(NcbiError("slow", NCBI_TIMEOUT)) and not is_not_found(NcbiError("cut", NCBI_MALFORMED))
