"""Tell what two runs of a review have differently: new, gone and changed articles. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from server.methods.shared.evidence_table import EvidenceRow, Exclusion


@dataclass(frozen=True, slots=True)
class Gone:
    """Hold an article that was evidence and is none now; ``reason`` is "" where the later run has not found it."""

    uid: str
    title: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ReviewChanges:
    """Hold the uids of new articles, what is gone, and what is told differently of articles that both runs have.

    ``changed`` has, by uid, the names of what is not the same: "notices" (a retraction since), "result".
    """

    new: tuple[str, ...] = ()
    gone: tuple[Gone, ...] = ()
    changed: Mapping[str, tuple[str, ...]] | None = None

    @property
    def as_dict(self) -> dict[str, Any]:
        changed = {uid: list(names) for uid, names in (self.changed or {}).items()}
        return {"new": list(self.new), "gone": [asdict(one) for one in self.gone], "changed": changed}


def changes_of(
    before: Sequence[EvidenceRow], after: Sequence[EvidenceRow], excluded: Sequence[Exclusion] = ()
) -> ReviewChanges:
    """Return what the later run has differently; ``excluded`` are its exclusions, which say why an article is gone."""
    known, there = {row.uid: row for row in before}, {row.uid: row for row in after}
    reasons = {one.uid: one.reason for one in excluded}
    changed = {uid: names for uid, row in there.items() if uid in known and (names := _changed(known[uid], row))}
    return ReviewChanges(
        new=tuple(uid for uid in there if uid not in known),
        gone=tuple(Gone(uid, row.title, reasons.get(uid, "")) for uid, row in known.items() if uid not in there),
        changed=changed,
    )


def _changed(before: EvidenceRow, after: EvidenceRow) -> tuple[str, ...]:
    names = [
        "notices" if set(before.notices) != set(after.notices) else "",
        "result" if before.result.value != after.result.value else "",
    ]
    return tuple(filter(None, names))
