"""Compare forms of a model's weights on a processor: how fast its linear layers are, and whether the model agrees.

    python scripts/benchmarks/decoding/weight_formats.py FOLDER [--text FILE] [--threads 2] [--repeats 7]

FOLDER is a model folder, as a GGUF file is converted to. Milliseconds for all linear layers of one step, each form in
turn, medians: one token of 1 and of 3 sequences, and a prompt of 64 and 512 tokens (without the head, which is computed
for its last token alone). Agreement is with float32, over the tokens of --text (400 at most): the mean divergence of
the distributions in nats, and the share of positions with the same most likely token.

int8 weights: one scale a row, multiplied in bfloat16. int8 dynamic: inputs are rounded as well, with one scale for the
whole input (fbgemm). int4: 16 steps in groups of 32, multiplied in bfloat16; those of a Q4_1 file lie on such steps.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer

Apply = Callable[[Tensor], Tensor]
_ROWS: Final = (1, 3, 64, 512)
_GROUP: Final = 32
_MOST_TOKENS: Final = 400
_HEAD: Final = 40_000


def packed(dtype: torch.dtype) -> Callable[[Tensor], Apply]:
    def make(weight: Tensor) -> Apply:
        form = torch.ops.mkldnn._reorder_linear_weight(weight.to(dtype))
        return lambda rows: torch.ops.mkldnn._linear_pointwise(rows, form, None, "none", [], "")

    return make


def _by_row(weight: Tensor) -> tuple[Tensor, Tensor]:
    scales = weight.abs().amax(1) / 127
    return (weight / scales[:, None]).round().to(torch.int8).contiguous(), scales


def int8_weights(weight: Tensor) -> Apply:
    values, scales = _by_row(weight)
    halves = scales.bfloat16()
    return lambda rows: torch.ops.aten._weight_int8pack_mm(rows, values, halves)


def int8_dynamic(weight: Tensor) -> Apply:
    values, scales = _by_row(weight)
    zeros = torch.zeros(len(scales), dtype=torch.long)
    quantised = torch._make_per_channel_quantized_tensor(values, scales.double(), zeros, 0)
    form = torch.ops.quantized.linear_prepack(quantised, None)
    return lambda rows: torch.ops.quantized.linear_dynamic(rows, form, False)


def int4(weight: Tensor) -> Apply:
    blocks = weight.reshape(weight.shape[0], -1, _GROUP)
    least = blocks.amin(-1)
    step = ((blocks.amax(-1) - least) / 15).clamp(min=1e-8)
    values = ((blocks - least[..., None]) / step[..., None]).round().clamp(0, 15).to(torch.int32)
    scales = torch.stack([step, least + 8 * step], -1).transpose(0, 1).contiguous().bfloat16()
    form = torch.ops.aten._convert_weight_to_int4pack_for_cpu(values.reshape(weight.shape), 1)
    return lambda rows: torch.ops.aten._weight_int4pack_mm_for_cpu(rows, form, _GROUP, scales)


# Form -> how a weight is made into it, and the dtype of its inputs.
FORMS: Final[dict[str, tuple[Callable[[Tensor], Apply], torch.dtype]]] = {
    "float32": (packed(torch.float32), torch.float32),
    "bfloat16": (packed(torch.bfloat16), torch.bfloat16),
    "int8 weights": (int8_weights, torch.bfloat16),
    "int8 dynamic": (int8_dynamic, torch.float32),
    "int4": (int4, torch.bfloat16),
}


class Applied(nn.Module):
    """A linear layer in one of the forms."""

    def __init__(self, layer: nn.Linear, form: str) -> None:
        super().__init__()
        make, self.dtype = FORMS[form]
        self.weight, self.form = layer.weight, make(layer.weight.detach().float())

    def forward(self, rows: Tensor) -> Tensor:
        flat = rows.reshape(-1, rows.shape[-1]).to(self.dtype)
        return self.form(flat).to(rows.dtype).reshape(*rows.shape[:-1], -1)


def times(layers: Sequence[nn.Linear], repeats: int) -> None:
    made = {form: [FORMS[form][0](layer.weight.detach().float()) for layer in layers] for form in FORMS}
    print(f"| form | {' | '.join(f'{rows} rows' for rows in _ROWS)} |\n| --- |{' --- |' * len(_ROWS)}")
    taken: dict[str, list[float]] = {form: [] for form in FORMS}
    for rows in _ROWS:
        found: dict[str, list[float]] = {form: [] for form in FORMS}
        for _ in range(repeats if rows < 64 else max(2, repeats // 3)):
            for form, applied in made.items():
                found[form].append(_step(layers, applied, rows, FORMS[form][1]))
        for form, all_of in found.items():
            taken[form].append(statistics.median(all_of))
    for form, medians in taken.items():
        print(f"| {form} | {' | '.join(f'{1000 * one:.1f}' for one in medians)} |", flush=True)


def _step(layers: Sequence[nn.Linear], applied: Sequence[Apply], rows: int, dtype: torch.dtype) -> float:
    widths = {layer.in_features for layer in layers}
    inputs = {width: torch.ones(rows, width, dtype=dtype) for width in widths}
    begin = time.perf_counter()
    for layer, apply in zip(layers, applied, strict=True):
        if layer.out_features < _HEAD or rows < 64:
            apply(inputs[layer.in_features])
    return time.perf_counter() - begin


def agreement(folder: Path, text: str) -> None:
    ids = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")["input_ids"][:, :_MOST_TOKENS]
    expected = _logits(folder, ids, None).log_softmax(-1)
    print(f"\n| form | divergence | same token | of {ids.shape[1]} tokens |\n| --- | --- | --- | --- |")
    for form in FORMS:
        found = _logits(folder, ids, form).log_softmax(-1)
        apart = (expected.exp() * (expected - found)).sum(-1).mean()
        same = (expected.argmax(-1) == found.argmax(-1)).float().mean()
        print(f"| {form} | {float(apart):.4f} | {float(same):.3f} | |", flush=True)


def _logits(folder: Path, ids: Tensor, form: str | None) -> Tensor:
    dtype = torch.float32 if form is None else FORMS[form][1]
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()
    for parent in list(model.modules()) if form else ():
        for name, layer in list(parent.named_children()):
            if type(layer) is nn.Linear:
                setattr(parent, name, Applied(layer, form or ""))
    logits: Tensor = model(input_ids=ids).logits
    return logits.float()


@torch.inference_mode()
def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--text", type=Path, default=Path(__file__).parents[3] / "docs" / "medrag.md")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args(argv)
    torch.set_num_threads(arguments.threads)
    warnings.simplefilter("ignore")
    model = AutoModelForCausalLM.from_pretrained(arguments.folder, dtype=torch.float32)
    times([layer for layer in model.modules() if type(layer) is nn.Linear], arguments.repeats)
    del model
    agreement(arguments.folder, arguments.text.read_text(encoding="utf-8"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
