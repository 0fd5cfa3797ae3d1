"""Identifiers that are bound to a name, in one record."""

from __future__ import annotations

import random

import pytest
from gene_records import human_genes

from retrieval.ncbi.replies.condense import line_of
from retrieval.ncbi.replies.records import GeneRecord
from retrieval.types import Focus
from server.methods.base import Source
from server.methods.shared.support.correspondence import Evidence
from server.methods.shared.support.quantities import QuantityReader
from server.methods.shared.support.units import Units

READER = QuantityReader(Units())
SHAPES = (
    "{a} (id {ia}) lies at {ba} and {b} (id {ib}) at {bb}.",
    "{a} has the gene id {ia} and maps to {ba}; {b} has the id {ib} and maps to {bb}.",
    "{a} and {b} map to {ba} and {bb}, respectively (ids {ia} and {ib}).",
    "Gene {ia} is {a}, at {ba}, whereas gene {ib} is {b}, at {bb}.",
    "{ba} is the band of {a}, {bb} that of {b}.",
    "Das Gen {a} (ID {ia}) liegt auf {ba}, {b} (ID {ib}) auf {bb}.",
    "Le gène {a} se trouve en {ba} (id {ia}) et {b} en {bb} (id {ib}).",
    "**{a}** – {ba} – {ia}\n**{b}** – {bb} – {ib}",
    "The ids of {a} and {b} are {ia} and {ib}.",
    "While {a} is located at {ba}, {b} is found at {bb}.",
    "| {a} | {ia} | {ba} |\n| {b} | {ib} | {bb} |",
    "El gen {a} está en {ba} y {b} en {bb}.",
    "{a}'s Entrez ID is {ia}, and the one of {b} is {ib}.",
    "IDs {ia} and {ib} belong to {a} and {b}.",
)


def pairs(number: int) -> list[tuple[GeneRecord, GeneRecord]]:
    """Two genes at two places, without an alias in common."""
    genes, dice = human_genes(), random.Random(7)
    chosen: list[tuple[GeneRecord, GeneRecord]] = []
    while len(chosen) < number:
        a, b = dice.sample(genes, 2)
        if a.location != b.location and not {a.symbol, *a.aliases} & {b.symbol, *b.aliases}:
            chosen.append((a, b))
    return chosen


def alarms(a: GeneRecord, b: GeneRecord, sentence: str, *, is_one_reply: bool) -> int:
    records = tuple(line_of(gene, Focus()) for gene in (a, b))
    reply = [Source("\n".join(records), records=records)]
    sources = reply if is_one_reply else [Source(record, records=(record,)) for record in records]
    evidence = Evidence(sources, "Where do the genes lie?", READER)
    return sum(len(evidence.check(line, sentence).mismatches) for line in sentence.split("\n"))


@pytest.mark.parametrize("is_one_reply", [True, False])
def test_swapped_identifiers_of_two_genes_are_all_noticed(is_one_reply: bool) -> None:
    """Of 200 sentences that give each gene the other's id and band, none passes; of 200 right ones, all do."""
    missed, false = [], []
    for place, (a, b) in enumerate(pairs(200)):
        shape = SHAPES[place % len(SHAPES)]
        right = shape.format(a=a.symbol, b=b.symbol, ia=a.uid, ib=b.uid, ba=a.location, bb=b.location)
        swapped = shape.format(a=a.symbol, b=b.symbol, ia=b.uid, ib=a.uid, ba=b.location, bb=a.location)
        if not alarms(a, b, swapped, is_one_reply=is_one_reply):
            missed.append(swapped)
        if alarms(a, b, right, is_one_reply=is_one_reply):
            false.append(right)

    assert (missed, false) == ([], [])


RECORDS = (
    "PSMB10 (human) protein-coding chr16 16q22.1; aliases LMP10, MECL1; id 5699",
    "Psmb10 (mouse) protein-coding chr8 8 D3; aliases Lmp10; id 19171",
    "INS (human) protein-coding chr11 11p15.5; insulin; id 3630",
)


@pytest.mark.parametrize(
    ("question", "sentence", "num_alarms"),
    [
        ("Where is LMP10?", "It lies at 16q22.1.", 0),
        ("Where is LMP10?", "It lies at 11p15.5.", 1),
        ("What is LMP10?", "LMP10 is PSMB10 (id 5699); its mouse counterpart Psmb10 has the id 19171.", 0),
        ("What is LMP10?", "LMP10 has the id 3630.", 1),
        ("Where are they?", "Neither PSMB10 nor INS is on chromosome 8.", 1),
    ],
)
def test_names_of_the_question_bind_too(question: str, sentence: str, num_alarms: int) -> None:
    """Where the sentence has no name it speaks of the question's."""
    evidence = Evidence([Source("\n".join(RECORDS), records=RECORDS)], question, READER)

    assert len(evidence.check(sentence).mismatches) == num_alarms
