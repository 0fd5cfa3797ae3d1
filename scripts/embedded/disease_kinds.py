"""Generate questions about the genes of a disease and their locations."""

from __future__ import annotations

import re

from retrieval.ncbi.replies.condense import condense
from retrieval.ncbi.replies.records import OmimRecord, RecordList
from retrieval.types import Focus
from scripts.embedded.lookups import Lookups
from scripts.embedded.questions import phrase_question
from scripts.embedded.transcript import MAX_ENTRIES, NOT_FOUND, Part, Transcript, search_url, summary_url
from scripts.embedded.values import Values

_LISTED = re.compile(r"\n1\. ([^\n]+)")


class DiseaseKinds:
    def __init__(self, values: Values) -> None:
        self.values = values
        self.draw = values.draw
        self.lookups = Lookups(values)

    def disease(self, *, locations: bool) -> list[Part]:
        name = self.values.disease()
        transcript = Transcript(phrase_question(self.draw, "disease_location" if locations else "disease", name))
        if failed := self.lookups.failed(transcript, search_url("omim", name)):
            return transcript.answer(failed)
        entries = self._hits(name) if self.draw.random() > 0.06 else []
        self.lookups.search(transcript, "omim", name, [e.uid for e in entries])
        if not entries:
            return transcript.answer(NOT_FOUND)
        url = summary_url("omim", ",".join(e.uid for e in entries))
        if failed := self.lookups.failed(transcript, url):
            return transcript.answer(failed)
        reply = condense(RecordList("omim", tuple(entries)), Focus((name,), places=locations)).text
        transcript.call(url, reply)
        listed = _LISTED.search(reply)
        return transcript.answer(listed[1] if listed else NOT_FOUND)

    def _hits(self, disease: str) -> list[OmimRecord]:
        """Phenotypes on the topic with their genes, and others, as a search returns them."""
        v, d = self.values, self.draw
        entries: list[OmimRecord] = []
        for number in range(1, d.choice([0, 1, 1, 1, 1, 2, 2, 3, 4, 6]) + 1):
            band = v.band(v.chromosome())
            title = disease.upper().replace(" SYNDROME", "") + (f" {number}" if number > 1 else "")
            short = "".join(w[0] for w in re.findall(r"[A-Z]\w*", title))[:5] + (str(number) if number > 1 else "")
            fields: dict[str, object] = {"symbol": short} if d.random() < 0.6 else {}
            entries.append(v.omim(prefix="#", title=title, loci=(band,), **fields))
            if d.random() < 0.9:
                entries.append(v.omim(prefix="*", symbol=v.symbol(), loci=(band,)))
            if d.random() < 0.1:  # a second gene at the same place
                entries.append(v.omim(prefix="*", symbol=v.symbol(), loci=(band,)))
        entries += [self._near(disease) for _ in range(d.choice([0, 0, 1, 2, 3, 6, 12, 18]))]
        d.shuffle(entries)
        return entries[:MAX_ENTRIES]

    def _near(self, disease: str) -> OmimRecord:
        """Another entry that the search found: it shares words with the disease more often than not."""
        v, d = self.values, self.draw
        if d.random() < 0.3:
            return v.omim()
        words = [w for w in disease.upper().split() if d.random() < 0.4]
        words += v.phrase(1, 5).upper().split()
        d.shuffle(words)
        return v.omim(title=" ".join(words))
