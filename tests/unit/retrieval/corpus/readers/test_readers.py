"""Documents in the forms that their sources publish them in."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from corpus_doubles import backends
from corpus_files import CHAPTER, jats, json_lines, parsed_documents, slices
from gateway_records import CHAPTER as BOOK
from gateway_records import RETRACTED, STRUCTURED
from ncbi_files import BILLION_LAUGHS, pubmed_record, pubmed_set, saved

from retrieval.corpus.chunking import Chunker, Chunking
from retrieval.corpus.ingest.add import add_items
from retrieval.corpus.items import ParsedDocument, ReadOptions, SkippedRecord, Withdrawn, paper_ids
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.corpus.readers import json_corpora, ncbi_xml
from retrieval.corpus.readers.registry import guess_reader
from retrieval.errors import DocumentUnreadable
from scripts.samples import pmc as pmc_sample
from scripts.samples import pubmed as pubmed_sample
from scripts.samples.world import World


def test_a_pubmed_record_keeps_markup_entities_labels_and_case(tmp_path: Path) -> None:
    """A line parser would make "CO<sub2</sub" of a subscript, and lose labels and continued lines."""
    path = saved(tmp_path / "set.xml", pubmed_set(STRUCTURED))
    (found,) = parsed_documents(list(ncbi_xml.read_pubmed(path, ReadOptions(retrieved="2026-11-21"))))
    document = found.document
    assert document.title.startswith("The TP53 R175H & R273H variants: Zn2+ loss at pH < 7")
    assert found.text.startswith("BACKGROUND: Müller's group found α-helices of p53")
    assert "RESULTS: Binding fell (P < 0.01) in 12 & 13." in found.text
    assert (document.document_id, document.source, document.date) == ("PMID:10000001", "pubmed", 20210108)
    assert document.types[0] == "journal article"
    assert document.licence == "© The Author(s) 2021."
    assert document.retrieved == "2026-11-21"
    assert document.journal == "Nucleic acids research"


def test_a_retraction_is_a_type_and_a_note(tmp_path: Path) -> None:
    """CommentsCorrections say which notice took the article back."""
    (found,) = parsed_documents(list(ncbi_xml.read_pubmed(saved(tmp_path / "set.xml", pubmed_set(RETRACTED)))))
    assert found.document.retracted_by == ("10000003",)
    assert "retracted publication" in found.document.types
    assert found.text == found.document.title  # it has no abstract


def test_a_book_chapter_of_pubmed_is_read(tmp_path: Path) -> None:
    """PubmedBookArticle has neither MedlineCitation nor Journal."""
    (found,) = parsed_documents(list(ncbi_xml.read_pubmed(saved(tmp_path / "set.xml", pubmed_set(BOOK)))))
    assert found.document.types == ("review", "book chapter")
    assert found.document.journal == "GeneReviews®"


def test_deletions_and_bad_records_pass_by_good_ones(tmp_path: Path) -> None:
    """Of an update file; the line of a bad record is told."""
    path = tmp_path / "pubmed26n1500.xml.gz"
    records = [pubmed_record("7"), "<PubmedArticle></PubmedArticle>\n", pubmed_record("9")]
    saved(path, pubmed_set(*records, "<DeleteCitation><PMID Version='1'>3</PMID></DeleteCitation>\n"))
    first, bad, second, gone = ncbi_xml.read_pubmed(path)
    assert [item.document.document_id for item in parsed_documents([first, second])] == ["PMID:7", "PMID:9"]
    assert isinstance(bad, SkippedRecord)
    assert (bad.file, bad.line) == (path.name, 3)
    assert gone == Withdrawn("PMID:3")


def test_a_generated_baseline_comes_through_whole(tmp_path: Path) -> None:
    """Three hundred records with everything that the generator knows to write."""
    path = tmp_path / "pubmed26n0001.xml.gz"
    pubmed_sample.write_articles(path, pubmed_sample.articles(World(genes=30, articles=300)))
    assert len(parsed_documents(list(ncbi_xml.read_pubmed(path)))) == 300


@pytest.mark.parametrize("content", [BILLION_LAUGHS, pubmed_set(pubmed_record())[:-40], "<html></html>"])
def test_what_is_no_pubmed_file_is_refused(tmp_path: Path, content: str) -> None:
    """Entities of its own, a cut file, another root."""
    with pytest.raises(DocumentUnreadable, match=r"file\.xml"):
        list(ncbi_xml.read_pubmed(saved(tmp_path / "file.xml", content)))


def test_pubmed_json_is_read_member_by_member(tmp_path: Path) -> None:
    """Larger than any chunk that is read at once, with escapes across chunk ends."""
    rows = {str(n): {"d": "20071115", "t": f"Title {n}", "a": "é\u2028 β " * 40, "m": "A!b*|"} for n in range(1, 3000)}
    for escaped in (True, False):
        path = saved(tmp_path / "pubmed_chunk_0.json", json.dumps(rows, ensure_ascii=escaped))
        found = parsed_documents(list(json_corpora.read_pubmed_json(path)))
        assert [item.document.document_id for item in found] == [f"PMID:{n}" for n in range(1, 3000)]
        assert found[5].document.date == 20071115
        assert found[5].text == rows["6"]["a"].strip()


def test_bad_members_of_pubmed_json_are_passed_over_with_their_line(tmp_path: Path) -> None:
    """One without words, one that is no object, one without PMID."""
    text = '{"1": {"d": "", "t": "", "a": "", "m": ""},\n"2": 5,\n"x": {},\n"4": {"d": "2007", "t": "T", "a": null}}'
    *passed, good = json_corpora.read_pubmed_json(saved(tmp_path / "chunk.json", text))
    assert [item.line for item in passed if isinstance(item, SkippedRecord)] == [1, 2, 3]
    assert parsed_documents([good])[0].document.date == 20070000


@pytest.mark.parametrize("text", ['{"1": {"t": "T"}', '{"1": {"t": "T"}} x', '{"1" {"t": "T"}}', "[1]", '{"1": {"t": '])
def test_damaged_pubmed_json_is_refused(tmp_path: Path, text: str) -> None:
    """Cut, followed by something, no object."""
    with pytest.raises(DocumentUnreadable):
        list(json_corpora.read_pubmed_json(saved(tmp_path / "chunk.json", text)))


def test_a_full_text_has_its_sections_tables_and_numbers(tmp_path: Path) -> None:
    """Numbers in brackets are data; back matter and sub-articles are not read."""
    world = World(genes=20, articles=20)
    path = saved(tmp_path / "PMC90000004.xml", pmc_sample.document(world, 3))
    (found,) = parsed_documents(list(ncbi_xml.read_pmc(path)))
    sections = [section for section, _ in slices(found)]
    assert sections == ["Abstract", "Introduction", "Results"]
    text = dict(slices(found))
    assert text["Abstract"].startswith("Background\n")
    assert "Gene | Value" in text["Results"]
    assert f"{world.symbol(3)} | 0.5" in text["Results"]
    assert "Figure 1" in text["Results"]
    for absent in ("Someone else", "Not part of it", "frac"):
        assert absent not in found.text
    assert found.document.document_id == "PMC:90000004"
    assert found.document.types == ("journal article",)


def test_nested_sections_licence_and_notices_of_a_full_text(tmp_path: Path) -> None:
    """The path of headings stands beside each part, in the case it was printed in."""
    body = (
        "<p>Before any section.</p><sec><title>Methods</title><p>Mice (12) at (37) degrees, (1-3) fold.</p>"
        "<sec><title>IL-6 <italic>ELISA</italic></title><p>As before<sup><xref ref-type='bibr'>12</xref>,"
        "<xref ref-type='bibr'>13</xref></sup>; see <xref ref-type='fig'>Fig. 1</xref> and "
        "[<xref ref-type='bibr'>4</xref>], 10<sup>3</sup> cells.</p></sec><p>After it.</p></sec>"
    )
    meta = (
        "<permissions><license xlink:href='https://creativecommons.org/licenses/by/4.0/'><license-p>CC</license-p>"
        "</license></permissions><related-article related-article-type='retraction-forward' xlink:href='10.1/x'/>"
    )
    (found,) = parsed_documents(list(ncbi_xml.read_pmc(saved(tmp_path / "a.xml", jats(body=body, meta=meta)))))
    assert slices(found) == [
        ("", "Before any section."),
        ("Methods", "Mice (12) at (37) degrees, (1-3) fold."),
        ("Methods > IL-6 ELISA", "As before; see Fig. 1 and [4], 10³ cells."),
        ("Methods", "After it."),
    ]
    assert found.document.licence == "https://creativecommons.org/licenses/by/4.0/"
    assert found.document.retracted_by == ("10.1/x",)
    assert "retracted publication" in found.document.types


def test_a_notice_of_retraction_is_not_itself_retracted(tmp_path: Path) -> None:
    """Some journals mark the notice where the article should be marked."""
    meta = "<related-article related-article-type='retraction-forward' xlink:href='10.1/x'/>"
    notice = jats(meta=meta).replace("research-article", "retraction")
    (found,) = parsed_documents(list(ncbi_xml.read_pmc(saved(tmp_path / "a.xml", notice))))
    assert (found.document.types, found.document.retracted_by) == (("retraction notice",), ())


def test_an_article_that_its_publisher_keeps_back_is_told(tmp_path: Path) -> None:
    """efetch sends the front matter alone."""
    path = saved(tmp_path / "set.xml", f"<pmc-articleset>{jats(5, body='')}{jats(6)}</pmc-articleset>")
    closed, found = ncbi_xml.read_pmc(path)
    assert isinstance(closed, SkippedRecord)
    assert "PMC5" in closed.reason
    assert parsed_documents([found])[0].document.document_id == "PMC:6"


def test_a_package_of_full_texts_is_streamed(tmp_path: Path) -> None:
    """oa_bulk's tar.gz."""
    path = tmp_path / "oa.tar.gz"
    pmc_sample.write_package(path, World(genes=20, articles=20), 12)
    assert guess_reader(path) == "pmc"
    assert len(parsed_documents(list(ncbi_xml.read_pmc(path)))) == 12


def test_medrag_snippets_are_documents_as_they_were_cut(tmp_path: Path) -> None:
    """Each corpus has its own ids and fields."""
    rows: list[dict[str, Any]] = [
        {"id": "Anatomy_Gray_0", "title": "Anatomy_Gray", "content": "The heart.", "contents": "Anatomy_Gray. The h"},
        {"id": "article-100024_3", "title": "Cold -- Treatment -- Doses", "content": "40 mg", "contents": ""},
        {"id": "wiki20220301en000_0", "title": "Anarchism", "content": "A.", "contents": "", "wiki_id": "12"},
        {"id": "pubmed23n0001_0", "title": "T", "content": "", "contents": "", "PMID": 1},
        {"id": "PMID:2", "title": "T", "content": "x", "contents": ""},
    ]
    path = saved(tmp_path / "chunk.jsonl", json_lines(*rows))
    book, article, wiki, record, other = parsed_documents(list(json_corpora.read_medrag(path)))
    assert (book.document.document_id, book.document.types) == ("MedRAG:Anatomy_Gray_0", ("textbook",))
    assert book.whole
    assert (article.document.title, article.spans[0].section) == ("Cold", "Treatment > Doses")
    assert wiki.document.url == "https://en.wikipedia.org/?curid=12"
    assert (record.document.document_id, record.text) == ("PMID:1", "T")
    assert other.document.document_id == "PMID:2"


@pytest.mark.parametrize(
    ("row_id", "title", "whole"),
    [
        ("Biochemistry_Lippincott_7", "Biochemistry_Lippinco", "Biochemistry_Lippincott"),
        ("Anatomy_Gray_0", "Anatomy_Gray", "Anatomy_Gray"),
        ("Anatomy_Gray_0", "Anatomy_Gr", "Anatomy_Gr"),
        ("Lippinco_0", "Biochemistry_Lippinco", "Biochemistry_Lippinco"),
    ],
)
def test_a_clipped_textbook_title_is_put_right_only_where_it_is_certain(row_id: str, title: str, whole: str) -> None:
    """``strip(".txt")`` took letters away; its result from the id's own name is the proof."""
    assert json_corpora.whole_title(row_id, title) == whole


def test_bad_lines_of_json_are_passed_over(tmp_path: Path) -> None:
    """No JSON, no id, no text, no UTF-8: each with its line."""
    good = json_lines({"id": "a_1", "title": "t", "content": "c"}).encode()
    data = b'{"id": \n[]\n' + good + b'{"id": "x"}\n\xff\xfe\n'
    found = list(json_corpora.read_medrag(saved(tmp_path / "chunk.jsonl", data)))
    assert [item.line for item in found if isinstance(item, SkippedRecord)] == [1, 2, 4, 5]


def test_a_statpearls_chapter_has_its_bold_headings(tmp_path: Path) -> None:
    """References are left out, raised citations too, doses are not."""
    path = saved(tmp_path / "article-100024.nxml", CHAPTER)
    (found,) = parsed_documents(list(ncbi_xml.read_statpearls(path)))
    assert slices(found) == [
        ("Continuing Education Activity", "Cold urticaria is a rare wheal."),
        ("Treatment / Management", "Avoid the cold."),
        ("Treatment / Management > Antihistamines", "Up to 4 times the dose (40 mg) is given.\nFirst step"),
    ]
    document = found.document
    assert (document.document_id, document.title, document.date) == ("NBK:430685", "Cold Urticaria", 20240105)
    assert document.authors == ("Doe JA",)
    assert document.licence.endswith("/by-nc-nd/4.0/")
    assert document.types == ("book chapter",)


def test_a_package_of_chapters_passes_over_what_is_none(tmp_path: Path) -> None:
    """A chapter without a title, which ended the original script; a file that is cut."""
    path = tmp_path / "statpearls_NBK430685.tar.gz"
    untitled = CHAPTER.replace("<title>Cold Urticaria</title>", "")
    members = {"article-1.nxml": CHAPTER, "article-2.nxml": untitled, "article-3.nxml": CHAPTER[:900], "x.jpg": "x"}
    with tarfile.open(path, "w:gz") as archive:
        for name, text in members.items():
            member = tarfile.TarInfo(f"statpearls_NBK430685/{name}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    assert guess_reader(path) == "statpearls"
    found = list(ncbi_xml.read_statpearls(path))
    assert len(found) == 3
    assert [item.line for item in found if isinstance(item, SkippedRecord)] == [2, 3]


def test_a_publishers_article_is_named_by_its_doi(tmp_path: Path) -> None:
    """Files of journals and preprint servers have no PMC number."""
    text = jats().replace("<article-id pub-id-type='pmc'>5<", "<article-id pub-id-type='doi'>10.7554/eLife.00000<")
    (found,) = parsed_documents(list(ncbi_xml.read_pmc(saved(tmp_path / "a.xml", text))))
    document = found.document
    assert (document.document_id, document.source) == ("DOI:10.7554/eLife.00000", "jats")
    assert document.url == "https://doi.org/10.7554/eLife.00000"


def test_an_older_version_behind_a_newer_one_is_passed_over(tmp_path: Path) -> None:
    """It would replace it."""
    newer = pubmed_record(title="New.").replace('Version="1"', 'Version="2"')
    first, second = ncbi_xml.read_pubmed(saved(tmp_path / "set.xml", pubmed_set(newer, pubmed_record(title="Old."))))
    assert isinstance(first, ParsedDocument) and first.document.title == "New."
    assert isinstance(second, SkippedRecord) and second.reason == (
        "PMID 7: version 1, of which the file has a newer one"
    )


def test_the_latest_version_stays_in_a_namespace_across_files(tmp_path: Path) -> None:
    """In whichever order they are added; a DeleteCitation of a later file removes it."""
    namespaces = Namespaces(tmp_path / "namespaces", backends())
    namespaces.create("ns", NamespaceSettings(), created="2026-11-28")
    shown = []
    for name, record in (
        ("second.xml", pubmed_record(title="New.").replace('Version="1"', 'Version="2"')),
        ("first.xml", pubmed_record(title="Old.")),
        ("gone.xml", "<DeleteCitation><PMID Version='1'>7</PMID></DeleteCitation>\n"),
    ):
        add_items(namespaces, "ns", ncbi_xml.read_pubmed(saved(tmp_path / name, pubmed_set(record))))
        with namespaces.using("ns") as namespace:
            shown.append(namespace.store.document("PMID:7"))
    namespaces.close()
    assert [found and found[0].title for found in shown] == ["New.", "New.", None]


def test_powers_stay_powers_in_titles_sections_and_tables(tmp_path: Path) -> None:
    """A load of 10⁵ is no load of 105; what cites a source stays out."""
    body = (
        "<sec><title>At 10<sup>9</sup>/L</title><p>From 10<sup>5</sup> to 10<sup>2</sup> copies (3.2 × "
        "10<sup>−4</sup>), 50 mg/m<sup>2</sup> twice<sup><xref ref-type='bibr'>12</xref></sup>.</p><table><tr>"
        "<td>n</td><td>10<sup>3</sup></td></tr></table></sec>"
    )
    text = jats(body=body).replace("On IL-6", "10<sup>5</sup> copies<xref ref-type='fn'><sup>1</sup></xref>")
    (found,) = parsed_documents(list(ncbi_xml.read_pmc(saved(tmp_path / "a.xml", text))))
    assert found.document.title == "10⁵ copies"
    assert slices(found) == [("At 10⁹/L", "From 10⁵ to 10² copies (3.2 × 10⁻⁴), 50 mg/m² twice.\nn | 10³")]


def test_a_corpus_of_beir_is_read_line_by_line(tmp_path: Path) -> None:
    """Its ids are underscored; a line without one, or without words, is named."""
    rows = (
        {"_id": "4983", "title": "Brain", "text": "White matter.", "metadata": {"url": "https://example.org/1"}},
        {"_id": "5", "title": "", "text": ""},
        {"id": "6", "text": "x"},
    )
    first, *rest = json_corpora.read_beir(saved(tmp_path / "corpus.jsonl", json_lines(*rows)))
    (found,) = parsed_documents([first])
    assert (found.document.document_id, found.text) == ("BEIR:4983", "White matter.")
    assert found.document.url == "https://example.org/1"
    assert [item.line for item in rest if isinstance(item, SkippedRecord)] == [2, 3]


def test_a_whole_paper_in_medrags_form_is_cut_like_any_document(tmp_path: Path) -> None:
    """A snippet is a passage as it is; no model has room for a passage of 32,000 characters."""
    rows = [{"id": f"p{size}", "title": "T", "content": "Fever fell. " * size} for size in (80, 2_500)]
    snippet, paper = parsed_documents(list(json_corpora.read_medrag(saved(tmp_path / "a.jsonl", json_lines(*rows)))))
    chunker = Chunker(Chunking(size=500))
    assert len(chunker.cut(snippet)) == 1
    assert max(span.end - span.start for span in chunker.cut(paper)) <= 500


CORD_19 = {
    "paper_id": "0a1b2c",
    "metadata": {
        "title": "On fever",
        "authors": [{"first": "Jane", "middle": ["A"], "last": "Doe", "suffix": "Jr"}, {"first": "", "last": "Lee"}],
    },
    "abstract": [{"text": "Short."}],
    "body_text": [
        {"text": "One.", "section": "Intro"},
        {"text": "Two.", "section": "Intro"},
        {"text": "Three.", "section": "Results"},
    ],
}


def test_a_paper_of_cord_19_has_its_sections(tmp_path: Path) -> None:
    """Paragraphs of one section are one part."""
    (found,) = parsed_documents(
        list(json_corpora.read_cord19(saved(tmp_path / "a.json", json.dumps(CORD_19, indent=2))))
    )
    assert found.document.document_id == "CORD-19:0a1b2c"
    assert found.document.authors == ("Doe JA Jr", "Lee")
    assert slices(found) == [("Abstract", "Short."), ("Intro", "One.\nTwo."), ("Results", "Three.")]


def test_a_paper_of_pmc_has_its_number(tmp_path: Path) -> None:
    """And one without an id is named."""
    path = saved(tmp_path / "a.jsonl", json_lines({**CORD_19, "paper_id": "PMC12"}, {"metadata": {}}))
    first, second = json_corpora.read_cord19(path)
    assert parsed_documents([first])[0].document.document_id == "PMC:12"
    assert isinstance(second, SkippedRecord) and second.line == 2


@pytest.mark.parametrize(
    ("pmcid", "pmid", "doi", "document_id"),
    [
        ("PMC12", "3", "10.1/x", "PMC:12"),
        ("", "3", "10.1/x", "PMID:3"),
        ("x", "", "10.1/x", "DOI:10.1/x"),
        ("", "1" * 20, "", ""),
    ],
)
def test_a_paper_has_the_first_of_its_numbers(pmcid: str, pmid: str, doi: str, document_id: str) -> None:
    """A number that is none does not count."""
    assert paper_ids(pmcid, pmid, doi)[0] == document_id
