"""Places of passages follow the texts, through changes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from corpus_doubles import WordEncoder, backends
from corpus_files import reading

from retrieval.corpus.ingest.add import add_items
from retrieval.corpus.namespaces.order import PassageOrder
from retrieval.corpus.namespaces.registry import Namespaces
from retrieval.corpus.namespaces.settings import NamespaceSettings


def test_passages_have_their_place_in_the_order_of_the_texts(tmp_path: Path) -> None:
    """What was added later comes after, and what the store does not have last."""
    namespaces = Namespaces(tmp_path, backends(WordEncoder()))
    namespaces.create("ns", NamespaceSettings(encoder="words"))
    with namespaces.using("ns") as namespace:
        order = PassageOrder(namespace.store)
        assert order.places(np.array([7], dtype=np.int64)).tolist() == [0]
        add_items(namespaces, "ns", [reading(f"PMID:{n}", f"The words of {n}.") for n in range(20)])
        ids = namespace.store.passage_ids()
        assert order.places(ids).tolist() == list(range(20))
        add_items(namespaces, "ns", [reading("PMID:99", "Other words.")])
        assert order.places(np.append(ids[:2], -1)).tolist() == [0, 1, 21]
    namespaces.close()
