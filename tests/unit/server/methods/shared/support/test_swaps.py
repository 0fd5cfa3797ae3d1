"""Values exchanged between the names that a passage binds them to, in sentences of many shapes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from server.methods.base import Source
from server.methods.shared.support.correspondence import Evidence
from server.methods.shared.support.quantities import QuantityReader
from server.methods.shared.support.units import Units

PASSAGES = Path(__file__).parents[6] / "scripts" / "evals" / "questions" / "capable_passages.jsonl"
READER = QuantityReader(Units())
# The beginning of a passage's title, and what it says: of a name a value, of another name another value.
PAIRS = (
    ("Screening for ret", "ranibizumab 0.2 mg", "80 percent", "laser", "66 percent"),
    ("Intravitreal", "ranibizumab", "0.5 mg", "aflibercept", "2 mg"),
    ("Intravitreal", "faricimab", "6 mg", "ranibizumab", "0.5 mg"),
    ("Central retinal", "fibrinolysis", "37.1%", "conservative treatment", "4.3%"),
    ("Red cell", "cardiac surgery", "75 g/L", "orthopaedic surgery", "80 g/L"),
    ("Platelet", "a central venous catheter", "20 × 10⁹/L", "lumbar puncture", "40 × 10⁹/L"),
    ("Platelet", "neurosurgery", "100 × 10⁹/L", "lumbar puncture", "40 × 10⁹/L"),
    ("Storage", "red cells", "35 days", "platelets", "7 days"),
    ("Lung injury", "TRALI", "6 hours", "TACO", "12 hours"),
    ("Praziquantel", "Schistosoma haematobium", "40 mg/kg", "Schistosoma japonicum", "60 mg/kg"),
    ("Neurocyst", "albendazole", "15 mg/kg", "praziquantel", "50 mg/kg"),
    ("Local anaesthetic", "bupivacaine", "2 mg/kg", "ropivacaine", "3 mg/kg"),
    ("Fasting", "solid food", "6 h", "breast milk", "3 h"),
    ("Fasting", "breast milk", "3 hours", "formula", "4 hours"),
    ("Ketamine", "ketamine", "1 to 2 mg/kg", "esketamine", "0.5 to 1 mg/kg"),
    ("Hydroxyethyl", "starch", "22%", "Ringer's acetate", "16%"),
    ("Giant cell", "tocilizumab", "56%", "placebo", "14%"),
    ("Iodine", "adults", "150 µg", "pregnant women", "250 µg"),
    ("Iodine", "school children", "100 to 199 µg/L", "pregnant women", "150 to 249 µg/L"),
    ("Energy", "glucose", "3.4 kcal/g", "amino acids", "4 kcal/g"),
    ("Polycystic", "PKD1", "78%", "PKD2", "15%"),
    ("Polycystic", "PKD1", "16p13.3", "PKD2", "4q22.1"),
    ("Lynch", "MLH1", "3p22.2", "MSH2", "2p21"),
    ("Mitochondrial", "MELAS", "m.3243A>G", "MERRF", "m.8344A>G"),
    ("Potassium", "sodium zirconium cyclosilicate", "10 g", "patiromer", "8.4 g"),
    ("Theophylline", "adults who do not smoke", "8 hours", "smokers", "4.5 hours"),
    ("Edoxaban", "edoxaban", "60 mg", "rivaroxaban", "20 mg"),
    ("Familial", "adults", "3 mg a day", "children", "2 mg a day"),
    ("High-sens", "Elecsys troponin T", "52 ng/L", "Architect troponin I", "64 ng/L"),
    ("Death cap", "silibinin", "5 mg/kg", "amatoxin", "0.1 mg/kg"),
    ("DPYD", "c.1905+1G>A", "rs3918290", "c.1679T>G", "rs55886062"),
    ("Osmolal", "loading dose", "15 mg/kg", "continued", "10 mg/kg"),
)
SHAPES = (
    "With {a} it is {x}.",
    "{x} goes with {a}.",
    "{a}: {x}; {b}: {y}.",
    "It is {x} for {a} and {y} for {b}.",
    "{a} has {x}, whereas {b} has {y}.",
    "{b} ({y}) differs from {a} ({x}).",
    "{a} ({x}), {b} ({y})",
    "{a} and {b} have {x} and {y}, respectively.",
    "For {a} and {b} the values are {x} and {y}.",
    "Bei {a} sind es {x}, bei {b} {y}.",
    "Pour {a} c'est {x} et pour {b} {y}.",
    "Con {a} son {x} y con {b} {y}.",
    "- {a}: **{x}**\n- {b}: **{y}**",
    "| {a} | {x} |\n| {b} | {y} |",
    "{x} with {a} against {y} with {b} was found.",
    "While {b} stands at {y}, {a} stands at {x}.",
    "That of {a} is {x} and that of {b} is {y}.",
)


@cache
def evidence(title: str, question: str = "") -> Evidence:
    rows = map(json.loads, PASSAGES.read_text(encoding="utf-8").splitlines())
    row = next(row for row in rows if row["title"].startswith(title))
    return Evidence([Source(row["content"], 1, row["title"])], question, READER)


def sentences(*, is_swapped: bool) -> Iterator[tuple[str, str]]:
    for title, a, x, b, y in PAIRS:
        values = (y, x) if is_swapped else (x, y)
        for shape in SHAPES:
            yield title, shape.format(a=a, b=b, x=values[0], y=values[1])


def noticed(title: str, text: str) -> list[str]:
    return [one.detail for line in text.split("\n") for one in evidence(title).check(line).mismatches]


def test_exchanged_values_are_noticed() -> None:
    """At least nine of ten sentences that give a name the other's value are labelled."""
    every = list(sentences(is_swapped=True))
    missed = [one for one in every if not noticed(*one)]

    assert len(missed) <= 0.1 * len(every), missed


def test_values_beside_their_names_are_not_labelled() -> None:
    """At most two of a hundred of the same sentences with the values in their places are."""
    every = list(sentences(is_swapped=False))
    alarmed = [one for one in every if noticed(*one)]

    assert len(alarmed) <= 0.02 * len(every), alarmed


def test_bare_answers_are_about_what_was_asked() -> None:
    """Three of four values of another name are noticed by the question's name, and one right one is labelled."""
    missed, alarmed = [], []
    for title, a, x, b, y in PAIRS:
        for name, own, other in ((a, x, y), (b, y, x)):
            text = evidence(title, f"What is the value for {name}?")
            missed += [(name, other)] * (not text.check(f"{other} [1].").mismatches)
            alarmed += [(name, own)] * bool(text.check(f"It is {own} [1].").mismatches)

    assert len(alarmed) <= 1, alarmed
    assert len(missed) <= len(PAIRS) / 2, missed
