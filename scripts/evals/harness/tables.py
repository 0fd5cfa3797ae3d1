"""Format tables as Markdown, complete on any terminal width and ready to paste."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The first column is aligned to the left, the others to the right."""
    rule = ["---", *("--:" for _ in columns[1:])]
    return "\n".join(f"| {' | '.join(line)} |" for line in (columns, rule, *rows))


def share_cell(share: float, total: int) -> str:
    """ "-" where there is nothing to have a share of: 0.000 would look like a score."""
    return f"{share:.3f}" if total else "-"


def interval_cell(interval: Sequence[float], total: int) -> str:
    return f"{interval[0]:.3f}-{interval[1]:.3f}" if total else "-"


def print_plain(console: Console, text: str, style: str | None = None) -> None:
    """As it is: no markup, no colours of numbers, no line broken."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)
