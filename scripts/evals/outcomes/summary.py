"""Count verdicts by method and kind, and show them. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from scripts.evals.harness.records import Reply
from scripts.evals.harness.tables import markdown_table, share_cell
from scripts.evals.outcomes.items import KINDS, NO_REPLY, Item
from scripts.evals.outcomes.judging import Verdict

ALL: Final = "all"
_SHOWN_CHARS: Final = 300
_COLUMNS: Final = (
    "kind",
    "n",
    "outcome expected",
    "right",
    "confident wrong",
    "garbled",
    "unsupported",
    "unmarked",
    "wrong citations",
    "false quotes",
    "empty",
    "no reply",
    "median s",
    "p95 s",
    "max s",
)


@dataclass(frozen=True, slots=True)
class Judged:
    """One question, asked of one method."""

    method: str
    item: Item
    reply: Reply
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """``unsupported`` and ``unmarked`` count identifiers, ``citations`` and ``quotes`` all that there are."""

    number: int
    outcome_expected: int
    right: int
    confidently_wrong: int
    garbled: int
    unsupported: int
    unmarked: int
    citations: int
    wrong_citations: int
    quotes: int
    false_quotes: int
    empty: int
    no_reply: int
    unchecked: int
    median_s: float
    p95_s: float
    max_s: float
    outcomes: dict[str, int]


def row_of(judged: Sequence[Judged]) -> Row:
    """Of at least one."""
    verdicts = [one.verdict for one in judged]
    seconds = sorted(one.reply.seconds for one in judged)
    return Row(
        number=len(judged),
        outcome_expected=sum(verdict.outcome_expected for verdict in verdicts),
        right=sum(verdict.is_right for verdict in verdicts),
        confidently_wrong=sum(verdict.confidently_wrong for verdict in verdicts),
        garbled=sum(verdict.is_garbled for verdict in verdicts),
        unsupported=sum(len(verdict.unsupported) for verdict in verdicts),
        unmarked=sum(len(verdict.unmarked) for verdict in verdicts),
        citations=sum(verdict.citations for verdict in verdicts),
        wrong_citations=sum(len(verdict.wrong_citations) for verdict in verdicts),
        quotes=sum(verdict.quotes for verdict in verdicts),
        false_quotes=sum(len(verdict.false_quotes) for verdict in verdicts),
        empty=sum(verdict.is_empty for verdict in verdicts),
        no_reply=sum(verdict.outcome == NO_REPLY for verdict in verdicts),
        unchecked=sum(not verdict.was_checked for verdict in verdicts),
        median_s=quantile(seconds, 0.5),
        p95_s=quantile(seconds, 0.95),
        max_s=seconds[-1],
        outcomes=dict(Counter(verdict.outcome for verdict in verdicts)),
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """The least value that at least this share of the values does not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def summarise(judged: Sequence[Judged]) -> dict[str, dict[str, Row]]:
    """By method, then by kind, with a row for all kinds; ``all`` is also a method where there are several."""
    methods = list(dict.fromkeys(one.method for one in judged))
    groups = {method: [one for one in judged if one.method == method] for method in methods}
    if len(methods) > 1:
        groups[ALL] = list(judged)
    summary = {}
    for method, of_method in groups.items():
        kinds = {kind: [one for one in of_method if one.item.kind == kind] for kind in KINDS}
        summary[method] = {kind: row_of(ones) for kind, ones in kinds.items() if ones} | {ALL: row_of(of_method)}
    return summary


def table_of(rows: dict[str, Row]) -> str:
    return markdown_table(_COLUMNS, [[kind, *_cells(row)] for kind, row in rows.items()])


def _cells(row: Row) -> list[str]:
    counts = [
        row.confidently_wrong,
        row.garbled,
        row.unsupported,
        row.unmarked,
        f"{row.wrong_citations}/{row.citations}",
        f"{row.false_quotes}/{row.quotes}",
        row.empty,
        row.no_reply,
    ]
    return [
        str(row.number),
        share_cell(row.outcome_expected / row.number, row.number),
        share_cell(row.right / row.number, row.number),
        *map(str, counts),
        *(f"{value:.1f}" for value in (row.median_s, row.p95_s, row.max_s)),
    ]


def failures(judged: Sequence[Judged]) -> list[Judged]:
    """Those that are not right or have something made up in them, the worst first."""
    return sorted((one for one in judged if _gravity(one.verdict)), key=lambda one: -_gravity(one.verdict))


def _gravity(verdict: Verdict) -> int:
    return (
        100 * verdict.confidently_wrong
        + 20 * len(verdict.unmarked)
        + 10 * len(verdict.false_quotes)
        + 5 * len(verdict.wrong_citations)
        + 4 * verdict.is_garbled
        + 2 * (not verdict.is_right)
        + verdict.is_empty
    )


def failure_record(one: Judged) -> dict[str, Any]:
    """JSON."""
    verdict = asdict(one.verdict)
    return {
        "method": one.method,
        "id": one.item.id,
        "question": one.item.text,
        "expected": sorted(one.item.expected),
        "text": one.reply.text,
        "error": one.reply.error,
        "seconds": one.reply.seconds,
        **verdict,
    }


def failure_lines(one: Judged) -> str:
    """A few lines for a person: what was asked, expected and told."""
    verdict = one.verdict
    named = {
        "unmarked": verdict.unmarked,
        "wrong citations": verdict.wrong_citations,
        "false quotes": verdict.false_quotes,
    }
    head = f"{one.method} {one.item.id}: {verdict.outcome}, expected {' or '.join(sorted(one.item.expected))}"
    marks = [head + (" - CONFIDENTLY WRONG" if verdict.confidently_wrong else ""), f"{one.reply.seconds:.1f} s"]
    marks += [f"{name}: {', '.join(values)}" for name, values in named.items() if values]
    told = one.reply.text or str((one.reply.error or {}).get("message", ""))
    return f"{'; '.join(marks)}\n  Q: {_short(one.item.text)}\n  A: {_short(told)}"


def _short(text: str) -> str:
    """Its end where it is long, where the last question stands."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARS else f"{line[: _SHOWN_CHARS // 2]} … {line[-_SHOWN_CHARS // 2 :]}"


def json_summary(judged: Sequence[Judged]) -> dict[str, Any]:
    summary = summarise(judged)
    return {
        "methods": {method: {kind: asdict(row) for kind, row in rows.items()} for method, rows in summary.items()},
        "failures": [failure_record(one) for one in failures(judged)],
    }
