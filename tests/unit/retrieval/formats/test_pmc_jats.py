"""PMC's full texts in JATS."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest
from ncbi_files import entries, items, reasons, saved

from retrieval.errors import ImportFileError
from retrieval.formats import pmc_jats
from retrieval.formats.items import Good, ReadOptions
from retrieval.formats.records import FullText
from retrieval.formats.sources import Source
from scripts.samples import pmc
from scripts.samples.world import World

WORLD = World(genes=20, articles=20)
FRONT = "<front><article-meta><article-id pub-id-type='pmc'>5</article-id></article-meta></front>"


def _full_text(path: Path) -> FullText:
    (found,) = entries("pmc", path)
    assert isinstance(found, FullText)
    return found


def _package(path: Path, *members: tuple[str, str]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, text in members:
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


def test_an_article_is_read_whole(tmp_path: Path) -> None:
    """Front matter, body with table and captions; neither references nor reviews nor LaTeX."""
    found = _full_text(saved(tmp_path / "PMC90000004.xml", pmc.document(WORLD, 3)))
    assert (found.pmcid, found.pmid, found.doi) == (90_000_004, "90000004", "10.99999/inv.90000004")
    assert found.title == pmc.title(3)
    assert found.abstract.startswith("Background\n")
    assert "picture" not in found.abstract
    assert found.journal == ("Journal of Invented Medicine", "J Invent Med", "9000-0001")
    assert found.date == "2021-08-07"
    assert len(found.authors) in (3, 4)
    assert found.authors[-1] == "The Invented Consortium"
    lines = found.body.split("\n")
    assert lines[0] == "Introduction"
    assert "Table 1" in lines
    assert "Gene | Value" in lines
    assert f"{WORLD.symbol(3)} | 0.5" in lines
    assert "A curve." in lines
    for absent in ("Someone else", "Not part of it", "frac"):
        assert absent not in found.body
    assert found.xml == pmc.article(WORLD, 3)


def test_a_package_gives_every_article(tmp_path: Path) -> None:
    """``line`` is the number of the member."""
    pmc.write_package(tmp_path / "oa_comm.tar.gz", WORLD, 8)
    found = items("pmc", tmp_path / "oa_comm.tar.gz")
    assert [item.line for item in found] == list(range(1, 9))
    texts = [item.entry for item in found if isinstance(item, Good)]
    assert [text.pmcid for text in texts if isinstance(text, FullText)] == [pmc.pmcid(WORLD, at) for at in range(8)]


def test_a_broken_member_is_told_and_the_next_one_read(tmp_path: Path) -> None:
    """By its name; other files of the package are no articles."""
    path = _package(
        tmp_path / "oa.tar.gz",
        ("a/readme.txt", "hello"),
        ("a/PMC1.xml", "<article><front>"),
        ("a/PMC2.nxml", f"<article>{FRONT}</article>"),
        ("a/PMC3.xml", "<html></html>"),
        ("a/PMC4.xml", ""),
        ("a/PMC5.xml", "<!DOCTYPE article [<!ENTITY a 'b'>]><article>&a;</article>"),
    )
    assert [item.line for item in items("pmc", path) if isinstance(item, Good)] == [3]
    told = reasons("pmc", path)
    assert [line for line, _ in told] == [2, 4, 5, 6]
    assert told[0][1].startswith("PMC1.xml: the file ends before")
    assert "declares entities" in told[3][1]


def test_a_cut_package_gives_its_whole_articles_and_then_an_error(tmp_path: Path) -> None:
    """It is not taken for a broken member."""
    path = tmp_path / "oa_comm.tar.gz"
    pmc.write_package(path, WORLD, 8)
    path.write_bytes(path.read_bytes()[:-3000])
    with pytest.raises(ImportFileError, match="cut"):
        items("pmc", path)


def test_an_archive_without_articles_is_refused(tmp_path: Path) -> None:
    """It is some other archive."""
    with pytest.raises(ImportFileError, match=r"no \.xml or \.nxml file"):
        items("pmc", _package(tmp_path / "other.tar.gz", ("names.dmp", "1")))


def test_a_set_gives_its_articles_with_the_namespaces_of_the_set(tmp_path: Path) -> None:
    """As efetch sends it: a prefix may be declared on the root only."""
    text = (
        "<?xml version='1.0'?><!DOCTYPE pmc-articleset PUBLIC '-//NLM//DTD ARTICLE SET 2.0//EN' "
        "'https://dtd.nlm.nih.gov/ncbi/pmc/articleset/nlm-articleset-2.0.dtd'>"
        '<pmc-articleset xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:mml="http://www.w3.org/1998/Math/MathML">'
        f'<article>{FRONT}<body><p><ext-link xlink:href="x">here</ext-link></p></body></article>'
        f"{pmc.article(WORLD, 1)}</pmc-articleset>"
    )
    first, second = entries("pmc", saved(tmp_path / "set.xml.gz", text))
    assert isinstance(first, FullText)
    assert isinstance(second, FullText)
    assert (first.pmcid, first.body) == (5, "here")
    assert first.xml.startswith('<article xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:mml=')
    assert second.xml == pmc.article(WORLD, 1)


def test_a_default_namespace_changes_nothing(tmp_path: Path) -> None:
    """PMC's OAI service puts all elements into one."""
    plain = _full_text(saved(tmp_path / "a.xml", pmc.document(WORLD, 2)))
    named = pmc.document(WORLD, 2).replace("<article ", '<article xmlns="https://jats.nlm.nih.gov/ns/archiving/1.3/" ')
    found = _full_text(saved(tmp_path / "b.xml", named))
    assert (found.title, found.body, found.authors, found.date) == (plain.title, plain.body, plain.authors, plain.date)
    assert found.journal == plain.journal


@pytest.mark.parametrize("kind", ["pmc", "pmcid", "pmcaid"])
def test_the_number_has_been_written_in_several_ways(tmp_path: Path, kind: str) -> None:
    """With and without the letters, and a version."""
    for text in ("PMC5", "5", "PMC5.1"):
        front = FRONT.replace("'pmc'>5<", f"'{kind}'>{text}<")
        assert _full_text(saved(tmp_path / "a.xml", f"<article>{front}</article>")).pmcid == 5


def test_the_number_may_stand_in_the_files_name_only(tmp_path: Path) -> None:
    """Else the article has no place in the store."""
    text = "<article><front><article-meta/></front></article>"
    assert _full_text(saved(tmp_path / "PMC77.xml", text)).pmcid == 77
    assert "no PMC number" in reasons("pmc", saved(tmp_path / "a.xml", text))[0][1]


def test_elements_nested_without_end_are_malformed(tmp_path: Path) -> None:
    """And do not exhaust the stack."""
    deep = "<sec>" * 50_000 + "</sec>" * 50_000
    ((_, reason),) = reasons("pmc", saved(tmp_path / "a.xml", f"<article>{FRONT}<body>{deep}</body></article>"))
    assert "nested more than 200 deep" in reason


def test_a_depth_that_no_article_has_is_refused_wherever_it_is(tmp_path: Path) -> None:
    """In a part that no reader walks, too; what is as deep as the bound is read."""
    for depth, expected in ((196, []), (200, ["article: elements are nested more than 200 deep"])):
        odd = f"<odd>{'<i>' * depth}{'</i>' * depth}</odd>"
        path = saved(tmp_path / "a.xml", f"<article>{FRONT}{odd}</article>")
        assert [reason.removeprefix("a.xml: ") for _, reason in reasons("pmc", path)] == expected


def test_records_within_one_another_end_the_file_at_the_bound(tmp_path: Path) -> None:
    """A file of nothing but start tags is not read once for each of them."""
    for name in ("article", "odd"):
        path = saved(tmp_path / "a.xml", f"<pmc-articleset>{f'<{name}>' * 300}{f'</{name}>' * 300}</pmc-articleset>")
        with pytest.raises(ImportFileError, match="nested more than 200 deep"):
            reasons("pmc", path)


def test_a_large_member_is_told(tmp_path: Path) -> None:
    """64 MiB is more than any article has."""
    path = tmp_path / "oa.tar.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        member = tarfile.TarInfo("PMC1.xml")
        member.size = 65 * 2**20
        file.write(member.tobuf())
        for _ in range(65):
            file.write(b"<" * 2**20)
        file.write(bytes(1024))
    assert reasons("pmc", path) == [(1, "PMC1.xml: larger than 67108864 bytes")]


def _article(path: Path, meta: str = "", body: str = "") -> FullText:
    front = FRONT.replace("</article-meta>", f"{meta}</article-meta>")
    return _full_text(saved(path / "a.xml", f"<article>{front}<body>{body}</body></article>"))


def test_a_group_is_an_author_and_its_members_are_none(tmp_path: Path) -> None:
    """Of several spellings of a name the Latin one counts; a Chinese given name has no initial."""
    member = "<contrib><name><surname>Member</surname><given-names>Max</given-names></name></contrib>"
    chinese = "<name name-style='eastern'><surname>王</surname><given-names>小明</given-names></name>"
    contributors = (
        f"<collab>The Fever Study Group<contrib-group>{member}</contrib-group></collab>",
        f"<name-alternatives>{chinese}<name name-style='western'><surname>Wang</surname>"
        "<given-names>Xiaoming</given-names></name></name-alternatives>",
        chinese,
        "<string-name>Madonna</string-name>",
        "<string-name><given-names>Ann</given-names> <surname>Lee</surname></string-name>",
        "<anonymous/>",
    )
    group = "".join(f"<contrib contrib-type='author'>{one}</contrib>" for one in contributors)
    found = _article(tmp_path, f"<contrib-group>{group}</contrib-group>")
    assert found.authors == ("The Fever Study Group", "Wang X", "王 小明", "Madonna", "Lee A")


@pytest.mark.parametrize(
    ("dates", "date"),
    [
        ("<pub-date date-type='publication'><day>25</day><month>04</month><year>2016</year></pub-date>"
         "<pub-date date-type='update'><year>2018</year></pub-date>"
         "<pub-date pub-type='collection'><year>2016</year></pub-date>", "2016-04-25"),
        ("<pub-date pub-type='collection'><year>2016</year></pub-date>", "2016"),
        ("<pub-date date-type='pub' iso-8601-date='2019-03-02'/>", "2019-03-02"),
    ],
)  # fmt: skip
def test_the_day_of_publication_counts_before_the_year_of_the_collection(tmp_path: Path, dates: str, date: str) -> None:
    """JATS has named it pub and publication, and writes it in parts or as one."""
    assert _article(tmp_path, dates).date == date


def test_an_article_without_a_pmc_number_is_no_record_of_pmc(tmp_path: Path) -> None:
    """The gateway has its records by that number; a corpus takes a DOI."""
    meta = "<article-meta><article-id pub-id-type='doi'>10.1/x</article-id></article-meta>"
    text = f"<article><front>{meta}</front></article>"
    path = saved(tmp_path / "a.xml", text)
    assert reasons("pmc", path)[0][1].endswith("no PMC number among its article-ids, nor in the file's name")
    (found,) = pmc_jats.read(Source(path), ReadOptions(doi_suffices=True))
    assert isinstance(found, Good) and isinstance(found.entry, FullText)
    assert (found.entry.pmcid, found.entry.doi) == (0, "10.1/x")


def test_a_formula_is_read_once_and_a_citation_joins_no_number(tmp_path: Path) -> None:
    """MathML before LaTeX, LaTeX as written where it is alone; references that stand raised in print stay apart."""
    math = "<mml:math xmlns:mml='http://www.w3.org/1998/Math/MathML'><mml:mi>p</mml:mi></mml:math>"
    document = r"\documentclass{minimal}\begin{document}$$\alpha = 0.05$$\end{document}"
    body = (
        f"<p>A <inline-formula><alternatives><tex-math>p</tex-math>{math}</alternatives></inline-formula> of "
        f"<inline-formula><tex-math>{document}</tex-math></inline-formula> for p53<xref ref-type='bibr'>12</xref>, in "
        "2015<xref ref-type='bibr'><sup>3</sup></xref> [<xref ref-type='bibr'>4</xref>] see Fig.<xref>5</xref>.</p>"
    )
    assert _article(tmp_path, body=body).body == r"A p of \alpha = 0.05 for p53¹², in 2015³ [4] see Fig.5."
