"""PubMed's forms of one article say the same of it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from gateway_records import ARTICLES
from gateway_records import call as gateway_call

from retrieval.gateway.store.reader import GatewayStore
from retrieval.ncbi.replies.condense import condense
from retrieval.ncbi.replies.parse import parse_reply
from retrieval.ncbi.replies.records import DocRecord, RecordList
from retrieval.types import Focus, NcbiCall, RawReply

FORMS: Mapping[str, Mapping[str, str]] = {
    "xml": {"retmode": "xml"},
    "medline": {"rettype": "medline", "retmode": "text"},
    "abstract": {"rettype": "abstract", "retmode": "text"},
    "docsum": {"rettype": "docsum", "retmode": "text"},
}


def read(body: str, ids: str = "") -> RecordList:
    parsed = parse_reply(NcbiCall("efetch", "pubmed", {"id": ids}), RawReply(200, "", body, len(body)))
    assert isinstance(parsed, RecordList)
    return parsed


def articles(store: GatewayStore, form: str) -> dict[str, DocRecord]:
    ids = ",".join(str(article.pmid) for article in ARTICLES)
    parsed = read(gateway_call(store, "efetch", db="pubmed", id=ids, **FORMS[form]).body, ids)
    return {record.uid: record for record in parsed.records if isinstance(record, DocRecord)}


@pytest.mark.parametrize("form", ["medline", "abstract", "docsum"])
def test_every_form_has_the_articles_of_xml(store: GatewayStore, form: str) -> None:
    """With their titles and, where the form has one, the abstracts; the retracted ones are marked."""
    of_xml, of_form = articles(store, "xml"), articles(store, form)

    assert of_form.keys() == of_xml.keys()
    for uid, article in of_xml.items():
        if uid != "10000005":  # its only title, in another language, is in XML alone
            assert article.title.rstrip(".")[:40].casefold() in of_form[uid].title.casefold()
        if form != "docsum" and "abstract" in article.fields:
            assert article.fields["abstract"][:60].split(": ")[-1] in of_form[uid].fields["abstract"]


NCBI_TEXT = """1. J Test. 2021 Nov 16;91(24):1-9. doi: 10.1000/x.1. Epub 2021 Nov 1.

A treatment for migraine: a phase 3
study.

Kuca B(1), Silberstein SD(2), The Group.

Author information:
(1)From one place.
(2)From another.

Comment in
    J Test. 2022;1:1.

OBJECTIVE: To assess it.
RESULTS: It works.

© 2021 A society.

DOI: 10.1000/x.1
PMCID: PMC1
PMID: 11 [Indexed for MEDLINE]
Conflict of interest statement: None.


2. J Test. 2022.

Without authors and abstract.

Retraction in
    J Test. 2023;1:1.

PMID: 12
"""


def test_the_text_form_is_read_by_its_paragraphs() -> None:
    """What stands between authors and identifiers is the abstract, without notes, rights and affiliations."""
    first, second = read(NCBI_TEXT).records

    assert isinstance(first, DocRecord) and isinstance(second, DocRecord)
    assert (first.uid, first.title) == ("11", "A treatment for migraine: a phase 3 study.")
    assert first.fields == {
        "source": "J Test. 2021 Nov 16;91(24):1-9. doi: 10.1000/x.1. Epub 2021 Nov 1.",
        "authors": "Kuca B(1), Silberstein SD(2), The Group",
        "abstract": "OBJECTIVE: To assess it. RESULTS: It works.",
    }
    assert (second.uid, second.title, second.is_retracted) == ("12", "Without authors and abstract.", True)
    assert not first.is_retracted and "abstract" not in second.fields


def _set(*abstracts: str) -> str:
    entries = "".join(
        f"<PubmedArticle><MedlineCitation><PMID>{number}</PMID><Article><Journal><Title>J</Title></Journal><ArticleTitle>"
        f"T{number}</ArticleTitle><Abstract><AbstractText>{text}</AbstractText></Abstract></Article></MedlineCitation>"
        "</PubmedArticle>"
        for number, text in enumerate(abstracts, 1)
    )
    return f"<?xml version='1.0'?><PubmedArticleSet>{entries}</PubmedArticleSet>"


def test_a_long_abstract_is_cut_to_whole_sentences_and_keeps_its_conclusion() -> None:
    """The first ones and the last; what is left out is marked."""
    sentences = [f"Sentence number {number} of a long abstract has some words." for number in range(60)]
    text = condense(read(_set(" ".join(sentences))), Focus(), max_chars=1200).text

    assert len(text) <= 1200
    assert f"abstract {sentences[0]} {sentences[1]} " in text
    assert f" ... {sentences[-1]}; id 1]" in text


def test_the_abstracts_of_several_articles_share_the_room() -> None:
    """Each has its beginning and its end."""
    long = " ".join(f"Sentence number {number} of a long abstract has some words." for number in range(60))
    text = condense(read(_set(long, long)), Focus(), max_chars=1600).text

    assert len(text) <= 1600
    assert text.count("abstract Sentence number 0 ") == text.count("Sentence number 59 ") == 2


def test_a_cut_set_keeps_its_whole_articles() -> None:
    """And says that it was cut; what cannot be read at all is malformed."""
    body = _set("One.", "Two.")
    cut = read(body[: body.rindex("</Article>")], "1,2")

    assert cut.cut and [getattr(record, "uid", "") for record in cut.records] == ["1"]
