"""A few records of every database of the gateway, awkward ones among them, and a store that holds them."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from retrieval.formats.records import (
    Article,
    Concept,
    Entry,
    FullText,
    Gene,
    Link,
    OmimEntry,
    Organism,
    SequenceSegment,
    Snp,
    Taxon,
    Variation,
)
from retrieval.gateway.app import answer
from retrieval.gateway.http_reply import Reply
from retrieval.gateway.store.reader import SCHEMA_VERSION, SITE, GatewayStore, create_tables
from retrieval.gateway.store.writer import StoreWriter

STRUCTURED = """<PubmedArticle><MedlineCitation Status="MEDLINE" Owner="NLM" IndexingMethod="Manual">
<PMID Version="1">10000001</PMID>
<DateCompleted><Year>2021</Year><Month>07</Month><Day>05</Day></DateCompleted>
<DateRevised><Year>2024</Year><Month>02</Month><Day>29</Day></DateRevised>
<Article PubModel="Print-Electronic"><Journal><ISSN IssnType="Electronic">1362-4962</ISSN>
<JournalIssue CitedMedium="Internet"><Volume>49</Volume><Issue>D1</Issue>
<PubDate><Year>2021</Year><Month>Jan</Month><Day>08</Day></PubDate></JournalIssue>
<Title>Nucleic acids research</Title><ISOAbbreviation>Nucleic Acids Res</ISOAbbreviation></Journal>
<ArticleTitle>The <i>TP53</i> R175H &amp; R273H variants: Zn<sup>2+</sup> loss at pH &lt; 7 in \
Li–Fraumeni syndrome.</ArticleTitle>
<Pagination><StartPage>D10</StartPage><EndPage>D18</EndPage><MedlinePgn>D10-D18</MedlinePgn></Pagination>
<ELocationID EIdType="doi" ValidYN="Y">10.1093/nar/gkaa001</ELocationID>
<Abstract><AbstractText Label="BACKGROUND" NlmCategory="BACKGROUND">Müller's group found <b>α-helices</b> of p53 to \
unfold when zinc is lost at body temperature, as others had suggested for many years without showing it.</AbstractText>
<AbstractText Label="RESULTS" NlmCategory="RESULTS">Binding fell (<i>P</i> &lt; 0.01) in 12 &amp; 13.</AbstractText>
<AbstractText Label="UNLABELLED">A last remark.</AbstractText>
<CopyrightInformation>© The Author(s) 2021.</CopyrightInformation></Abstract>
<AuthorList CompleteYN="Y"><Author ValidYN="Y"><LastName>Müller-Österreich</LastName><ForeName>Žofia A</ForeName>
<Initials>ŽA</Initials><Identifier Source="ORCID">0000-0002-1825-0097</Identifier>
<AffiliationInfo><Affiliation>Universität Zürich, Switzerland.</Affiliation></AffiliationInfo>
<AffiliationInfo><Affiliation>Broad Institute, Cambridge, MA, USA.</Affiliation></AffiliationInfo></Author>
<Author ValidYN="Y"><LastName>Hambrick</LastName><ForeName>George W</ForeName><Initials>GW</Initials>
<Suffix>Jr</Suffix>
<AffiliationInfo><Affiliation>Broad Institute, Cambridge, MA, USA.</Affiliation></AffiliationInfo></Author>
<Author ValidYN="N"><LastName>Wrong</LastName><ForeName>Name</ForeName><Initials>N</Initials></Author>
<Author ValidYN="Y"><CollectiveName>TP53 &amp; Zinc Consortium</CollectiveName></Author></AuthorList>
<Language>eng</Language>
<DataBankList CompleteYN="Y"><DataBank><DataBankName>GENBANK</DataBankName><AccessionNumberList>
<AccessionNumber>AF307851</AccessionNumber></AccessionNumberList></DataBank></DataBankList>
<GrantList CompleteYN="Y"><Grant><GrantID>R01 CA001</GrantID><Acronym>CA</Acronym><Agency>NCI NIH HHS</Agency>
<Country>United States</Country></Grant></GrantList>
<PublicationTypeList><PublicationType UI="D016428">Journal Article</PublicationType>
<PublicationType UI="D013485">Research Support, Non-U.S. Gov't</PublicationType></PublicationTypeList>
<ArticleDate DateType="Electronic"><Year>2020</Year><Month>11</Month><Day>05</Day></ArticleDate></Article>
<MedlineJournalInfo><Country>England</Country><MedlineTA>Nucleic Acids Res</MedlineTA>
<NlmUniqueID>0411011</NlmUniqueID><ISSNLinking>0305-1048</ISSNLinking></MedlineJournalInfo>
<ChemicalList><Chemical><RegistryNumber>J41CSQ7QDS</RegistryNumber><NameOfSubstance UI="D015032">Zinc</NameOfSubstance>
</Chemical></ChemicalList><CitationSubset>IM</CitationSubset>
<CommentsCorrectionsList><CommentsCorrections RefType="CommentIn">
<RefSource>Nat Rev Cancer. 2021 Mar;21(3):141</RefSource>
<PMID Version="1">10000009</PMID></CommentsCorrections>
<CommentsCorrections RefType="ErratumIn"><RefSource>Nucleic Acids Res. 2021 Jun 4;49(10):6002. \
doi: 10.1093/nar/gkab400.</RefSource><Note>Typo in Table 1</Note></CommentsCorrections>
<CommentsCorrections RefType="Cites"><RefSource>Cell. 1997</RefSource></CommentsCorrections></CommentsCorrectionsList>
<MeshHeadingList><MeshHeading><DescriptorName UI="D016159" MajorTopicYN="N">\
Tumor Suppressor Protein p53</DescriptorName>
<QualifierName UI="Q000235" MajorTopicYN="Y">genetics</QualifierName>
<QualifierName UI="Q000378" MajorTopicYN="N">metabolism</QualifierName></MeshHeading>
<MeshHeading><DescriptorName UI="D016864" MajorTopicYN="Y">Li-Fraumeni Syndrome</DescriptorName></MeshHeading>
</MeshHeadingList><KeywordList Owner="NOTNLM"><Keyword MajorTopicYN="Y">zinc finger</Keyword>
<Keyword MajorTopicYN="N">protein folding</Keyword></KeywordList>
<CoiStatement>Ž.A.M. holds shares of a zinc mine.</CoiStatement></MedlineCitation>
<PubmedData><History><PubMedPubDate PubStatus="received"><Year>2020</Year><Month>8</Month><Day>1</Day></PubMedPubDate>
<PubMedPubDate PubStatus="pubmed"><Year>2020</Year><Month>11</Month><Day>6</Day><Hour>6</Hour><Minute>0</Minute>
</PubMedPubDate><PubMedPubDate PubStatus="medline"><Year>2021</Year><Month>7</Month><Day>6</Day><Hour>6</Hour>
<Minute>0</Minute></PubMedPubDate><PubMedPubDate PubStatus="entrez"><Year>2020</Year><Month>11</Month><Day>5</Day>
<Hour>17</Hour><Minute>9</Minute></PubMedPubDate></History><PublicationStatus>ppublish</PublicationStatus>
<ArticleIdList><ArticleId IdType="pubmed">10000001</ArticleId><ArticleId IdType="mid">NIHMS1519350</ArticleId>
<ArticleId IdType="pmc">PMC9000001</ArticleId><ArticleId IdType="doi">10.1093/nar/gkaa001</ArticleId>
<ArticleId IdType="pii">5900001</ArticleId></ArticleIdList></PubmedData></PubmedArticle>"""

RETRACTED = """<PubmedArticle><MedlineCitation Status="PubMed-not-MEDLINE" Owner="NLM"><PMID Version="1">10000002</PMID>
<Article PubModel="Print"><Journal><ISSN IssnType="Print">0140-6736</ISSN><JournalIssue CitedMedium="Print">
<Volume>351</Volume><Issue>9103</Issue><PubDate><MedlineDate>1998 Dec-1999 Jan</MedlineDate></PubDate></JournalIssue>
<Title>Lancet (London, England)</Title></Journal>
<ArticleTitle>A finding that did not stand.</ArticleTitle><Pagination><MedlinePgn>637-41</MedlinePgn></Pagination>
<AuthorList CompleteYN="Y"><Author ValidYN="Y"><CollectiveName>The Hasty Group</CollectiveName></Author></AuthorList>
<Language>eng</Language><PublicationTypeList><PublicationType UI="D016428">Journal Article</PublicationType>
<PublicationType UI="D016441">Retracted Publication</PublicationType></PublicationTypeList></Article>
<MedlineJournalInfo><Country>England</Country><MedlineTA>Lancet</MedlineTA><NlmUniqueID>2985213R</NlmUniqueID>
</MedlineJournalInfo><CommentsCorrectionsList><CommentsCorrections RefType="RetractionIn">
<RefSource>Lancet. 2010 Feb 6;375(9713):445</RefSource><PMID Version="1">10000003</PMID></CommentsCorrections>
<CommentsCorrections RefType="RetractedandRepublishedIn"><RefSource>Lancet. 2011;376:1</RefSource></CommentsCorrections>
</CommentsCorrectionsList></MedlineCitation><PubmedData><PublicationStatus>ppublish</PublicationStatus>
<ArticleIdList><ArticleId IdType="pubmed">10000002</ArticleId></ArticleIdList></PubmedData></PubmedArticle>"""

NOTICE = """<PubmedArticle><MedlineCitation Status="Publisher" Owner="NLM"><PMID Version="1">10000003</PMID>
<Article PubModel="Print-Electronic"><Journal><ISSN IssnType="Electronic">1474-547X</ISSN>
<JournalIssue CitedMedium="Internet"><PubDate><Year>2010</Year><Season>Winter</Season></PubDate></JournalIssue>
<Title>Lancet (London, England)</Title></Journal>
<ArticleTitle>Retraction-A finding that did not stand.</ArticleTitle>
<ELocationID EIdType="pii" ValidYN="Y">S0140-6736(10)60175-4</ELocationID>
<ELocationID EIdType="doi" ValidYN="Y">10.1016/S0140-6736(10)60175-4</ELocationID><Language>eng</Language>
<PublicationTypeList><PublicationType UI="D016441">Retraction of Publication</PublicationType></PublicationTypeList>
<ArticleDate DateType="Electronic"><Year>2010</Year><Month>02</Month><Day>02</Day></ArticleDate></Article>
<MedlineJournalInfo><MedlineTA>Lancet</MedlineTA></MedlineJournalInfo><CommentsCorrectionsList>
<CommentsCorrections RefType="RetractionOf"><RefSource>Lancet. 1998;351(9103):637-41</RefSource>
<PMID Version="1">10000002</PMID></CommentsCorrections></CommentsCorrectionsList></MedlineCitation>
<PubmedData><PublicationStatus>aheadofprint</PublicationStatus><ArticleIdList>
<ArticleId IdType="pubmed">10000003</ArticleId></ArticleIdList></PubmedData></PubmedArticle>"""

CHAPTER = """<PubmedBookArticle><BookDocument><PMID Version="1">10000004</PMID><ArticleIdList>
<ArticleId IdType="bookaccession">NBK1116</ArticleId></ArticleIdList><Book><Publisher>
<PublisherName>University of Washington, Seattle</PublisherName><PublisherLocation>Seattle (WA)</PublisherLocation>
</Publisher><BookTitle book="gene">GeneReviews<sup>®</sup></BookTitle><PubDate><Year>1993</Year></PubDate>
<BeginningDate><Year>1993</Year></BeginningDate><EndingDate><Year>2024</Year></EndingDate>
<AuthorList Type="editors" CompleteYN="Y"><Author><LastName>Adam</LastName><ForeName>Margaret P</ForeName>
<Initials>MP</Initials></Author></AuthorList><Medium>Internet</Medium></Book>
<ArticleTitle book="gene" part="li-fraumeni">Li-Fraumeni Syndrome</ArticleTitle><Language>eng</Language>
<AuthorList Type="authors" CompleteYN="Y"><Author><LastName>Schneider</LastName><ForeName>Katherine</ForeName>
<Initials>K</Initials><AffiliationInfo><Affiliation>Dana-Farber Cancer Institute</Affiliation></AffiliationInfo>
</Author>
</AuthorList><PublicationType UI="D016454">Review</PublicationType>
<Abstract><AbstractText Label="CLINICAL CHARACTERISTICS">Li-Fraumeni syndrome is a cancer predisposition.</AbstractText>
</Abstract><KeywordList Owner="NLM"><Keyword MajorTopicYN="N">TP53</Keyword></KeywordList>
<ContributionDate><Year>1999</Year><Month>1</Month><Day>19</Day></ContributionDate>
<DateRevised><Year>2019</Year><Month>11</Month><Day>21</Day></DateRevised></BookDocument>
<PubmedBookData><History><PubMedPubDate PubStatus="pubmed"><Year>2010</Year><Month>3</Month><Day>20</Day><Hour>6</Hour>
<Minute>0</Minute></PubMedPubDate></History><PublicationStatus>ppublish</PublicationStatus><ArticleIdList>
<ArticleId IdType="pubmed">10000004</ArticleId></ArticleIdList></PubmedBookData></PubmedBookArticle>"""

BARE = """<PubmedArticle><MedlineCitation Status="In-Process" Owner="NLM"><PMID Version="1">10000005</PMID>
<Article PubModel="Electronic-eCollection"><Journal><JournalIssue CitedMedium="Internet"><Volume>9</Volume>
<PubDate><Year>2018</Year></PubDate></JournalIssue></Journal><ArticleTitle/>
<Pagination><MedlinePgn>1033</MedlinePgn></Pagination><Language>fre</Language>
<PublicationTypeList><PublicationType UI="D016422">Letter</PublicationType></PublicationTypeList>
<VernacularTitle>Le zinc &amp; nous.</VernacularTitle>
<ArticleDate DateType="Electronic"><Year>2018</Year><Month>08</Month><Day>02</Day></ArticleDate></Article>
<MedlineJournalInfo><MedlineTA>Front Physiol</MedlineTA></MedlineJournalInfo></MedlineCitation></PubmedArticle>"""

_NAMESPACES = 'xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:mml="http://www.w3.org/1998/Math/MathML"'
FULL_TEXT = f"""<article {_NAMESPACES} article-type="research-article" xml:lang="en"><front><journal-meta>
<journal-id journal-id-type="nlm-ta">Nucleic Acids Res</journal-id><journal-title-group>
<journal-title>Nucleic Acids Research</journal-title></journal-title-group><issn pub-type="epub">1362-4962</issn>
</journal-meta><article-meta><article-id pub-id-type="pmid">10000001</article-id>
<article-id pub-id-type="pmc">9000001</article-id><article-id pub-id-type="doi">10.1093/nar/gkaa001</article-id>
<title-group><article-title>The <italic>TP53</italic> R175H &amp; R273H variants</article-title></title-group>
<contrib-group><contrib contrib-type="author"><name><surname>Müller-Österreich</surname>
<given-names>Žofia A.</given-names></name><xref ref-type="aff" rid="a1"><sup>1</sup></xref></contrib>
<contrib contrib-type="author"><collab>TP53 &amp; Zinc Consortium</collab></contrib></contrib-group>
<aff id="a1"><label>1</label>Universität Zürich, Switzerland</aff>
<pub-date pub-type="ppub"><day>8</day><month>1</month><year>2021</year></pub-date>
<pub-date pub-type="epub"><day>5</day><month>11</month><year>2020</year></pub-date>
<pub-date pub-type="pmc-release"><day>5</day><month>11</month><year>2020</year></pub-date>
<volume>49</volume><issue>D1</issue><fpage>D10</fpage><lpage>D18</lpage>
<permissions><copyright-statement>© The Author(s) 2021.</copyright-statement></permissions>
<abstract><p>Zinc is lost.</p></abstract></article-meta></front>
<body><sec><title>Introduction</title><p>p53 binds <bold>zinc</bold> &amp; DNA.</p></sec></body></article>"""

ARTICLES = (
    Article(
        pmid=10000001, xml=STRUCTURED,
        title="The TP53 R175H & R273H variants: Zn2+ loss at pH < 7 in Li–Fraumeni syndrome.",
        abstract="Müller's group found α-helices of p53 to unfold", journal=("Nucleic acids research",),
        date="2021-01-08", authors=("Müller-Österreich ŽA", "Hambrick GW Jr", "TP53 & Zinc Consortium"),
        types=("Journal Article",), mesh=("Li-Fraumeni Syndrome",), mesh_major=(), keywords=("zinc finger",),
        languages=("eng",), doi="10.1093/nar/gkaa001", pmc="PMC9000001",
    ),
    Article(
        pmid=10000002, xml=RETRACTED, title="A finding that did not stand.", abstract="", journal=("Lancet",),
        date="1998-12", authors=("The Hasty Group",), types=("Retracted Publication",), mesh=(), mesh_major=(),
        keywords=(), languages=("eng",), retracted_by=("10000003",),
    ),
    Article(
        pmid=10000003, xml=NOTICE, title="Retraction-A finding that did not stand.", abstract="", journal=("Lancet",),
        date="2010", authors=(), types=("Retraction of Publication",), mesh=(), mesh_major=(), keywords=(),
        languages=("eng",),
    ),
    Article(
        pmid=10000004, xml=CHAPTER, title="Li-Fraumeni Syndrome", abstract="Li-Fraumeni syndrome is",
        journal=("GeneReviews®",), date="1999-01-19", authors=("Schneider K",), types=("Review",), mesh=(),
        mesh_major=(), keywords=("TP53",), languages=("eng",),
    ),
    Article(
        pmid=10000005, xml=BARE, title="Le zinc & nous.", abstract="", journal=("Front Physiol",), date="2018",
        authors=(), types=("Letter",), mesh=(), mesh_major=(), keywords=(), languages=("fre",),
    ),
)  # fmt: skip

_HUMAN = Organism(9606, "Homo sapiens", "human")
OTHERS: tuple[Entry, ...] = (
    FullText(
        pmcid=9000001, xml=FULL_TEXT, pmid="10000001", doi="10.1093/nar/gkaa001",
        title="The TP53 R175H & R273H variants", abstract="Zinc is lost.", body="p53 binds zinc & DNA.",
        journal=("Nucleic Acids Research", "Nucleic Acids Res"), date="2020-11-05",
        authors=("Müller-Österreich ŽA", "TP53 & Zinc Consortium"),
    ),
    Variation(
        variation_id=12374, allele_id=27413, name="NM_000546.6(TP53):c.524G>A (p.Arg175His)",
        kind="single nucleotide variant", genes=(("TP53", "7157"),), significance="Pathogenic",
        last_evaluated="2024-06-03", review_status="reviewed by expert panel", rs="28934578",
        phenotypes=("Li-Fraumeni syndrome",), phenotype_ids=("MONDO:MONDO:0018875", "MedGen:C0085390"),
        assembly="GRCh38", chromosome="17", position="7675088", cytogenetic="17p13.1", origin="germline",
        accessions=("RCV000013144", "RCV000131301"),
    ),
    Variation(
        variation_id=99, allele_id=100, name="GRCh37/hg19 Xp22.33(chrX:1-2)x3 & <more>", kind="copy number gain",
        genes=(), significance="", last_evaluated="", review_status="", rs="", phenotypes=("one", "two"),
        phenotype_ids=("MedGen:C1", "MedGen:C2"), assembly="GRCh37", chromosome="X", position="", cytogenetic="",
        origin="", accessions=(),
    ),
    Taxon(tax_id=1, parent_id=1, rank="no rank", scientific_name="root", division="Unassigned"),
    Taxon(tax_id=2759, parent_id=1, rank="domain", scientific_name="Eukaryota", division="Invertebrates",
          names=(("eukaryotes", "blast name"),)),
    Taxon(tax_id=9443, parent_id=2759, rank="order", scientific_name="Primates", division="Primates",
          names=(("primates", "blast name"),)),
    Taxon(tax_id=9605, parent_id=9443, rank="genus", scientific_name="Homo", division="Primates"),
    Taxon(tax_id=9606, parent_id=9605, rank="species", scientific_name="Homo sapiens", division="Primates",
          names=(("human", "genbank common name"), ("Homo sapiens Linnaeus, 1758", "authority"),
                 ("man", "common name"))),
    Taxon(tax_id=63221, parent_id=9606, rank="subspecies", scientific_name="Homo sapiens neanderthalensis"),
    Taxon(tax_id=70001, parent_id=70002, rank="species", scientific_name="Circle & <one>", genetic_code=4),
    Taxon(tax_id=70002, parent_id=70001, rank="genus", scientific_name="Circle two"),
    Concept(
        uid=9000, cui="C0085390", name="Li-Fraumeni syndrome", definition="A cancer <predisposition> & more.",
        synonyms=("SBLA syndrome",), source_ids=(("OMIM", "151623"), ("MONDO", "MONDO:0018875")),
        semantic_type="Neoplastic Process",
    ),
    Gene(gene_id=7157, symbol="TP53", name="tumor protein p53", organism=_HUMAN, chromosome="17", mim=("191170",),
         map_location="17p13.1", accession="NC_000017.11", start=7687489, stop=7668420, nomenclature="Official"),
    Snp(
        snp_id=28934578, genes=(("TP53", "7157"),), accession="NC_000017.11", chromosome="17", position="7675088",
        position_grch37="7578406", spdi="NC_000017.11:7675087:C:T", function_class="missense_variant", snp_class="snv",
        allele="Y", docsum="HGVS=NC_000017.11:g.7675088C>T|GENE=TP53:7157", mafs=(("ALFA", "T=0.00001/1"),),
        clinical="pathogenic", handles="CLINVAR", validated="by-frequency", ss="1", orig_build="125", upd_build="156",
        created="2005/01/01 00:00", updated="2023/01/01 00:00",
    ),
    OmimEntry(151623, "#", "LI-FRAUMENI SYNDROME 1; LFS1", "SARCOMA FAMILY SYNDROME OF LI AND FRAUMENI", "17p13.1"),
    OmimEntry(191170, "*", "TUMOR PROTEIN p53; TP53", "", "17p13.1"),
    SequenceSegment("NG_017013.2", 101, 180, 32772, 9606, "Homo sapiens TP53, RefSeqGene", "ACGT" * 20),
    Link("gene", "7157", "pubmed", "10000001"),
    Link("gene", "7157", "pubmed", "10000002"),
    Link("clinvar", "12374", "gene", "7157"),
    Link("clinvar", "12374", "snp", "28934578"),
    Link("clinvar", "12374", "omim", "191170"),
    Link("omim", "151623", "medgen", "9000"),
    Link("pubmed", "10000001", "pmc", "9000001"),
)  # fmt: skip


def make_store(directory: Path) -> GatewayStore:
    """A site's store, as imports fill it, with all records of this module."""
    path = directory / "gateway.sqlite"
    connection = sqlite3.connect(path)
    try:
        with connection:
            create_tables(connection)
            meta = {"schema": SCHEMA_VERSION, "kind": SITE, "fingerprint": "0123456789abcdef"}
            connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
            writer = StoreWriter(connection)
            for entry in (*ARTICLES, *OTHERS):
                writer.put(entry)
    finally:
        connection.close()
    return GatewayStore(path)


def call(store: GatewayStore, endpoint: str, **params: str) -> Reply:
    return answer(store, endpoint, params)


def summary(store: GatewayStore, db: str, uid: str) -> Any:
    return json.loads(call(store, "esummary", db=db, id=uid, retmode="json").body)["result"][uid]
