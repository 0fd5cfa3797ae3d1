"""Ids without a token are never sampled, on either of vLLM's model runners and however many there are."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from models.engines.vllm_engine.launch import PADDING_MASK, VOCABULARY_KEY, padding_arguments

pytestmark = pytest.mark.vllm


@pytest.fixture(autouse=True)
def _needs_vllm() -> None:
    pytest.importorskip("vllm")


def _config(padded: int) -> Any:
    model = SimpleNamespace(get_vocab_size=lambda: padded)
    return SimpleNamespace(model_config=model, additional_config=padding_arguments(10)["additional_config"])


def _masks(padded: int) -> list[Any]:
    """As each runner builds it: the older with device and pinning, the newer with its requests' state."""
    from models.engines.vllm_engine.padding_mask import PaddingMask

    return [PaddingMask(_config(padded), "cpu", False), PaddingMask(_config(padded), SimpleNamespace())]


def test_both_runners_find_the_mask_by_its_name() -> None:
    """Each takes classes of its own interface alone."""
    from vllm.v1.sample.logits_processor import _load_custom_logitsprocs
    from vllm.v1.worker.gpu.sample.logits_processor.loader import _load_v2_logitsprocs_by_fqcns

    assert padding_arguments(10) == {"logits_processors": [PADDING_MASK], "additional_config": {VOCABULARY_KEY: 10}}
    for load in (_load_custom_logitsprocs, _load_v2_logitsprocs_by_fqcns):
        assert [one.__name__ for one in load([PADDING_MASK])] == ["PaddingMask"]


@pytest.mark.parametrize("padded", [11, 5000])
def test_padded_ids_are_impossible_and_the_others_untouched(padded: int) -> None:
    """Also more of them than a table of biases has places."""
    import torch

    older, newer = _masks(padded)
    for apply in (older.apply, lambda logits: newer.apply(logits, SimpleNamespace())):
        found = apply(torch.ones(3, padded))
        assert found.shape == (3, padded) and bool((found[:, :10] == 1).all())
        assert bool((found[:, 10:] == -math.inf).all())
    assert newer.add_request(0, None) is True and older.is_argmax_invariant() is False


def test_without_padding_nothing_is_done() -> None:
    """No request needs the step that copies logits."""
    import torch

    for mask in _masks(10):
        assert mask.add_request(0, None) is False and mask.is_argmax_invariant() is True
        assert bool((mask.apply(torch.ones(2, 10)) == 1).all())
        mask.update_state(None)
