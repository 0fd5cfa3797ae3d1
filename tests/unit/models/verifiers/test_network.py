"""Padding changes nothing that the network computes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from bert_models import build_bert

from models.encoders.model_files import ModelFolder
from models.verifiers.cross_encoder import base_network


def test_padding_changes_no_logit(tmp_path: Path) -> None:
    network = base_network(ModelFolder(build_bert(tmp_path), "tiny")).eval()
    ids = torch.tensor([[101, 2054, 2003, 102, 2009, 102]])
    segments = torch.tensor([[0, 0, 0, 0, 1, 1]])
    padded = [torch.cat([part, torch.zeros(1, 3, dtype=torch.long)], dim=1) for part in (ids, segments)]
    with torch.inference_mode():
        plain = network(ids, segments, torch.ones_like(ids))
        longer = network(*padded, (padded[0] != 0).long())
    assert longer.relevance.tolist() == pytest.approx(plain.relevance.tolist(), abs=1e-5)
    assert longer.verdict[0].tolist() == pytest.approx(plain.verdict[0].tolist(), abs=1e-5)
    assert plain.relevance.shape == (1,)
    assert plain.verdict.shape == (1, 3)
