"""The XML forms that have no recorded reply: genes, ids, checks of links, errors."""

from __future__ import annotations

import pytest

from models.errors import Fault
from retrieval.errors import NCBI_MALFORMED, NCBI_REPLY_ERROR, NcbiError
from retrieval.ncbi.replies.parse_xml import parse_xml
from retrieval.ncbi.replies.records import DocRecord, FailedRecord, GeneRecord, IdList, RecordList

GENE = """<?xml version="1.0"?><Entrezgene-Set><Entrezgene>
<Entrezgene_track-info><Gene-track><Gene-track_geneid>{uid}</Gene-track_geneid>
<Gene-track_status value="live">0</Gene-track_status>{current}</Gene-track></Entrezgene_track-info>
<Entrezgene_type value="{kind}">6</Entrezgene_type>
<Entrezgene_source><BioSource><BioSource_org><Org-ref><Org-ref_taxname>Homo sapiens</Org-ref_taxname>
<Org-ref_common>human</Org-ref_common></Org-ref></BioSource_org><BioSource_subtype><SubSource>
<SubSource_subtype value="chromosome">1</SubSource_subtype><SubSource_name>17</SubSource_name></SubSource>
</BioSource_subtype></BioSource></Entrezgene_source>
<Entrezgene_gene><Gene-ref><Gene-ref_locus>TP53</Gene-ref_locus><Gene-ref_desc>tumor protein p53</Gene-ref_desc>
<Gene-ref_maploc>17p13.1</Gene-ref_maploc><Gene-ref_syn><Gene-ref_syn_E>P53</Gene-ref_syn_E>
<Gene-ref_syn_E>LFS1</Gene-ref_syn_E></Gene-ref_syn></Gene-ref></Entrezgene_gene>
<Entrezgene_prot><Prot-ref><Prot-ref_name><Prot-ref_name_E>cellular tumor antigen p53</Prot-ref_name_E>
</Prot-ref_name></Prot-ref></Entrezgene_prot>
<Entrezgene_summary>Suppresses tumors.</Entrezgene_summary></Entrezgene></Entrezgene-Set>"""
CURRENT = (
    "<Gene-track_current-id><Dbtag><Dbtag_db>GeneID</Dbtag_db><Dbtag_tag><Object-id><Object-id_id>7157</Object-id_id>"
    "</Object-id></Dbtag_tag></Dbtag></Gene-track_current-id>"
)


def test_a_gene_has_all_that_its_summary_has() -> None:
    """And the type that NCBI gives it, which a document summary lacks."""
    parsed = parse_xml("gene", GENE.format(uid="7157", kind="protein-coding", current=""))

    assert parsed == RecordList(
        "gene",
        (
            GeneRecord(
                uid="7157",
                symbol="TP53",
                name="tumor protein p53",
                organism="human",
                scientific_name="Homo sapiens",
                chromosome="17",
                location="17p13.1",
                aliases=("P53", "LFS1"),
                other_names=("cellular tumor antigen p53",),
                summary="Suppresses tumors.",
                gene_type="protein-coding",
            ),
        ),
    )


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("pseudo", "pseudogene"), ("ncRNA", "ncRNA"), ("snoRNA", "ncRNA"), ("unknown", "protein-coding")],
)
def test_the_type_of_a_gene_is_ncbis(kind: str, expected: str) -> None:
    """Where NCBI does not know it, it follows from the name."""
    parsed = parse_xml("gene", GENE.format(uid="1", kind=kind, current=CURRENT))

    assert isinstance(parsed, RecordList)
    (gene,) = parsed.records
    assert isinstance(gene, GeneRecord)
    assert (gene.gene_type, gene.replaced_by) == (expected, "7157")


def _links(inner: str) -> str:
    return f"<eLinkResult><LinkSet><DbFrom>gene</DbFrom><IdCheckList>{inner}</IdCheckList></LinkSet></eLinkResult>"


def test_a_check_says_which_links_there_are() -> None:
    """An id without any is one without a record."""
    body = _links(
        "<IdLinkSet><Id>348</Id><LinkInfo><DbTo>omim</DbTo><LinkName>gene_omim</LinkName></LinkInfo>"
        "<LinkInfo><DbTo>snp</DbTo><LinkName>gene_snp</LinkName></LinkInfo></IdLinkSet><IdLinkSet><Id>9</Id></IdLinkSet>"
    )

    records = (DocRecord("348", "omim gene_omim, snp gene_snp"), FailedRecord("9", "no links"))
    assert parse_xml("", body) == RecordList("elink", records)


def test_a_check_says_whether_there_are_neighbors() -> None:
    """Of each id."""
    body = _links('<Id HasNeighbor="Y">9997</Id><Id HasNeighbor="N">1</Id>')

    records = (DocRecord("9997", "has neighbors: Y"), DocRecord("1", "has neighbors: N"))
    assert parse_xml("", body) == RecordList("elink", records)


def test_a_list_of_ids_and_a_count_are_ids() -> None:
    """A count has none, and is told from a page behind the last."""
    assert parse_xml("pubmed", "<IdList><Id>1</Id><Id>2</Id></IdList>") == IdList(2, ("1", "2"))
    assert parse_xml("pubmed", "<eSearchResult><Count>7</Count></eSearchResult>") == IdList(7, (), is_count=True)
    assert parse_xml("pubmed", "<eSearchResult><Count>7</Count><IdList/></eSearchResult>") == IdList(7, ())


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("<eFetchResult><ERROR>ID list is empty!</ERROR></eFetchResult>", NCBI_REPLY_ERROR),
        ("<ePostResult><ERROR>Empty ID list</ERROR></ePostResult>", NCBI_REPLY_ERROR),
        ("<eSummaryResult><ERROR>Invalid uid</ERROR></eSummaryResult>", NCBI_REPLY_ERROR),
        ("<Bioseq-set><Bioseq/></Bioseq-set>", NCBI_MALFORMED),
        ("<TaxaSet><Taxon><TaxId>1", NCBI_MALFORMED),
        ("<PubmedArticleSet><PubmedArticle><MedlineCit", NCBI_MALFORMED),
        ("<PubmedArticleSet><PubmedArticle><x/></PubmedArticle></PubmedArticleSet>", NCBI_MALFORMED),
    ],
)
def test_what_is_no_record_is_an_error(body: str, error: Fault) -> None:
    """NCBI's own where it gives one."""
    with pytest.raises(NcbiError, check=error.is_of):
        parse_xml("pubmed", body)
