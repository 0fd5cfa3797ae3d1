"""Build WeiseEule's steps and its record for the trace. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from retrieval.corpus.search.ranking import RankedPassage
from server.methods.medrag.context import passage_record
from server.methods.medrag.report import counted, listed
from server.methods.shared.passages import Gathered
from server.methods.weiseeule.library import AskedKeyword, CountedKeyword, KeywordsRanked
from server.methods.weiseeule.options import WeiseOptions

_SOURCES: Final[Mapping[str, str]] = {
    "marks": "marked in the question",
    "options": "given",
    "model": "chosen by the model",
    "terms": "chosen by names and counts",
}
_MAX_WAYS: Final = 6


@dataclass(frozen=True, slots=True)
class Found:
    """Hold what was found: the chosen retriever's passages, the counts of the keywords, and those of the others.

    ``ranked`` is None where the namespaces cannot count keywords, for the reason ``lack``.
    """

    gathered: Gathered
    ranked: KeywordsRanked | None
    lack: str = ""
    compared: Mapping[str, tuple[RankedPassage, ...] | str] = field(default_factory=dict)

    @property
    def steps(self) -> list[str]:
        lines = []
        if self.ranked is not None:
            lines += [told for one in self.ranked.keywords if (told := _told(one))]
            if absent := [one.text for one in self.ranked.keywords if not any(w.occurrences for w in one.spellings)]:
                lines.append(f"in no passage: {', '.join(absent)}")
        elif self.lack:
            lines.append(f"keywords are not counted: {self.lack}")
        for name, hits in self.compared.items():
            lines.append(f"{name}: {hits}" if isinstance(hits, str) else f"{name}: {counted(len(hits), 'passage')}")
        return lines


def named(keywords: Sequence[AskedKeyword], source: str) -> str:
    shown = ", ".join(f"{one.text} (fixed)" if one.fixed else one.text for one in keywords)
    return f"keywords {_SOURCES[source]}: {shown or 'none'}"


def _told(one: CountedKeyword) -> str:
    """Return the line on the other spellings that were counted, "" where there are none."""
    ways = [f"{way.text} ({way.kind}, {way.occurrences})" for way in one.spellings[1:]]
    named = {way.text.lower() for way in one.spellings}
    ways += [f"{text} ({number} here)" for text, number in one.written if text not in named]
    return f"{one.text} ({one.spellings[0].occurrences}) also as {listed(ways, _MAX_WAYS)}" if ways else ""


def details_of(options: WeiseOptions, source: str, found: Found) -> dict[str, Any]:
    """Return the record for the trace, with the table of counts."""
    compared = {
        name: hits if isinstance(hits, str) else [passage_record(one, rank=n) for n, one in enumerate(hits, 1)]
        for name, hits in found.compared.items()
    }
    return {
        "method": "weiseeule",
        "options": asdict(options),
        "namespaces": list(found.gathered.namespaces),
        "retriever": options.retriever,
        "matching": options.matching,
        "retrieval_s": round(found.gathered.seconds, 4),
        "keywords_from": source,
        "keyword_table": found.ranked.record if found.ranked else None,
        "passages": [passage_record(one, rank=rank) for rank, one in enumerate(found.gathered.lists[0], 1)],
    } | ({"compared": compared} if compared else {})
