"""A run that was interrupted gives the weights of one that was not, and the table of words stays as it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from bert_models import build_bert
from safetensors.torch import load_file

from models.encoders.model_files import ModelFolder
from models.encoders.texts import TruncatingTokenizer, load_tokenizer
from models.verifiers.cross_encoder import MAX_TOKENS, WORDS, base_network
from scripts.verifier.samples import NEITHER, SUPPORTS, UNTOLD, Sample
from scripts.verifier.training import Plan, Run, batches

PLAN = Plan(cycles=1, rate=1e-3, warm_up=2, batch_tokens=128)
SAMPLES = [
    Sample("a", f"Does drug{n} help?", f"Drug{n} helps." if n % 2 else f"Drug{n + 1} is blue and rare.", n % 2, verdict)
    for n in range(40)
    for verdict in ((SUPPORTS if n % 2 else NEITHER) if n % 5 else UNTOLD,)
]


class Interrupted(Exception):
    pass


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    return ModelFolder(build_bert(tmp_path_factory.mktemp("base")), "tiny")


def run_of(base: ModelFolder, folder: Path) -> Run:
    torch.manual_seed(PLAN.seed)
    return Run(base_network(base), TruncatingTokenizer(load_tokenizer(base.path), MAX_TOKENS), PLAN, folder)


def drawn(number: int) -> Sequence[Sample]:
    return SAMPLES


def test_an_interrupted_run_ends_with_the_same_weights(base: ModelFolder, tmp_path: Path) -> None:
    whole = run_of(base, tmp_path / "whole")
    words = whole.network.get_parameter(WORDS).clone()
    whole.train(drawn, every_s=1e9)
    first = run_of(base, tmp_path / "parts")
    # Of another plan only in where it ends: the rate of a step depends on the steps of the pass.
    groups = batches(SAMPLES, first.cutter, PLAN, f"{PLAN.seed} batches 0")
    assert len(groups) > 4
    first.run_steps(SAMPLES, until=3)
    first.save()
    second = run_of(base, tmp_path / "parts")
    second.resume()
    assert second.step == 3
    second.train(drawn, every_s=0.0)
    one, other = (load_file(tmp_path / name / "cycle-1.safetensors") for name in ("whole", "parts"))
    assert one.keys() == other.keys()
    assert WORDS not in one
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), name
    assert torch.equal(whole.network.get_parameter(WORDS), words)


def test_training_lowers_the_loss(base: ModelFolder, tmp_path: Path) -> None:
    run = run_of(base, tmp_path)
    run.plan = replace(PLAN, cycles=6)
    before = run.loss_of(SAMPLES)
    run.train(drawn, every_s=1e9)
    assert run.loss_of(SAMPLES) < 0.7 * before


def test_each_sample_is_in_one_batch(base: ModelFolder) -> None:
    cutter = TruncatingTokenizer(load_tokenizer(base.path), MAX_TOKENS)
    places = [place for group in batches(SAMPLES, cutter, PLAN, "a") for place in group]
    assert sorted(places) == list(range(len(SAMPLES)))
