"""Mix the samples of one pass: each from the same data and seed is the same."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from scripts.verifier.answer_samples import EntrySamples, span_samples
from scripts.verifier.edit_samples import EditSamples
from scripts.verifier.frame_samples import FrameSamples
from scripts.verifier.note_samples import note_samples, read_note_questions
from scripts.verifier.samples import Sample, as_keywords, as_typed
from scripts.verifier.sources import read_articles, read_entries, read_spans, read_trials
from scripts.verifier.study_samples import article_samples, trial_samples
from scripts.verifier.text_samples import TextSamples

BIOASQ: Final = Path("qa") / "bioasq"
VERIFY: Final = Path("verify")


@dataclass(frozen=True, slots=True)
class Shares:
    """Set how many of each source one pass has; PubMedQA's and BioASQ's questions are read whole.

    Where ``kept`` is not 0, only so many samples of all these remain, beside those of the twin notes.
    """

    trials: int = 1_800
    written: int = 7_000
    spans: int = 700
    entries: int = 700
    verdicts: int = 1_200
    spoken: int = 1_000
    facts: int = 700
    edits: int = 1_200
    turned: int = 1_000
    articles: int = 1
    told: int = 0
    roles: int = 0
    general: int = 0
    kept: int = 0
    # Of the written questions, those that are also asked of a near text of another question.
    near: float = 0.25


# What the first passes leave weakest has a larger share of the last.
THIRD: Final = Shares(trials=2_600, written=17_000, entries=400, spoken=900, edits=1_600, articles=3, near=0.12)
LAST: Final = replace(THIRD, written=18_000, entries=700, facts=1_400, edits=2_400, turned=1_600, told=1_200)
# Denials, exchanged roles and what is beside the point: what the sixth pass still took for what the text says.
EDITED: Final = replace(LAST, edits=4_200, turned=2_400, roles=800, general=900, near=0.2)
SHARES: Final = (Shares(), Shares(), THIRD, LAST, LAST, LAST, EDITED, EDITED)
# From here on a pass is for what a search finds beside the answer.
WITH_NOTES: Final = replace(EDITED, kept=22_000)


class Mixture:
    """Hold the training halves of all data under a folder, and draw passes of them."""

    def __init__(self, data: Path, seed: int) -> None:
        self._seed = seed
        self._trials = read_trials(data / VERIFY, "train")
        self._articles = read_articles(data / VERIFY, "train")
        self._spans = read_spans(data / VERIFY, "train")
        self._entries = EntrySamples(read_entries(data / VERIFY, "train"))
        self._texts = TextSamples(data / BIOASQ)
        self._told = self._texts.told()
        self._edits = EditSamples(self._texts.texts, f"{seed} names")
        self._frames = FrameSamples()
        self._notes = read_note_questions(held_out=False)

    def samples(self, number: int) -> list[Sample]:
        """Return the pass of that number, shuffled, questions partly as people type them."""
        draw = random.Random(f"{self._seed} pass {number}")
        shares = SHARES[number] if number < len(SHARES) else WITH_NOTES
        drawn = [as_keywords(one, draw) for one in self._all(draw, shares)]
        if shares.kept:
            drawn = [*draw.sample(drawn, min(shares.kept, len(drawn))), *note_samples(self._notes, draw)]
        drawn = [one._replace(query=as_typed(one.query, draw)) for one in drawn]
        draw.shuffle(drawn)
        return drawn

    def _all(self, draw: random.Random, shares: Shares) -> Iterator[Sample]:
        yield from trial_samples(self._trials, shares.trials, draw)
        for _ in range(shares.articles):
            yield from article_samples(self._articles, draw)
        yield from span_samples(draw.sample(self._spans, min(shares.spans, len(self._spans))), draw)
        yield from self._entries.draw(shares.entries, draw)
        yield from self._texts.written(shares.written, shares.near, draw)
        yield from self._texts.asked(draw)
        yield from self._frames.verdicts(shares.verdicts, draw)
        yield from self._frames.spoken(shares.spoken, draw)
        yield from self._frames.facts(shares.facts, draw)
        yield from self._edits.draw(shares.edits, draw)
        yield from self._edits.turned(shares.turned, draw)
        yield from self._edits.said_again(self._told, shares.told, draw)
        yield from self._edits.roles(shares.roles, draw)
        yield from self._frames.general(shares.general, self._edits.lines, draw)
