"""Validate the input of an index: no accepted value makes a search wrong or a file unreadable."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from models.encoders.base import Floats
from retrieval.index.base import Ids, RowFilter
from retrieval.index.columns import Columns
from retrieval.index.errors import IndexInputInvalid

MAX_BATCH: Final = 262_144
MAX_K: Final = 10_000
MAX_QUERIES: Final = 65_536
# Vectors are stored as centred float16: half of its range leaves headroom for the mean.
_MAX_VALUE: Final = 30_000.0


def checked_rows(rows: Any, dim: int) -> tuple[Columns, Floats]:
    """Return validated columns and vectors as contiguous copies.

    Raises:
        IndexInputInvalid: ``param`` names the invalid argument.
    """
    ids = checked_ids(rows.ids)
    if len(ids) > MAX_BATCH:
        raise IndexInputInvalid(f"{len(ids)} rows in one call; at most {MAX_BATCH}", param="ids")
    if len(ids) and int(ids.min()) < 1:
        raise IndexInputInvalid("ids must be positive", param="ids")
    if len(np.unique(ids)) != len(ids):
        raise IndexInputInvalid("an id is there twice in one batch", param="ids")
    vectors = checked_vectors(rows.vectors, dim, "vectors")
    if len(vectors) != len(ids):
        raise IndexInputInvalid(f"{len(vectors)} vectors for {len(ids)} ids", param="vectors")
    if vectors.size and float(np.abs(vectors).max()) > _MAX_VALUE:
        raise IndexInputInvalid(f"a value is over {_MAX_VALUE:.0f} and cannot be kept as float16", param="vectors")
    columns = Columns(
        ids=ids,
        dates=_column(rows.dates, np.int32, len(ids), "dates"),
        types=_column(rows.types, np.int64, len(ids), "types"),
        namespaces=_column(rows.namespaces, np.int32, len(ids), "namespaces"),
    )
    return columns, vectors


def checked_ids(ids: Any) -> Ids:
    found = np.asarray(ids)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise IndexInputInvalid("ids must be one row of whole numbers", param="ids")
    if found.dtype.kind == "u" and found.size and int(found.max()) > np.iinfo(np.int64).max:
        raise IndexInputInvalid("an id is over 63 bits", param="ids")
    return np.array(found, dtype=np.int64)


def checked_vectors(vectors: Any, dim: int, name: str) -> Floats:
    found = np.asarray(vectors)
    if found.ndim != 2 or found.shape[1] != dim:
        raise IndexInputInvalid(f"{name} have shape {found.shape}, not [n, {dim}]", param=name)
    if found.dtype.kind != "f":
        raise IndexInputInvalid(f"{name} are {found.dtype}, not floats", param=name)
    own = np.array(found, dtype=np.float32, order="C")
    if not np.isfinite(own).all():
        raise IndexInputInvalid(f"{name} hold a value that is no finite number", param=name)
    return own


def checked_k(k: int) -> int:
    if not 1 <= k <= MAX_K:
        raise IndexInputInvalid(f"k is {k}, not in 1..{MAX_K}", param="k")
    return k


def checked_filter(where: RowFilter | None) -> RowFilter | None:
    """Return the validated filter, None if it excludes nothing."""
    if where is None or (where.ids is None and where == RowFilter()):
        return None
    if where.ids is not None:
        ids = checked_ids(where.ids)
        if len(ids) > 1 and not bool(np.all(np.diff(ids) > 0)):
            raise IndexInputInvalid("the ids of a filter must ascend, each once", param="where")
    return where


def _column(values: Any, dtype: type[np.integer[Any]], rows: int, name: str) -> NDArray[Any]:
    if values is None:
        return np.zeros(rows, dtype)
    found = np.asarray(values)
    if found.shape != (rows,) or (found.size and found.dtype.kind not in "iu"):
        raise IndexInputInvalid(f"{name} must be {rows} whole numbers", param=name)
    limits = np.iinfo(dtype)
    if found.size and (int(found.min()) < limits.min or int(found.max()) > limits.max):
        raise IndexInputInvalid(f"{name} hold a number that is over {dtype.__name__}", param=name)
    return np.array(found, dtype=dtype)
