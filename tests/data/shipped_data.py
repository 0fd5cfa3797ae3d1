"""What a server makes of the shipped data at its first start, made once a run and given to all who need it."""

from __future__ import annotations

import shutil
from functools import lru_cache
from pathlib import Path

from own_folders import made_once

from models.encoders.hashing import HashingEncoder
from retrieval.gateway.store.open import STORE_NAME, open_store
from retrieval.graph.linking.dictionary_lookup.terms import TermNames, term_names
from retrieval.graph.store.catalog import SHIPPED, open_or_build
from retrieval.storage.files import make_folder
from retrieval.terminology.concepts import shipped_terminology


@lru_cache(maxsize=1)
def shipped_names() -> TermNames:
    """Return the names of the shipped terminology, whose index is made once a run, as it takes seconds."""
    with made_once("graphs") as folder:
        return term_names(shipped_terminology(), folder)


@lru_cache(maxsize=1)
def _shipped_graph() -> Path:
    """Return the folder of the shipped graph, which is built once a run too."""
    with made_once("graphs") as folder:
        open_or_build(folder, SHIPPED, HashingEncoder()).close()
        return folder / SHIPPED


@lru_cache(maxsize=1)
def _sample_store() -> Path:
    with made_once("gateway") as folder:
        open_store(folder).close()
        return folder / STORE_NAME


def give_graph(graphs: Path) -> None:
    """Put both where a server with this folder of graphs looks for them."""
    shipped_names()
    shipped = _shipped_graph()
    make_folder(graphs / SHIPPED)
    for made in (*shipped.parent.glob(".names-*"), *shipped.iterdir()):
        (graphs / made.relative_to(shipped.parent)).hardlink_to(made)


def give_store(folder: Path) -> Path:
    """Put the sample's store where the folder has none, and return the folder."""
    if not (folder / STORE_NAME).exists():
        make_folder(folder)
        shutil.copy(_sample_store(), folder)
    return folder


def give_data(folder: Path) -> None:
    """Give graph and store to servers whose data folder this is, before the first of them starts."""
    with made_once("given"):
        if not (folder / "graphs").exists():
            give_graph(folder / "graphs")
            give_store(folder / "gateway")
