"""Read edges and questions of the KG-RAG evaluations, as JSON Lines, into graph records."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from retrieval.graph.types import Edge, Neighbourhood, Node, Statement

Row = dict[str, Any]


def rows_of(path: Path) -> Iterator[Row]:
    """Lines of a JSON Lines file, also a gzipped one."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


class EdgeFile:
    """Edges of one file by disease: {"disease", "doid", "predicate", "target_type", "target", "provenance" …}.
    Provenance and evidence may be null. ``statements`` in file order; ``row`` is the place."""

    def __init__(self, path: Path) -> None:
        self.statements: list[Statement] = []
        self._of: dict[str, list[Statement]] = defaultdict(list)
        self._diseases: dict[str, Node] = {}
        for row in rows_of(path):
            self._add(row)

    def diseases(self) -> list[str]:
        return list(self._diseases)

    def neighbourhood(self, disease: str) -> Neighbourhood | None:
        """Letter case apart; None for a disease without edges."""
        node = self._diseases.get(disease.casefold())
        if node is None:
            return None
        return Neighbourhood(node=node, statements=tuple(self._of[disease.casefold()]), graph="edges", release="")

    def _add(self, row: Row) -> None:
        key = row["disease"].casefold()
        identifier = row.get("doid") or row["disease"]
        disease = self._diseases.setdefault(
            key, Node(node_id=f"Disease::{identifier}", kind="Disease", name=row["disease"], identifier=identifier)
        )
        other = Node(
            node_id=f"{row['target_type']}::{row['target']}",
            kind=row["target_type"],
            name=row["target"],
            identifier=row["target"],
        )
        is_treated = row["predicate"] == "treats"
        source, target = (other, disease) if is_treated else (disease, other)
        evidence = row["evidence"] or {}
        edge = Edge(
            source_id=source.node_id,
            target_id=target.node_id,
            kind=row["predicate"],
            provenance=tuple(part.strip() for part in (row["provenance"] or "").split(",") if part.strip()),
            pmids=tuple(dict.fromkeys(item["pmid"] for item in evidence.get("items", ()) if item.get("pmid"))),
            evidence=evidence,
        )
        text = f"{source.kind} {source.name} {row['predicate']} {target.kind} {target.name}"
        statement = Statement(edge=edge, source=source, target=target, text=text, row=len(self.statements))
        self.statements.append(statement)
        self._of[key].append(statement)
