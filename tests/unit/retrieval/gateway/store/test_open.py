"""The sample's articles are PubMed records like others, in words of our own, and say so."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from pathlib import Path

import pytest
from gateway_records import call

from retrieval.formats.pubmed_xml import article_of
from retrieval.gateway.citations.exports import article_item
from retrieval.gateway.store.open import NOTICE, load_corpus, open_store, sample_article

ARTICLES = load_corpus().articles
COLLECTION = Path(__file__).parents[6] / "shared" / "data" / "qa" / "bioasq" / "corpus.jsonl.gz"
_WORD = re.compile(r"[a-z0-9]+")
_RUN = 8


def test_a_fresh_machine_has_articles_to_review() -> None:
    topics = Counter(article.keywords[0] for article in ARTICLES)
    assert len(ARTICLES) >= 200
    assert len(topics) >= 50
    assert sum(1 for count in topics.values() if count >= 3) >= 40


def test_each_summary_has_three_to_six_sentences_and_says_whose_words_it_is() -> None:
    for article in ARTICLES:
        sentences = re.findall(r"[.?!](?=\s|$)", article.abstract)
        assert 3 <= len(sentences) <= 6, article.pmid
        assert NOTICE in article.xml
        assert article.types and article.mesh and article.title


def test_retracted_articles_name_their_notice() -> None:
    marked = [article for article in ARTICLES if "Retracted Publication" in article.types]
    assert len(marked) == 5
    assert all(len(article.retracted_by) == 1 for article in marked)
    assert all("retract" in article.abstract.lower() for article in marked)
    assert not any(article.retracted_by for article in ARTICLES if article not in marked)


def test_search_summary_and_record_are_served(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    try:
        found = json.loads(call(store, "esearch", db="pubmed", term="lasmiditan migraine", retmode="json").body)
        assert "30446595" in found["esearchresult"]["idlist"]
        told = json.loads(call(store, "esummary", db="pubmed", id="30446595", retmode="json").body)
        assert told["result"]["30446595"]["source"] == "Neurology"
        text = call(store, "efetch", db="pubmed", id="9500320", rettype="abstract", retmode="text").body
        assert "Retraction in" in text
        assert "not the authors' abstract" in " ".join(text.split())
        retracted = call(store, "esearch", db="pubmed", term='"retracted publication"[pt]', retmode="json").body
        assert json.loads(retracted)["esearchresult"]["count"] == "5"
    finally:
        store.close()


def test_a_record_is_what_its_xml_says() -> None:
    assert all(article_of(article.xml) == article for article in ARTICLES)


def test_an_article_is_cited_by_what_is_known_of_it() -> None:
    by_pmid = {article.pmid: article_item(article) for article in ARTICLES}
    assert by_pmid[30446595]["issued"] == {"date-parts": [[2018]]}
    assert "issued" not in by_pmid[31755155]
    assert not any("author" in item for item in by_pmid.values())
    assert by_pmid[9500320]["note"] == "Retracted (PMID 20137807)"


def test_a_row_with_markup_is_text() -> None:
    row = dict.fromkeys(["year", "journal", "types", "mesh", "summary", "retracted_by"], "") | {
        "pmid": "7",
        "title": "p<0.05 & <i>x</i>",
        "language": "eng",
        "topic": "T",
    }
    assert sample_article(row).title == "p<0.05 & <i>x</i>"
    with pytest.raises(ValueError, match="PMID"):
        sample_article(row | {"pmid": "seven"})


@pytest.mark.shared_data
@pytest.mark.skipif(not COLLECTION.exists(), reason="the project's evaluation data is not beside the checkout")
def test_no_eight_words_and_no_figure_are_other_than_the_source_s() -> None:
    """No run of eight words is copied, and every number of a summary stands in its source."""
    with gzip.open(COLLECTION, "rt", encoding="utf-8") as file:
        sources = {int(told["pmid"]): told for told in map(json.loads, file)}
    compared = 0
    for article in ARTICLES:
        told = sources.get(article.pmid)
        if told is None:
            assert article.retracted_by, article.pmid
            continue
        compared += 1
        text = f"{told['title']} . {told['abstract']}".replace(",", "").replace("·", ".")
        words, own = _WORD.findall(text.lower()), _WORD.findall(article.abstract.lower())
        runs = {tuple(words[at : at + _RUN]) for at in range(len(words) - _RUN + 1)}
        copied = [own[at : at + _RUN] for at in range(len(own) - _RUN + 1) if tuple(own[at : at + _RUN]) in runs]
        assert not copied, (article.pmid, copied)
        numbers = re.findall(r"\d[\d.]*\d|\d", article.abstract.replace(",", ""))
        assert all(number in text for number in numbers), article.pmid
    assert compared >= 200
