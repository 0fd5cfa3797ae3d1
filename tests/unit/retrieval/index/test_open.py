"""Opening a vector index: back ends that cannot build it or are not there, and what is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from retrieval.errors import BACKEND_UNAVAILABLE, INDEX_INPUT_INVALID, IndexFault
from retrieval.index.open import create_index
from retrieval.index.segments.manifest import OpenOptions
from retrieval.index.spec import KINDS, IndexSpec


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "flat"])
def test_the_torch_back_end_refuses_types_that_it_cannot_build(tmp_path: Path, kind: str) -> None:
    """Before anything is written."""
    with pytest.raises(IndexFault, check=INDEX_INPUT_INVALID.is_of):
        create_index(tmp_path / "index", IndexSpec(dim=8, metric="l2", kind=kind, backend="torch"))  # type: ignore[arg-type]
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize("backend", ["faiss-gpu", "torch"])
def test_a_device_that_is_not_there_is_named(tmp_path: Path, backend: str) -> None:
    """With the wheel, so that the reader can tell a missing device from a wrong build."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("faiss")
    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    spec = IndexSpec(dim=8, metric="l2", backend=backend)  # type: ignore[arg-type]

    with pytest.raises(IndexFault, match=r"faiss-|torch 2", check=BACKEND_UNAVAILABLE.is_of) as fault:
        create_index(tmp_path / "index", spec, OpenOptions(device="cuda:0"))

    assert fault.value.hint
