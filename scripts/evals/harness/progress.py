"""Show a run's progress: a bar on a terminal, an occasional line elsewhere."""

from __future__ import annotations

import time
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from scripts.evals.harness.tables import print_plain

_LINE_EVERY_S: Final = 30.0


class Watch:
    """A context manager. ``score`` None: a failed request."""

    def __init__(self, total: int, console: Console, label: str = "questions") -> None:
        self._console = console
        self._total = total
        self._begun = self._line = time.monotonic()
        self._asked = self.count = self.failed = 0
        self._sum = 0.0
        columns = (
            TextColumn(label),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[said]}"),
        )
        self._bar = Progress(*columns, console=console, disable=not console.is_terminal, transient=True)
        self._task = self._bar.add_task(label, total=total, said="")

    def __enter__(self) -> Watch:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def found(self, score: float | None) -> None:
        """A record of an earlier run."""
        self._count(score)

    def done(self, score: float | None) -> None:
        self._asked += 1
        self._count(score)
        now = time.monotonic()
        if not self._console.is_terminal and now - self._line >= _LINE_EVERY_S:
            self._line = now
            print_plain(self._console, f"{self.count}/{self._total}  {self.said()}")

    def said(self) -> str:
        """Rate of this run, time left, score so far, failures."""
        parts = []
        seconds = time.monotonic() - self._begun
        if self._asked and seconds > 0:
            rate = self._asked / seconds
            left = (self._total - self.count) / rate
            parts += [f"{rate:.2f}/s", f"{int(left) // 60}:{int(left) % 60:02d} left"]
        answered = self.count - self.failed
        if answered:
            parts.append(f"score {self._sum / answered:.3f}")
        if self.failed:
            parts.append(f"{self.failed} failed")
        return "  ".join(parts)

    def _count(self, score: float | None) -> None:
        self.count += 1
        self.failed += score is None
        self._sum += score or 0.0
        self._bar.update(self._task, completed=self.count, said=self.said())
