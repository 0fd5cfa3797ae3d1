"""Linear layers in oneDNN's layout: the same numbers, and nothing replaced that should not be."""

from __future__ import annotations

import logging

import pytest
import torch
from torch import nn

from models.torch_runtime.layers import PackedLinear, pack_linears

pytestmark = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(),  # type: ignore[no-untyped-call]
    reason="torch has no oneDNN here",
)

needs_bfloat16 = pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_bf16_supported(),
    reason="oneDNN packs bfloat16 only on processors with AVX-512 or its like",
)


def _net(dtype: torch.dtype = torch.float32) -> nn.Sequential:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(48, 80), nn.GELU(), nn.Linear(80, 24, bias=False))
    return net.to(dtype).requires_grad_(False)


@pytest.mark.parametrize(
    ("dtype", "apart"), [(torch.float32, 1e-5), pytest.param(torch.bfloat16, 2e-2, marks=needs_bfloat16)]
)
@pytest.mark.parametrize("shape", [(1, 48), (3, 48), (2, 5, 48), (1, 1, 48), (129, 48)])
def test_a_packed_network_gives_the_same_numbers(dtype: torch.dtype, apart: float, shape: tuple[int, ...]) -> None:
    """For any number of rows and dimensions, with and without a bias."""
    net = _net(dtype)
    rows = torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    expected = net(rows)
    assert pack_linears(net) == 2
    with torch.inference_mode():
        found = net(rows)
    assert found.shape == expected.shape and found.dtype == dtype
    torch.testing.assert_close(found, expected, rtol=apart, atol=apart)


@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.bfloat16, marks=needs_bfloat16)])
def test_a_row_is_rounded_alike_whatever_is_computed_with_it(
    dtype: torch.dtype, caplog: pytest.LogCaptureFixture
) -> None:
    """Bit for bit, for a layer of which torch computes a single row otherwise; else the log says so (AMX)."""
    caplog.set_level(logging.INFO)
    net = nn.Sequential(nn.Linear(1536, 576, bias=False)).to(dtype).requires_grad_(False)
    pack_linears(net)
    rows = torch.randn(64, 1, 1536, generator=torch.Generator().manual_seed(1)).to(dtype)
    together = net(rows)
    for number in (1, 2, 3, 5, 8, 17, 33):
        parts = torch.cat([net(part) for part in torch.split(rows, number)])
        assert torch.equal(parts, together) or "neighbours may change an answer" in caplog.text, number


def test_rows_need_not_lie_side_by_side_in_memory() -> None:
    """Attention hands on transposed views."""
    net = _net()
    rows = torch.randn(48, 7).T
    expected = net(rows)
    pack_linears(net)
    torch.testing.assert_close(net(rows), expected, rtol=1e-5, atol=1e-5)


def test_a_shared_weight_stays_with_its_other_owner() -> None:
    """A head tied to the embedding is packed; the embedding still has its rows."""

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(32, 16)
            self.head = nn.Linear(16, 32, bias=False)
            self.head.weight = self.embedding.weight

    net = Tied().requires_grad_(False)
    rows, expected = torch.randn(2, 16), net.embedding(torch.tensor([3]))
    logits = net.head(rows)
    assert pack_linears(net) == 1
    torch.testing.assert_close(net.embedding(torch.tensor([3])), expected)
    torch.testing.assert_close(net.head(rows), logits, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.bfloat16, marks=needs_bfloat16)])
def test_a_packed_layer_tells_its_shape_and_dtype(dtype: torch.dtype) -> None:
    """Some models ask a layer's weight for its dtype."""
    net = _net(dtype)
    pack_linears(net)
    layer = net[0]
    assert isinstance(layer, PackedLinear)
    assert (layer.weight.shape, layer.weight.dtype) == ((80, 48), dtype)
    assert (layer.in_features, layer.out_features) == (48, 80)


def test_other_layers_stay_as_they_are() -> None:
    """Subclasses have a forward of their own, float16 has no kernel."""

    class Scaled(nn.Linear):
        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(rows)

    net = nn.ModuleList([Scaled(4, 4), nn.Linear(4, 4, dtype=torch.float16), nn.Embedding(3, 4)])
    assert pack_linears(net) == 0


def test_a_layer_that_would_compute_something_else_is_not_taken(caplog: pytest.LogCaptureFixture) -> None:
    """Shown with numbers that equal nothing; it costs speed, and the log says so."""
    net = _net()
    assert isinstance(net[0], nn.Linear)
    net[0].weight[0, 0] = float("nan")
    with caplog.at_level(logging.WARNING):
        assert pack_linears(net) == 0
    assert "unpacked" in caplog.text
    assert type(net[0]) is nn.Linear
