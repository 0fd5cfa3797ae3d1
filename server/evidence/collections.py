"""Know collections of literature that a site can add, and how long this machine takes for them."""

from __future__ import annotations

import re
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from models.encoders.base import Encoder, PassageText
from retrieval.corpus.ingest.sample import NOTES_FILE, read_notes
from retrieval.formats.items import ReadOptions
from retrieval.gateway.importing.registry import KINDS
from retrieval.gateway.importing.run import Progress, import_file
from retrieval.gateway.store.open import load_corpus

LIST: Final = Path(__file__).with_name("collections.toml")
_CHARS_PER_TOKEN: Final = 4.0
_COPIES: Final = 20  # of the sample's articles, so that an import takes about a second
_PMID: Final = re.compile(r"(?<=>)\d+(?=</PMID>)")
_TEXTS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """Describe one collection; ``articles`` or ``tokens`` is what there is to read, 0 where it is not known.

    ``into``: the gateway's store, a namespace or a graph, both of the collection's name. ``reader``: the kind of its
    files there, "" for that which each file needs. ``download``: the one file that the server can fetch by itself.
    """

    name: str
    what: str
    size: str
    licence: str
    address: str
    commands: tuple[str, ...]
    resume: str
    articles: int = 0
    tokens: int = 0
    reader: str = ""
    into: Literal["namespace", "gateway", "graph"] = "namespace"
    download: str = ""


@dataclass(frozen=True, slots=True)
class Pace:
    """Hold what this machine does in a second: articles into the gateway's store, tokens into vectors."""

    articles: float
    tokens: float

    def seconds(self, collection: Collection) -> float:
        """Return how long the collection takes, 0 where its extent is not known."""
        return collection.articles / self.articles + collection.tokens / self.tokens


def collections() -> list[Collection]:
    listed = tomllib.loads(LIST.read_text(encoding="utf-8"))["collection"]
    return [Collection(**{**row, "commands": tuple(row["commands"])}) for row in listed]


def measured_pace(encoder: Encoder) -> Pace:
    """Import the sample's articles into a store of their own, and encode the shipped notes; a few seconds."""
    return Pace(_articles_a_second(), _tokens_a_second(encoder))


def _articles_a_second() -> float:
    records = [article.xml for article in load_corpus().articles]
    copies = (_PMID.sub(rf"{number}\g<0>", one) for number in range(1, _COPIES + 1) for one in records)
    checked = 0.0

    def watch(step: Progress) -> None:
        nonlocal checked
        if step.phase == "checking":
            checked = time.perf_counter()

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pubmed.xml"
        path.write_text(f"<PubmedArticleSet>{''.join(copies)}</PubmedArticleSet>", "utf-8")
        result = import_file(Path(folder) / "store", KINDS["pubmed"], path, ReadOptions(), watch)
        return result.entries / (time.perf_counter() - checked)


def _tokens_a_second(encoder: Encoder) -> float:
    notes = list(read_notes(NOTES_FILE.read_text(encoding="utf-8")))
    texts = [PassageText(one.document.title, one.text) for one in notes[:_TEXTS]]
    encoder.encode_passages(texts[:1])  # the first call makes what later ones share
    began = time.perf_counter()
    encoder.encode_passages(texts)
    chars = sum(len(one.title) + len(one.text) for one in texts)
    return chars / _CHARS_PER_TOKEN / (time.perf_counter() - began)
