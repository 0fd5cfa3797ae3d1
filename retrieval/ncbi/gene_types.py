"""Derive the type of a gene from its name.

Gene document summaries do not carry the gene type. HGNC and NCBI name pseudogenes and RNA genes by rule ("… pseudogene
4", "… antisense RNA 1", "microRNA 22"), so the name reveals it. An "uncharacterized LOC…" without a protein among its
designations is non-coding: NCBI designates the predicted proteins of the others. Anything else counts as
protein-coding. Source: Guidelines for human gene nomenclature (Nat Genet 2020; 52:754).
"""

from __future__ import annotations

import re

from retrieval.ncbi.records import GeneType

_PSEUDOGENE = re.compile(r"\bpseudogenes?\b", re.IGNORECASE)
_RNA = re.compile(
    r"non-?(protein )?coding|antisense RNA|\b(antisense|intronic|overlapping|divergent|bidirectional|sense) transcript|"
    r"^microRNA\b|\b(lnc|linc|sno|sca|sn|vault |Y |7SK |7SL )RNA\b|host gene( \d+)?$|opposite strand|\bRNA gene\b|"
    r"\b(ribosomal|transfer|small nuclear|small nucleolar|small Cajal body-specific) RNA( [\w.-]+)?$|"
    r"^tRNA-|^RNA, |RNA component\b|transcript antisense RNA",
    re.IGNORECASE,
)
_UNCHARACTERIZED = re.compile(r"^uncharacterized (LOC\d+|gene)", re.IGNORECASE)
_PROTEIN = re.compile(r"\bprotein\b", re.IGNORECASE)


def gene_type(name: str, designations: str = "", summary: str = "") -> GeneType:
    """Return the type of the gene with that name.

    ``designations`` are the other names; a summary that mentions the encoded protein settles ambiguous names.
    """
    if _PSEUDOGENE.search(name):
        return "pseudogene"
    if _RNA.search(name) or re.search(r"\((non-protein coding|pseudogene)\)", designations):
        return "pseudogene" if "(pseudogene)" in designations and not _RNA.search(name) else "ncRNA"
    if _UNCHARACTERIZED.match(name) and not _PROTEIN.search(designations + summary):
        return "ncRNA"
    return "protein-coding"
