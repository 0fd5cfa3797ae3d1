"""Vectors as encoders make them, for tests of indices: in clusters, or with MedCPT's far-off mean."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.encoders.base import Floats, Metric
from retrieval.index.base import Ids, RowFilter, Rows

DIM = 32


def clustered(rows: int, dim: int = DIM, seed: int = 0) -> Floats:
    """Unit vectors around one centre for each fifty of them."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((max(1, rows // 50), dim))
    vectors = centres[rng.integers(len(centres), size=rows)] + 0.4 * rng.standard_normal((rows, dim))
    unit: Floats = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return unit


def like_medcpt(rows: int, dim: int = 256, seed: int = 0) -> tuple[Floats, Floats]:
    """(vectors, queries) whose inner products are about 67 and, at the top, some hundredths apart."""
    rng = np.random.default_rng(seed)
    mean = rng.standard_normal(dim)
    mean *= np.sqrt(67) / np.linalg.norm(mean)
    vectors = mean + 0.06 * rng.standard_normal((rows, dim))
    queries = mean + 0.06 * rng.standard_normal((8, dim))
    return vectors.astype(np.float32), queries.astype(np.float32)


def rows_for(vectors: Floats, seed: int = 0) -> Rows:
    """Ids in no order, dates of thirty years (some unknown), ten types, three namespaces."""
    rng = np.random.default_rng(seed)
    count = len(vectors)
    dates = rng.integers(1990, 2021, count) * 10_000 + rng.integers(0, 13, count) * 100
    dates[rng.random(count) < 0.1] = 0
    return Rows(
        ids=(rng.permutation(count) * 7 + 1).astype(np.int64),
        vectors=vectors,
        dates=dates.astype(np.int32),
        types=(1 << rng.integers(0, 10, count)).astype(np.int64),
        namespaces=rng.integers(1, 4, count).astype(np.int32),
    )


def part_of(rows: Rows, some: NDArray[np.int64] | slice) -> Rows:
    assert rows.dates is not None and rows.types is not None and rows.namespaces is not None
    return Rows(
        ids=rows.ids[some],
        vectors=rows.vectors[some],
        dates=rows.dates[some],
        types=rows.types[some],
        namespaces=rows.namespaces[some],
    )


def matching_mask(rows: Rows, where: RowFilter) -> NDArray[np.bool_]:
    """The filter's words, row by row."""
    assert rows.dates is not None and rows.types is not None and rows.namespaces is not None
    allowed = None if where.ids is None else set(where.ids.tolist())
    found = []
    for row, date, types, namespace in zip(rows.ids, rows.dates, rows.types, rows.namespaces, strict=True):
        dated = bool(date) and date >= where.date_from and (not where.date_to or date <= where.date_to)
        found.append(
            (where.namespaces is None or int(namespace) in where.namespaces)
            and (dated or not (where.date_from or where.date_to))
            and (not where.types or bool(types & where.types))
            and not types & where.without_types
            and (allowed is None or int(row) in allowed)
        )
    return np.array(found, np.bool_)


def nearest(metric: Metric, rows: Rows, queries: Floats, k: int, mask: NDArray[np.bool_] | None = None) -> Ids:
    """The truth, in float64."""
    vectors, asked = rows.vectors.astype(np.float64), queries.astype(np.float64)
    scores = asked @ vectors.T if metric == "inner_product" else -((asked[:, None] - vectors[None]) ** 2).sum(-1)
    if mask is not None:
        scores[:, ~mask] = -np.inf
    order = np.lexsort((np.broadcast_to(rows.ids, scores.shape), -scores), axis=1)[:, :k]
    return np.where(np.take_along_axis(scores, order, 1) == -np.inf, -1, rows.ids[order])


def recall(found: Ids, truth: Ids) -> float:
    hits = sum(len(set(f.tolist()) & set(t.tolist()) - {-1}) for f, t in zip(found, truth, strict=True))
    return hits / max(1, int((truth != -1).sum()))


def write_medcpt_chunk(folder: Path, number: int, rows: int, *, seed: int = 0, dim: int = 768) -> dict[str, Floats]:
    """The three files of a chunk as NCBI writes them; returns the vector of each PMID.

    Articles stand in another order than the vectors; every seventh has no abstract.
    """
    rng = np.random.default_rng(seed + number)
    pmids = np.sort(rng.choice(999_000, rows, replace=False)) + 1 + number * 1_000_000
    vectors = rng.standard_normal((rows, dim), dtype=np.float32)
    np.save(folder / f"embeds_chunk_{number}.npy", vectors)
    (folder / f"pmids_chunk_{number}.json").write_text(json.dumps([str(pmid) for pmid in pmids]))
    articles = {
        str(pmid): {
            "d": f"{1990 + int(pmid) % 30}0{1 + int(pmid) % 9}15",
            "t": f"Title of {pmid} – “β-catenin”",
            "a": "" if place % 7 == 0 else f'Abstract of {pmid} with {{braces}}, "quotes" and \\ signs.',
            "m": "Humans!|Neoplasms!genetics*|",
        }
        for place, pmid in enumerate(pmids.tolist())
    }
    shuffled = dict(sorted(articles.items(), key=lambda item: item[0][::-1]))
    (folder / f"pubmed_chunk_{number}.json").write_text(json.dumps(shuffled))
    return {str(pmid): vector for pmid, vector in zip(pmids, vectors, strict=True)}
