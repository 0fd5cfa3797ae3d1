"""Find names that differ from the dictionary's spelling by their vectors and by their words.

Vectors propose candidates and spelling decides, because no threshold of similarity or margin separates right from wrong
ones. Measured with all-MiniLM-L6-v2 over 6,306 names of diseases: of the 246 of them that development questions name, a
name removed from the graph still matched another at 0.6 or above 215 times, at 0.85 90 times ("beta-mannosidosis"
matched alpha-mannosidosis at 0.90), while names with one wrong letter were often below 0.7.

So a candidate must have the same words (``agreement``: typos only, the same numbers), a similarity of at least 0.45,
below which chance matches begin ("T2DM" T cell deficiency at 0.38, "pasta" impetigo at 0.41), and be 0.02 better than
the next node with the same words. Otherwise the span stays unlinked. Measured with these rules over all 6,306 names: of
6,260 with one random typo, 4,945 were right, 2 wrong, the rest unlinked; removed from the graph one by one, 11 were
linked to another node, 4 of them to a second node of the same name, the others to one that is a letter or two away
(ectropion, entropion).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from models.encoders.base import Encoder
from retrieval.graph.base import GraphStore, NameOf
from retrieval.graph.linking.agreement import agreement
from retrieval.graph.linking.folding import fold
from retrieval.graph.linking.name_vectors import (
    NameRows,
    NameVectors,
    open_or_build,
    read_names,
    vectors_in_memory,
)
from retrieval.graph.linking.spans import outside
from retrieval.graph.linking.symbols import is_generic
from retrieval.graph.linking.types import Span
from retrieval.graph.types import Mention
from retrieval.index.base import VectorIndex

FLOOR: Final = 0.45
MARGIN: Final = 0.02
BUILD_WAIT_S: Final = 120.0
_NEIGHBOURS: Final = 24
_MAX_SPANS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """Hold the nearest node of a span; if ``accepted`` is False, the linker abstains for the reason ``why``."""

    name: NameOf
    score: float
    margin: float
    accepted: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class NearestNames:
    """Link spans by vectors, from any thread, blocking while the encoder runs; made by ``build_nearest``."""

    store: GraphStore
    encoder: Encoder
    names: NameRows
    vectors: NameVectors
    index: VectorIndex | None = None
    floor: float = FLOOR
    margin: float = MARGIN

    def find(self, spans: Sequence[Span], kinds: frozenset[str] | None = None) -> list[Mention]:
        """Return mentions without overlaps, the longest spans first, for at most 64 spans."""
        spans = [span for span in spans if not is_generic(tuple(fold(span.text)))][:_MAX_SPANS]
        mentions: list[Mention] = []
        taken: list[tuple[int, int]] = []
        guesses = dict(zip(spans, self.guess([span.text for span in spans], kinds), strict=True))
        for span in spans:
            guess = guesses[span]
            if guess is None or not guess.accepted or not list(outside([span], taken)):
                continue
            node = self.store.node(guess.name.node_id)
            if node is not None:
                taken.append((span.start, span.end))
                mentions.append(
                    Mention(
                        node=node,
                        start=span.start,
                        end=span.end,
                        method="nearest",
                        score=guess.score,
                        margin=guess.margin,
                    )
                )
        return mentions

    def guess(self, texts: Sequence[str], kinds: frozenset[str] | None = None) -> list[Guess | None]:
        """Return for each text its accepted node, or the nearest one and why it was rejected; None without names."""
        if not texts or not len(self.names):
            return [None] * len(texts)
        rows, scores = self.vectors.search(self.encoder.encode_queries(texts), _NEIGHBOURS)
        return [
            self._judge(
                text,
                [(float(score), self.names[int(row)]) for row, score in zip(*found, strict=True) if row >= 0],
                kinds,
            )
            for text, found in zip(texts, zip(rows, scores, strict=True), strict=True)
        ]

    def close(self) -> None:
        if self.index is not None:
            self.index.close()

    def _judge(self, text: str, near: list[tuple[float, NameOf]], kinds: frozenset[str] | None) -> Guess | None:
        near = [(score, name) for score, name in near if kinds is None or name.kind in kinds]
        if not near:
            return None
        words = fold(text)
        best: dict[str, tuple[float, float, NameOf]] = {}
        for score, name in near:
            same = agreement(words, fold(name.name), self.names.words)
            if same and score > best.get(name.node_id, (-2.0, 0.0, name))[0]:
                best[name.node_id] = (score, same, name)
        if not best:
            score, name = near[0]
            return Guess(name=name, score=score, margin=0.0, accepted=False, why="of other words")
        ranked = sorted(best.values(), key=lambda found: (-found[1], -found[0]))
        score, _, name = ranked[0]
        margin = 1.0
        if len(ranked) > 1:
            margin = ranked[0][0] * ranked[0][1] - ranked[1][0] * ranked[1][1]
        why = "too far" if score < self.floor else "another is as near" if margin < self.margin else ""
        return Guess(name=name, score=score, margin=margin, accepted=not why, why=why)


def build_nearest(
    store: GraphStore, encoder: Encoder, folder: Path | None = None, *, wait_s: float = BUILD_WAIT_S
) -> NearestNames:
    """Build or open the vectors of all names of the graph.

    Without ``folder`` they are in memory, up to 100,000 names; with it in an index on disk, opened if it is complete
    and of these names, and built otherwise (about 5 ms a name on one core).

    Raises:
        GraphBusy: another process builds the folder for longer than ``wait_s``.
        GraphError: too many names, or an encoder without inner products.
        As ``open_or_build``.
    """
    names = read_names(store)
    if folder is None:
        return NearestNames(store, encoder, names, vectors_in_memory(names, encoder))
    vectors, index = open_or_build(folder, store, names, encoder, wait_s)
    return NearestNames(store, encoder, names, vectors, index)
