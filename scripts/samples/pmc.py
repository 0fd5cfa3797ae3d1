"""Write full texts in JATS: a package like PMC's open-access bulk files, or one article."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Final

from scripts.samples.world import World, author, disease, prose

DOCTYPE: Final = (
    '<!DOCTYPE article PUBLIC "-//NLM//DTD JATS (Z39.96) Journal Archiving and Interchange DTD with MathML3 v1.3 '
    '20210610//EN" "JATS-archivearticle1-3-mathml3.dtd">\n'
)


def pmcid(world: World, index: int) -> int:
    return world.pmid(index)


def write_package(path: Path, world: World, articles: int) -> int:
    """A tar.gz with one .xml an article, in folders as in oa_comm_xml packages."""
    with tarfile.open(path, "w:gz", compresslevel=3) as archive:
        for index in range(articles):
            data = document(world, index).encode()
            member = tarfile.TarInfo(f"PMC{index // 1000:03}xxxxxx/PMC{pmcid(world, index)}.xml")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return articles


def document(world: World, index: int) -> str:
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{DOCTYPE}{article(world, index)}\n'


def title(index: int) -> str:
    return f"On {disease(index)}"


def article(world: World, index: int) -> str:
    """The article element: two sections, a table, a figure, a formula, references, a sub-article."""
    rng = world.rng(f"pmc {index}")
    people = "".join(
        f'<contrib contrib-type="author"><name><surname>{last}</surname><given-names>{fore}</given-names></name>'
        f'<xref ref-type="aff" rid="a1">1</xref></contrib>'
        for last, fore in (author(rng) for _ in range(3))
    )
    pmid = world.pmid(index)
    return (
        '<article xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:mml="http://www.w3.org/1998/Math/MathML" '
        'article-type="research-article" dtd-version="1.3" xml:lang="en"><front><journal-meta>'
        '<journal-id journal-id-type="nlm-ta">J Invent Med</journal-id><journal-id journal-id-type="publisher-id">x1'
        "</journal-id><journal-title-group><journal-title>Journal of Invented Medicine</journal-title>"
        '</journal-title-group><issn pub-type="epub">9000-0001</issn></journal-meta><article-meta>'
        f'<article-id pub-id-type="pmcid">PMC{pmcid(world, index)}</article-id>'
        f'<article-id pub-id-type="pmid">{pmid}</article-id>'
        f'<article-id pub-id-type="doi">10.99999/inv.{pmid}</article-id><title-group><article-title>{title(index)}'
        f'<xref ref-type="fn" rid="n1">*</xref></article-title></title-group><contrib-group>{people}'
        '<contrib contrib-type="author"><collab>The Invented Consortium</collab></contrib></contrib-group>'
        '<pub-date pub-type="ppub"><month>9</month><year>2021</year></pub-date>'
        '<pub-date pub-type="epub"><day>7</day><month>8</month><year>2021</year></pub-date>'
        f"<abstract><sec><title>Background</title><p>{prose(rng, 12)}</p></sec></abstract>"
        '<abstract abstract-type="graphical"><p>A picture.</p></abstract></article-meta></front>'
        f"<body><sec><title>Introduction</title><p>{_jats(prose(rng, 80))}"
        "<xref ref-type='bibr' rid='r1'>[1]</xref></p></sec>"
        f"<sec><title>Results</title>{_table(world, index)}<p>{_jats(prose(rng, 120))}</p>"
        "<fig><label>Figure 1</label><caption><p>A curve.</p></caption></fig>"
        "<disp-formula><alternatives><tex-math>\\frac{a}{b}</tex-math><mml:math><mml:mi>a</mml:mi></mml:math>"
        "</alternatives></disp-formula></sec></body>"
        "<back><ref-list><ref id='r1'><mixed-citation>Someone else. 1999.</mixed-citation></ref></ref-list></back>"
        "<sub-article article-type='reviewer-report' id='s1'><front-stub/><body><p>Not part of it.</p></body>"
        "</sub-article></article>"
    )


def _jats(text: str) -> str:
    return text.replace("<i>", "<italic>").replace("</i>", "</italic>")


def _table(world: World, index: int) -> str:
    rows = "".join(f"<tr><td>{world.symbol(index + at)}</td><td>{at}.5</td></tr>" for at in range(3))
    return (
        "<table-wrap><label>Table 1</label><caption><p>Values</p></caption>"
        f"<table><thead><tr><th>Gene</th><th>Value</th></tr></thead><tbody>{rows}</tbody></table></table-wrap>"
    )
