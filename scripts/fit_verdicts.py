"""Fit how the default model and the verifier decide yes or no together, and write it into the model's card.

    OMP_NUM_THREADS=1 python -m scripts.fit_verdicts --data FOLDER [--work FILE]

``--data`` holds ``qa/bioasq/``. Read are the questions of yes or no that were written for single texts and held out of
the training of both: 1,726, some of which their text does not answer. ``--work`` keeps what was read, so that a run
goes on after a kill. Fitted is a multinomial logistic regression of four logits; printed is what it gives in ten parts,
each judged by the other nine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

from models.catalog import SHIPPED_ADAPTERS, SMALL_NAME, load_catalog, prepare
from models.encoders.base import EncoderOptions
from models.engines.base import EngineOptions
from models.engines.transformers_engine.engine import TransformersEngine
from models.files import CARD_FILE
from models.verdicts import VerdictCalibration, features
from models.verifiers.cross_encoder import VERIFIER_DIR, load_verifier
from scripts.evals.harness.tables import markdown_table
from scripts.training.tasks.bioasq import WrittenQuestion, read_written
from server.evidence.verifier import VerifierService
from server.methods.shared.generation import Generations, PromptFormatter
from server.methods.shared.reading.evidence import EvidenceText
from server.methods.shared.reading.gate import Gate
from server.methods.shared.verdicts import NO, VERDICTS, YES, VerdictPrompt, VerdictReader

# A word that is less probable than one of three by chance is not said.
GIVEN: Final = 0.33
SURE: Final = 0.8
_AT_ONCE: Final = 8
_PARTS: Final = 10
_STEPS: Final = 1000
_UNREAD: Final = VerdictCalibration((0.0,) * 5, (0.0,) * 5, GIVEN, SURE)
_HEAD: Final = ("from", "given", "right of these", "right: yes", "right: no", "not told: none given")


@asynccontextmanager
async def reader_of(models: Path) -> AsyncIterator[VerdictReader]:
    """Yield what reads verdicts with the default model, which is converted into the folder ``models``."""
    card = load_catalog(converted_dir=models)[SMALL_NAME]
    prepare(card)
    engine = TransformersEngine(card, EngineOptions(device="cpu", max_num_seqs=_AT_ONCE))
    await engine.start()
    try:
        layout = PromptFormatter(engine, card)
        yield VerdictReader(Generations(engine, "fit"), layout, VerdictPrompt.load(), _UNREAD, None)
    finally:
        await engine.close()


async def read_all(
    questions: Sequence[WrittenQuestion], done: dict[int, Sequence[float]], work: Path, models: Path
) -> None:
    """Add to ``done`` and ``work`` the features of each further question, () where no sentence would be quoted."""
    service = VerifierService(VERIFIER_DIR.name, partial(load_verifier, VERIFIER_DIR, EncoderOptions()))
    gate, places = Gate(service), asyncio.Semaphore(_AT_ONCE)
    async with reader_of(models) as reader:
        with work.open("a", encoding="utf-8") as out:

            async def read(number: int, one: WrittenQuestion) -> None:
                async with places:
                    reading = await gate.read(one.question, [EvidenceText("", one.text)])
                    shares = await reader.shares_of(one.question, reading.ranked[0]) if reading.quotes(1) else None
                values = features(shares, **asdict(reading.ranked[0].judgement)) if shares is not None else ()
                done[number] = values
                out.write(json.dumps([number, values]) + "\n")

            await asyncio.gather(*(read(number, one) for number, one in enumerate(questions) if number not in done))


def fitted(values: NDArray[np.float64], answers: NDArray[np.int64]) -> VerdictCalibration:
    """Return the calibration that makes the answers, places in ``VERDICTS``, most probable."""
    model = LogisticRegression(max_iter=_STEPS).fit(values, answers)
    rows = np.column_stack([model.coef_, model.intercept_])
    yes, no = (tuple(round(float(one), 4) for one in row - rows[2]) for row in rows[:2])
    return VerdictCalibration(yes, no, GIVEN, SURE)


def table(probabilities: NDArray[np.float64], answers: NDArray[np.int64]) -> str:
    """Return what is given from several probabilities on, and how much of it is right."""
    words, best, told = probabilities[:, :2].argmax(1), probabilities[:, :2].max(1), answers < len(VERDICTS) - 1
    rows = []
    for bar in (GIVEN, 0.5, 0.6, 0.7, SURE, 0.9):
        given = told & (best >= bar)
        right = [(words == answers)[given & side].mean() for side in (told, answers == 0, answers == 1)]
        open_ones = (best < bar)[~told].mean()
        rows.append([f"{one:.3f}" for one in (bar, given.sum() / told.sum(), *right, open_ones)])
    return markdown_table(_HEAD, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("runs/verdicts.jsonl"))
    parser.add_argument("--models", type=Path, default=Path("runs/models"), help="where the model is converted")
    args = parser.parse_args()
    args.work.parent.mkdir(parents=True, exist_ok=True)
    questions = read_written(args.data / "qa" / "bioasq", held_out=True)
    done = dict(json.loads(line) for line in args.work.open(encoding="utf-8")) if args.work.is_file() else {}
    asyncio.run(read_all(questions, done, args.work, args.models))
    found = [(done[number], one.answer) for number, one in enumerate(questions) if done[number]]
    places = {YES.lower(): 0, NO.lower(): 1}
    values = np.array([row for row, _ in found])
    answers = np.array([places.get(answer, 2) for _, answer in found])
    probabilities = cross_val_predict(
        LogisticRegression(max_iter=_STEPS), values, answers, cv=_PARTS, method="predict_proba"
    )
    print(f"{len(found)} of {len(questions)} questions\n\n{table(probabilities, answers)}")
    file = SHIPPED_ADAPTERS[SMALL_NAME][0] / CARD_FILE
    card = json.loads(file.read_text(encoding="utf-8"))
    card["verdicts"] = fitted(values, answers).to_json()
    file.write_text(json.dumps(card, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
