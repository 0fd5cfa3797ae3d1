"""What a model sees of a BLAST search: what the best hits agree on, then the hits."""

from __future__ import annotations

import pytest

from retrieval.ncbi.replies.condense import condense
from retrieval.ncbi.replies.records import BlastHit, BlastResult
from retrieval.types import Focus


def _hit(accession: str, title: str, bits: float = 200.0) -> BlastHit:
    return BlastHit(accession=accession, title=title, bits=bits, expect=1e-50, identities=100, align_length=100,
                    subject_start=91950805, subject_stop=91950904)  # fmt: skip


def test_blast_hits_are_summed_up_by_the_best_of_them() -> None:
    """Organism and chromosome are those most near-best hits agree on; a clone's positions are no genome positions."""
    result = BlastResult(
        100,
        (
            _hit("CP034493.1", "Eukaryotic synthetic construct chromosome 15"),
            _hit("AC1.2", "Homo sapiens BAC clone RP11-1 from chromosome 15"),
            _hit("AC2.2", "Mus musculus chromosome 3", bits=80.0),
        ),
    )

    assert condense(result, Focus()).text.startswith("[3 blast hits\n1. human chr15\n- CP034493.1 ")


@pytest.mark.parametrize(
    ("accession", "place"), [("NC_000015.10", "chr15:91950805-91950904"), ("NC_000015.9", "chr15")]
)
def test_positions_are_given_only_on_the_current_human_assembly(accession: str, place: str) -> None:
    """GRCh37's chromosomes carry other versions, so their positions are not passed off as GRCh38's."""
    result = BlastResult(100, (_hit(accession, "Homo sapiens chromosome 15, primary assembly"),))

    assert condense(result, Focus()).text.split("\n")[1] == f"1. human {place}"


@pytest.mark.parametrize(
    ("title", "place"),
    [
        ("Homo sapiens clone UWGC:djs1 or RP11-16G1 from 7p14-15, complete sequence", "chr7"),
        ("Homo sapiens BAC clone RP11-1 from Xq28", "chrX"),
        ("Homo sapiens mRNA from 2 patients", "no chromosome"),
    ],
)
def test_a_clone_is_placed_by_the_band_it_comes_from(title: str, place: str) -> None:
    """Many clones' titles name no chromosome but their band."""
    assert condense(BlastResult(100, (_hit("AC1.2", title),)), Focus()).text.startswith(
        f"[1 blast hit\n1. human {place}\n"
    )


def test_a_symbol_behind_the_cut_of_a_long_title_is_kept() -> None:
    """The row of a hit shows 90 characters of its title, and the symbol whatever its place."""
    title = f"PREDICTED: Pan troglodytes {'potassium voltage-gated channel subfamily ' * 3}(KCNAB1), mRNA"

    assert "... (KCNAB1); 100/100 identical" in condense(BlastResult(100, (_hit("X.1", title),)), Focus()).text


@pytest.mark.parametrize(
    ("title", "head"),
    [
        ("Homo sapiens BAC clone RP11-510D21 from 7, complete sequence", "human chr7"),
        ("Homo sapiens PAC clone RP4-777O23 from 7p14-p15", "human chr7"),
        ("Homo sapiens mRNA from 2 patients, complete cds", "human no chromosome"),
        ("Homo sapiens BAC RP11-791I24 (Human), complete sequence", "human no chromosome"),
    ],
)
def test_a_clone_is_placed_by_its_title_alone(title: str, head: str) -> None:
    """Its chromosome or band stands behind "from"; the name of a species in parentheses is no gene."""
    result = BlastResult(100, (_hit("AC092652.3", title),))

    assert condense(result, Focus()).text.startswith(f"[1 blast hit\n1. {head}\n")
