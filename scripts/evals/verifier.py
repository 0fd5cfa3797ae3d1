"""Measure a verifier on the development halves: verdicts, the choice of a sentence, and the gate over short passages.

    python scripts/evals/verifier.py --data FOLDER [--folder FOLDER] [--plot FILE]

``--data`` holds ``verify/``, ``trust/`` and ``qa/bioasq/``; ``--folder`` is the verifier's, by default the one that
ships. What is left out of training is read alone. ``--plot`` writes how reliable the probabilities are.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from models.encoders.base import EncoderOptions
from models.encoders.registry import create_encoder
from models.verifiers.base import Pair
from models.verifiers.cross_encoder import VERIFIER_DIR, CrossEncoderVerifier, load_verifier
from scripts.evals.harness.tables import markdown_table
from scripts.verifier import dev_sets
from scripts.verifier.calibration import reliability_plot
from scripts.verifier.gate import Asked, Outcome, by_cosine, outcomes, read_asked, with_nothing
from scripts.verifier.samples import CONTRADICTS, SUPPORTS, UNTOLD
from scripts.verifier.scoring import (
    Judged,
    best_right,
    claims_right,
    given,
    judged,
    left_open,
    sides_right,
    told,
    verdicts_right,
)

HEAD = ["set", "n", "figure", "value", "goal"]
_TIMED = 32


def set_rows(verifier: CrossEncoderVerifier, data: Path) -> tuple[list[list[str]], list[Judged]]:
    """Return a line for each figure of the sets, and all that was judged."""
    bar = verifier.points.verdict
    sets = {name: judged(verifier, read(data)) for name, read in SETS.items()}
    rows = [
        _row("trials", sets["trials"], "claim of three", claims_right(sets["trials"]), "0.82"),
        _row("PubMedQA", sets["articles"], "yes, no, maybe", verdicts_right(sets["articles"]), "0.80"),
        _row("", sets["articles"], "yes or no", sides_right(sets["articles"]), ""),
        _row("COVID-QA", sets["spans"], "best sentence of the context", best_right(sets["spans"]), ""),
        _row("MedQuAD", sets["entries"], "above another focus's answer", best_right(sets["entries"]), "0.95"),
        _row("", sets["exchanged"], "above the focus exchanged", best_right(sets["exchanged"]), "0.95"),
        _row("BioASQ", sets["choices"], "gold sentence among near texts", best_right(sets["choices"]), ""),
        *_verdict_rows("BioASQ, yes or no", sets["snippets"], bar),
        _row("written questions", sets["written"], "three-way", verdicts_right(sets["written"]), ""),
        *_verdict_rows("", sets["written"], bar),
        _row("", sets["written"], "not told: none given", left_open(sets["written"], bar), ""),
    ]
    return rows, [one for groups in sets.values() for one in groups]


SETS = {
    "trials": dev_sets.trial_groups,
    "articles": dev_sets.article_groups,
    "spans": dev_sets.span_groups,
    "entries": dev_sets.entry_groups,
    "exchanged": dev_sets.exchanged_groups,
    "choices": dev_sets.choice_groups,
    "snippets": dev_sets.snippet_groups,
    "written": dev_sets.written_groups,
}


def _verdict_rows(name: str, groups: Sequence[Judged], bar: float) -> list[list[str]]:
    share, right, yes, no = given(groups, bar)
    return [
        _row(name, groups, f"yes or no given (at {bar:.2f})", share, "0.70"),
        _row("", groups, "right of those given", right, "0.92"),
        _row("", groups, "right: yes", yes, "0.85"),
        _row("", groups, "right: no", no, "0.85"),
    ]


def gate_rows(verifier: CrossEncoderVerifier, asked: Sequence[Asked]) -> list[list[str]]:
    """Return a line for each figure of the gate."""
    points = verifier.points
    found = outcomes(asked, verifier, points)
    open_ones = [one for one in found if one.asked.is_answerable and not one.asked.row["yes_no"]]
    sided = [one for one in found if one.asked.is_answerable and one.asked.row["yes_no"]]
    nothing = [one for one in found if not one.asked.is_answerable]
    verdicts = [one for one in sided if one.verdict]
    rows = [
        _line("gate", open_ones, "best sentence right", [one.asked.is_right(one.best[:1]) for one in open_ones]),
        _line("", open_ones, "one of three right", [one.asked.is_right(one.best) for one in open_ones]),
        _line("", open_ones, "the same by cosine", [one.asked.is_right(by_cosine(one.asked, 1)) for one in open_ones]),
        _line("", open_ones, "three by cosine", [one.asked.is_right(by_cosine(one.asked, 3)) for one in open_ones]),
        _line(
            "", open_ones, f"answered (at {points.answer:.2f})", [one.relevance >= points.answer for one in open_ones]
        ),
        _line("", sided, "yes or no given", [bool(one.verdict) for one in sided], "0.70"),
        _line("", verdicts, "right of those given", [_agrees(one) for one in verdicts], "0.92"),
    ]
    for side in ("yes", "no"):
        of_side = [one for one in verdicts if one.asked.row["yes_no"] == side]
        rows.append(_line("", of_side, f"right: {side}", [_agrees(one) for one in of_side], "0.85"))
    emptied = outcomes([one for one in with_nothing(asked) if one.row["must"]], verifier, points)
    for name, of in (("nothing there: refused", nothing), ("answer taken out: refused", emptied)):
        rows.append(_line("", of, name, [one.relevance < points.answer for one in of], "0.95"))
    return rows


def reliability(groups: Sequence[Judged], plot: Path) -> None:
    """Plot relevance, and supports and contradicts of questions of yes or no and of claims."""
    pairs = [
        (row, verdict)
        for one in groups
        if UNTOLD not in one.group.verdicts
        for row, verdict in zip(one.probabilities, one.group.verdicts, strict=True)
    ]
    rows, verdicts = np.array([row for row, _ in pairs]), np.array([verdict for _, verdict in pairs])
    relevance, known = told(groups)
    sides = {"supports": SUPPORTS, "contradicts": CONTRADICTS}
    curves = {name: (rows[:, side], verdicts == side) for name, side in sides.items()}
    reliability_plot({"relevance": (relevance, known == 1), **curves}, plot)


def seconds(verifier: CrossEncoderVerifier, groups: Sequence[Judged]) -> float:
    """Return the median time of a batch of 32 pairs, a question and a sentence each."""
    pairs: list[Pair] = [pair for one in groups for pair in one.group.pairs][: 8 * _TIMED]
    times = []
    for start in range(0, len(pairs), _TIMED):
        began = time.monotonic()
        verifier.judge(pairs[start : start + _TIMED])
        times.append(time.monotonic() - began)
    return float(np.median(times))


def _agrees(one: Outcome) -> bool:
    return bool(one.verdict == one.asked.row["yes_no"])


def _row(name: str, groups: Sequence[Judged], figure: str, value: float, goal: str) -> list[str]:
    return [name, str(len(groups)), figure, f"{value:.3f}", goal]


def _line(name: str, of: Sequence[Outcome], figure: str, true: Sequence[bool], goal: str = "") -> list[str]:
    return [name, str(len(of)), figure, f"{np.mean(true):.3f} ({sum(true)})" if true else "-", goal]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--folder", type=Path, default=VERIFIER_DIR)
    parser.add_argument("--plot", type=Path)
    args = parser.parse_args()
    if not (args.data / "verify").is_dir():
        print(f"skipped: {args.data} has no verify/")
        return
    verifier = load_verifier(args.folder, EncoderOptions())
    rows, everything = set_rows(verifier, args.data)
    encoder = create_encoder(options=EncoderOptions())
    rows += gate_rows(verifier, read_asked(args.data / "trust", encoder))
    print(markdown_table(HEAD, rows))
    print(f"32 pairs: median {seconds(verifier, everything):.2f} s")
    if args.plot is not None:
        reliability(everything, args.plot)


if __name__ == "__main__":
    main()
