"""Mix the tasks: which groups of samples a step of training has, by its number alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from scripts.training.packing import Encoded
from scripts.training.tasks.bioasq import read_questions, read_texts, read_written
from scripts.training.tasks.bioasq_tasks import BioasqTasks
from scripts.training.tasks.dialogue import DialogueTasks
from scripts.training.tasks.graph_tasks import GraphTasks
from scripts.training.tasks.reading import ReadingTasks
from scripts.training.tasks.samples import Sample, Writer
from scripts.training.tasks.statement_tasks import StatementTasks
from scripts.training.tasks.transcripts import TranscriptTasks
from scripts.training.tasks.verdict_tasks import VerdictTasks

# Two groups a step, each from its list in turn. What held-out questions say is weakest has the largest share.
FIRST: Final = ("verdict", "verdict", "genegpt")
SECOND: Final = (
    "genegpt",
    "bioasq",
    "verdict",
    "multiple_choice",
    "statements",
    "verdict",
    "bioasq",
    "true_false",
    "genegpt",
    "verdict",
    "bioasq",
    "multiple_choice",
    "verdict",
    "statements",
    "general",
    "dialogue",
)
TASKS: Final = frozenset({*FIRST, *SECOND})
_TRANSCRIPTS: Final = 2
_MAX_TRANSCRIPT: Final = 1300


class Mixture:
    """Draw the samples of each step from the seed and the step's number.

    ``without`` names tasks to leave out. Without BioASQ's files, generated statements take the place of its questions.
    """

    def __init__(self, writer: Writer, seed: int, bioasq: Path | None, without: Sequence[str] = ()) -> None:
        if unknown := set(without) - TASKS:
            raise ValueError(f"no such tasks: {', '.join(sorted(unknown))}; there are {', '.join(sorted(TASKS))}")
        self.writer, self.seed = writer, seed
        reading = ReadingTasks(writer)
        questions = read_questions(bioasq, held_out=False) if bioasq else []
        self._bioasq = BioasqTasks(reading, questions, seed) if questions else None
        texts, written = (read_texts(bioasq), read_written(bioasq, held_out=False)) if bioasq else ((), ())
        self._verdicts = VerdictTasks(writer, questions, texts, written)
        self._statements = StatementTasks(reading)
        self._graph = GraphTasks(writer)
        self._transcripts = TranscriptTasks(writer)
        self._dialogue = DialogueTasks(writer)
        self._turns = tuple(tuple(kind for kind in kinds if kind not in without) for kinds in (FIRST, SECOND))

    def samples(self, step: int) -> list[list[Sample]]:
        return [self._group(kind, step, place) for place, kind in enumerate(self.kinds(step))]

    def encoded(self, step: int) -> Sequence[Sequence[Encoded]]:
        return [[self.writer.encoded(sample) for sample in group] for group in self.samples(step)]

    def kinds(self, step: int) -> list[str]:
        return [turns[step % len(turns)] for turns in self._turns if turns]

    def _group(self, kind: str, step: int, place: int) -> list[Sample]:
        seed = f"{self.seed}:{step}:{place}"
        if kind == "bioasq" and self._bioasq is not None:
            return self._bioasq.group(self._before(kind, step) + self.kinds(step)[:place].count(kind))
        if kind in ("bioasq", "statements"):
            return self._statements.group(seed)
        if kind == "verdict":
            return self._verdicts.group(seed)
        if kind == "genegpt":
            return self._transcripts.group(seed, _TRANSCRIPTS, _MAX_TRANSCRIPT)
        if kind == "dialogue":
            return self._dialogue.group(seed)
        return self._graph.group(seed, kind)

    def _before(self, kind: str, step: int) -> int:
        """Return how many groups of a kind the earlier steps have; the turns repeat themselves."""
        period = math.lcm(*(len(turns) for turns in self._turns if turns))
        counts = [self.kinds(at).count(kind) for at in range(period)]
        rounds, rest = divmod(step, period)
        return rounds * sum(counts) + sum(counts[:rest])
