"""Find the segments of nucleotide records that IDs name: by UID, or by accession with or without its version."""

from __future__ import annotations

from collections import defaultdict

from retrieval.gateway.records import SequenceSegment
from retrieval.gateway.store import GatewayStore


class Stretches:
    """Look up the segments of one call; the store is read once, and only for the first ID."""

    def __init__(self, store: GatewayStore) -> None:
        self._store = store
        self._known: dict[str, list[SequenceSegment]] | None = None

    def named(self, uid: str) -> list[SequenceSegment]:
        """Return the segments of an ID, by accession and start; an accession names all its segments."""
        if self._known is None:
            self._known = _by_name(self._store)
        return self._known.get(uid, [])


def _by_name(store: GatewayStore) -> dict[str, list[SequenceSegment]]:
    found: dict[str, list[SequenceSegment]] = defaultdict(list)
    for segment in store.segments():
        for name in {segment.uid, segment.accession, segment.accession.split(".")[0]}:
            found[name].append(segment)
    return dict(found)
