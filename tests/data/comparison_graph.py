"""A little graph as the comparison builds it from edges, with an encoder without weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from models.encoders.hashing import HashingEncoder
from scripts.evals.comparators.graph import Evaluated, build


def open_edge(disease: str, gene: str, p_value: float, **more: Any) -> dict[str, Any]:
    return {
        "disease": disease,
        "doid": f"DOID:{len(disease)}",
        "predicate": "associates",
        "target_type": "Gene",
        "target": gene,
        "provenance": "GWAS",
        "licence": "CC BY 4.0",
        "evidence": {"gwas_pvalue": p_value},
        **more,
    }


EDGES = (
    open_edge("celiac disease", "PLEK", 8e-09),
    open_edge("celiac disease", "IL2", 3e-10),
    open_edge("childhood-onset asthma", "RORA", 2e-37),
    open_edge("Hodgkin's lymphoma", "GATA3", 1e-12),
    open_edge("celiac disease", "Infliximab", 0.5, predicate="treats", target_type="Compound"),
    {
        "disease": "celiac disease",
        "source_type": "Variant",
        "source": "rs17035378",
        "predicate": "associates",
        "target_type": "Disease",
        "target": "celiac disease",
        "provenance": "ClinVar",
        "evidence": {"confidence_score": 2.0},
    },
)


def build_little(folder: Path) -> Evaluated:
    """``folder`` holds the edges' file and the graph."""
    path = folder / "little.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in EDGES))
    return build([path], {"celiac disease": "DOID:14"}, folder / "graph", HashingEncoder())
