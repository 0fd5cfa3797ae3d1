"""Make samples of true sentences: said again, and edited by rule so that they say something else."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from scripts.training.tasks.turned_questions import reworded, statement_of, whether
from scripts.verifier.claims import CONTRARY, names_in, shape, with_more, with_other_name, with_roles_exchanged
from scripts.verifier.samples import CONTRADICTS, NEITHER, SUPPORTS, Sample, asked_whether, with_neighbour
from scripts.verifier.study_samples import cut
from server.methods.shared.sentences import split_sentences

_LONGEST: Final = 260
_POOLED: Final = 6000


class EditSamples:
    """Draw sentences of real texts with claims that they support, contradict, or do not tell."""

    def __init__(self, texts: Sequence[str], seed: str) -> None:
        lines = [one.line for text in texts for one in split_sentences(text)]
        self.lines = [line for line in dict.fromkeys(lines) if 30 <= len(line) <= _LONGEST]
        self._directed = [line for line in self.lines if with_roles_exchanged(line)]
        pool = defaultdict[str, set[str]](set)
        for line in random.Random(seed).sample(self.lines, min(_POOLED, len(self.lines))):
            for word in names_in(line):
                pool[shape(word)].add(word)
        self._pool = {kind: sorted(words) for kind, words in pool.items() if len(words) > 3}

    def draw(self, number: int, draw: random.Random) -> Iterator[Sample]:
        """Yield about a third each: what a sentence says, its contrary, and the same of another name."""
        for line in draw.sample(self.lines, min(number, len(self.lines))):
            claim, wanted = self._said(line, draw), draw.random()
            if wanted < 0.34:
                yield self._sample(asked_whether(claim, draw), line, SUPPORTS, draw)
            elif wanted < 0.7:
                edits = [edit(claim, draw) for edit in CONTRARY]
                edits = [one for one in edits if one]
                if edits:
                    yield self._sample(asked_whether(draw.choice(edits), draw), line, CONTRADICTS, draw)
            elif other := self._unsaid(claim, draw):
                yield self._sample(asked_whether(other, draw), line, NEITHER, draw)

    def said_again(self, pairs: Sequence[tuple[str, str]], number: int, draw: random.Random) -> Iterator[Sample]:
        """Yield what people wrote, with the sentence that they wrote it from, and as many edits of it."""
        for claim, line in draw.sample(pairs, min(number, len(pairs))):
            yield self._sample(claim, line, SUPPORTS, draw)
            edits = [one for one in (edit(claim, draw) for edit in CONTRARY) if one]
            if edits and draw.random() < 0.5:
                yield self._sample(draw.choice(edits), line, CONTRADICTS, draw)
            elif other := self._unsaid(claim, draw):
                yield self._sample(other, line, NEITHER, draw)

    def turned(self, number: int, draw: random.Random) -> Iterator[Sample]:
        """Yield questions of yes or no made of sentences, as many with the sentence denied or turned."""
        found = 0
        for line in draw.sample(self.lines, len(self.lines)):
            statement = statement_of(line)
            if statement is None:
                continue
            found += 1
            if found > number:
                return
            asked = whether(reworded(statement, draw), draw)
            wanted = draw.random()
            if wanted < 0.4:
                yield self._sample(asked, line, CONTRADICTS if statement.denied else SUPPORTS, draw)
            elif wanted < 0.8:
                edits = [one for one in (edit(line, draw) for edit in CONTRARY[2:]) if one]
                if edits and not statement.denied:
                    yield self._sample(asked, draw.choice(edits), CONTRADICTS, draw)
            elif other := with_other_name(asked, self._pool, draw):
                yield self._sample(other, line, NEITHER, draw)

    def roles(self, number: int, draw: random.Random) -> Iterator[Sample]:
        """Yield sentences that say what one thing does to another, each with its claim and with the roles exchanged."""
        for line in draw.sample(self._directed, min(number, len(self._directed))):
            yield self._sample(asked_whether(self._said(line, draw), draw), line, SUPPORTS, draw)
            yield self._sample(asked_whether(with_roles_exchanged(line), draw), line, NEITHER, draw)

    def _unsaid(self, claim: str, draw: random.Random) -> str:
        """Return a claim that has another name, or says something more, "" where neither can be made."""
        more = with_more(claim, draw.choice(self.lines)) if draw.random() < 0.5 else ""
        return more or with_other_name(claim, self._pool, draw)

    def _said(self, line: str, draw: random.Random) -> str:
        """Return a sentence as a claim: as it is, or without its last details."""
        statement = statement_of(line)
        if statement is None or draw.random() < 0.5:
            return line
        again = reworded(statement, draw)
        return again.said(denied=statement.denied)

    def _sample(self, query: str, line: str, verdict: int, draw: random.Random) -> Sample:
        evidence = with_neighbour(line, [draw.choice(self.lines)], draw, 0.12)
        return Sample("edits", query, cut(evidence), int(verdict != NEITHER), verdict)
