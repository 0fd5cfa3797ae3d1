"""Biases and penalties of one sequence, against a plain reading of OpenAI's and vLLM's formulas."""

from __future__ import annotations

import math
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor

from models.engines.transformers_engine.sampling import Draw, LogitChanges, least_weights, logit_changes, token_weights
from models.types import GenerateParams

LOGITS = torch.tensor([2.0, -1.0, 0.5, float("-inf"), 3.0])
has_vllm = pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed")


def after(changes: LogitChanges, *written: int) -> list[float]:
    for token in written:
        changes.count(token)
    return changes.apply(LOGITS).tolist()


def test_nothing_is_done_unless_asked() -> None:
    """A request without biases and penalties has nothing that changes its logits."""
    assert logit_changes([1], GenerateParams(max_tokens=1)) is None


def test_only_written_tokens_are_penalised_for_frequency_and_presence() -> None:
    """Token 0 was written twice, token 2 once; token 4 is in the prompt and keeps its logit."""
    params = GenerateParams(max_tokens=1, frequency_penalty=0.5, presence_penalty=0.25)

    assert after(LogitChanges([4, 4], params), 0, 2, 0) == [2 - 1.25, -1.0, 0.5 - 0.75, -math.inf, 3.0]


def test_repetition_penalty_covers_the_prompt_and_weakens_both_signs() -> None:
    """A positive logit is divided, a negative one multiplied."""
    params = GenerateParams(max_tokens=1, repetition_penalty=2.0)

    assert after(LogitChanges([4], params), 1) == [2.0, -2.0, 0.5, -math.inf, 1.5]


def test_text_written_before_an_inserted_reply_counts_and_the_reply_does_not() -> None:
    """Of the resumed prompt 2, 0, 4 the model wrote 0; the rest was given."""
    params = GenerateParams(max_tokens=1, presence_penalty=1.0, written=(0,))

    assert after(LogitChanges([2, 0, 4], params)) == [1.0, -1.0, 0.5, -math.inf, 3.0]


def test_a_bias_cannot_allow_what_a_grammar_forbids() -> None:
    """Minus infinity stays, and the logits given stay as they are."""
    params = GenerateParams(max_tokens=1, logit_bias=((3, 100.0), (0, -5.0)))
    before = LOGITS.clone()

    assert after(LogitChanges([1], params)) == [-3.0, -1.0, 0.5, -math.inf, 3.0]
    assert torch.equal(LOGITS, before)


def rows(seed: int) -> Tensor:
    return torch.randn(3, 700, generator=torch.Generator().manual_seed(seed)) * 4


@has_vllm
def test_penalties_are_vllms() -> None:
    """Three rows with different penalties, prompts and outputs through vLLM's own function."""
    from vllm.model_executor.layers.utils import apply_penalties

    logits = rows(1)
    prompts, outputs = [[1, 2, 3], [5, 5, 699], [0]], [[2, 9, 9], [5], [7, 8, 7]]
    values = [(0.5, 1.5, 1.0), (-1.0, 0.0, 1.3), (2.0, -2.0, 0.6)]
    mine = []
    for row, prompt, output, (presence, frequency, repetition) in zip(logits, prompts, outputs, values, strict=True):
        params = GenerateParams(
            max_tokens=1, presence_penalty=presence, frequency_penalty=frequency, repetition_penalty=repetition
        )
        changes = LogitChanges(prompt, params)
        for token in output:
            changes.count(token)
        mine.append(changes.apply(row))
    padded = [torch.tensor([[*ids, *[700] * (3 - len(ids))] for ids in lists]) for lists in (prompts, outputs)]
    theirs = apply_penalties(logits.clone(), *padded, *(torch.tensor(column) for column in zip(*values, strict=True)))

    assert torch.allclose(torch.stack(mine), theirs, atol=1e-5)


@has_vllm
@pytest.mark.parametrize(("top_k", "top_p"), [(0, 0.9), (40, 1.0), (40, 0.7), (600, 0.95)])
def test_top_k_and_top_p_keep_what_vllm_keeps(top_k: int, top_p: float) -> None:
    """vLLM's own masks, on logits without ties."""
    from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p_pytorch

    logits = rows(2)
    draws = [Draw(1.0, top_p, top_k, 0.0)] * 3
    weights = token_weights(logits, draws)
    kept = weights >= least_weights(weights, draws, likely=64).unsqueeze(1)
    theirs = apply_top_k_top_p_pytorch(logits.clone(), torch.full((3,), top_k or 700), torch.full((3,), top_p))

    assert torch.equal(kept, theirs.isfinite())
