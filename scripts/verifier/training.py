"""Train the network: seeded, resumable at any checkpoint, on a CPU or a card.

The folder of a run holds ``state.json``, which names the files of the last checkpoint and is replaced last, and the
weights of each finished cycle: the rate rises and falls once in each, so that each ends with a usable model.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from models.encoders.texts import TokenRow, TruncatingTokenizer
from models.verifiers.cross_encoder import WORDS
from models.verifiers.network import VerifierNetwork
from scripts.verifier.samples import UNTOLD, Sample

_BETAS: Final = (0.9, 0.98)
_CLIP: Final = 1.0
_SMOOTHING: Final = 0.05
# Rows that are sorted together: batches of like length, and yet of mixed sources.
_CHUNK: Final = 1024
_STEP: Final = 8
_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class Plan:
    """Set what determines a run, besides its data.

    ``cycles``: passes over the mixture, each another draw of it. The rate rises over ``warm_up`` steps, stays, and
    falls over the last ``decay`` share of a cycle.
    """

    cycles: int = 8
    seed: int = 7
    rate: float = 1e-4
    warm_up: int = 44
    decay: float = 0.4
    batch_tokens: int = 2048
    device: str = "cpu"


class Batch:
    """Hold padded tensors of a batch, [rows, width], and what it teaches, [rows]."""

    def __init__(self, samples: Sequence[Sample], rows: Sequence[TokenRow], device: str) -> None:
        width = -(-max(len(row.ids) for row in rows) // _STEP) * _STEP
        shape = (len(rows), width)
        ids, segments, mask = (torch.zeros(shape, dtype=torch.long) for _ in range(3))
        for place, row in enumerate(rows):
            length = len(row.ids)
            ids[place, :length] = torch.from_numpy(row.ids)
            segments[place, :length] = torch.from_numpy(row.segments)
            mask[place, :length] = 1
        self.inputs = tuple(part.to(device) for part in (ids, segments, mask))
        self.relevance = torch.tensor([one.relevance for one in samples], dtype=torch.float32, device=device)
        self.verdict = torch.tensor([one.verdict for one in samples], dtype=torch.long, device=device)


def batches(samples: Sequence[Sample], cutter: TruncatingTokenizer, plan: Plan, seed: str) -> list[list[int]]:
    """Return the places of the samples of each batch: all samples once, of like length, in an order by the seed."""
    draw = random.Random(seed)
    lengths = [len(row.ids) for row in cutter.rows([(one.query, one.evidence) for one in samples])]
    groups: list[list[int]] = []
    for start in range(0, len(samples), _CHUNK):
        group: list[int] = []
        for place in sorted(range(start, min(start + _CHUNK, len(samples))), key=lengths.__getitem__):
            if group and (len(group) + 1) * (-(-lengths[place] // _STEP) * _STEP) > plan.batch_tokens:
                groups.append(group)
                group = []
            group.append(place)
        groups.append(group)
    draw.shuffle(groups)
    return groups


def losses(network: VerifierNetwork, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the mean loss of relevance, and of the verdicts that are taught."""
    logits = network(*batch.inputs)
    told = batch.relevance != UNTOLD
    relevance = functional.binary_cross_entropy_with_logits(logits.relevance[told], batch.relevance[told])
    verdict = functional.cross_entropy(
        logits.verdict, batch.verdict, ignore_index=UNTOLD, label_smoothing=_SMOOTHING, reduction="sum"
    ) / len(batch.verdict)
    return relevance, verdict


class Run:
    """Hold one training run: its state on disk and in memory."""

    def __init__(self, network: VerifierNetwork, cutter: TruncatingTokenizer, plan: Plan, folder: Path) -> None:
        self.network, self.cutter, self.plan, self.folder = network.to(plan.device), cutter, plan, folder
        self.network.requires_grad_(True)
        # The table of words stays the base's: it is not stored with the verifier.
        self.network.get_parameter(WORDS).requires_grad_(False)
        self.parameters = {name: one for name, one in network.named_parameters() if one.requires_grad}
        self.optimizer = torch.optim.AdamW(
            self.parameters.values(), lr=plan.rate, betas=_BETAS, weight_decay=0.01, fused=True
        )
        self.cycle, self.step = 0, 0
        self.log: list[dict[str, Any]] = []
        folder.mkdir(parents=True, exist_ok=True)

    def resume(self) -> None:
        """Go on from the last checkpoint, where the folder has one."""
        if not (self.folder / "state.json").is_file():
            return
        state = json.loads((self.folder / "state.json").read_text(encoding="utf-8"))
        self.cycle, self.step, self.log = state["cycle"], state["step"], state["log"]
        self._restore(load_file(self.folder / f"weights-{self._name}.safetensors"))
        found = load_file(self.folder / f"optimizer-{self._name}.safetensors")
        whole = self.optimizer.state_dict()
        for name, tensor in found.items():
            at, key = name.split(".", 1)
            whole["state"].setdefault(int(at), {})[key] = tensor
        self.optimizer.load_state_dict(whole)

    def train(self, draw: Callable[[int], Sequence[Sample]], every_s: float) -> None:
        """Run to the last cycle's end; save every ``every_s`` seconds, and the weights of each cycle for good.

        ``draw`` returns the samples of a cycle.
        """
        while self.cycle < self.plan.cycles:
            self.run_steps(draw(self.cycle), every_s=every_s)
            self.cycle, self.step = self.cycle + 1, 0
            self.write(self.folder / f"cycle-{self.cycle}.safetensors")
            self.save()

    def write(self, file: Path) -> None:
        """Write the weights as they are."""
        save_file(self._weights(), file)

    def save(self) -> None:
        self.write(self.folder / f"weights-{self._name}.safetensors")
        state = self.optimizer.state_dict()["state"]
        tensors = {f"{at}.{key}": one.contiguous() for at, values in state.items() for key, one in values.items()}
        save_file(tensors, self.folder / f"optimizer-{self._name}.safetensors")
        new = self.folder / "state.json.new"
        new.write_text(json.dumps({"cycle": self.cycle, "step": self.step, "log": self.log}), encoding="utf-8")
        new.replace(self.folder / "state.json")
        for old in [*self.folder.glob("weights-*"), *self.folder.glob("optimizer-*")]:
            if not old.stem.endswith(f"-{self._name}"):
                old.unlink()

    @property
    def _name(self) -> str:
        return f"{self.cycle}.{self.step}"

    def run_steps(self, samples: Sequence[Sample], until: int | None = None, every_s: float = math.inf) -> None:
        """Run the steps of a pass that are left, or those before ``until``."""
        groups = batches(samples, self.cutter, self.plan, f"{self.plan.seed} batches {self.cycle}")
        began = saved = shown = time.monotonic()
        pairs, total = 0, [0.0, 0.0]
        for group in groups[self.step : until]:
            found = self._update(self._batch([samples[place] for place in group]), len(groups))
            total = [before + one for before, one in zip(total, found, strict=True)]
            pairs += len(group)
            if self.step % _SHOWN == 0:
                now = time.monotonic()
                row = {"cycle": self.cycle, "step": self.step, "loss": [round(one / _SHOWN, 4) for one in total]}
                self.log.append(row)
                print(f"{row} of {len(groups)}, {pairs / (now - shown):.1f} pairs/s, {now - began:.0f} s", flush=True)
                pairs, total, shown = 0, [0.0, 0.0], now
            if time.monotonic() - saved > every_s:
                self.save()
                saved = time.monotonic()

    @torch.inference_mode()
    def loss_of(self, samples: Sequence[Sample]) -> float:
        """Return the loss of samples, in one batch."""
        return float(sum(losses(self.network, self._batch(samples))))

    def _batch(self, samples: Sequence[Sample]) -> Batch:
        return Batch(samples, self.cutter.rows([(one.query, one.evidence) for one in samples]), self.plan.device)

    def _update(self, batch: Batch, steps: int) -> Iterator[float]:
        kind = self.plan.device.partition(":")[0]
        with torch.autocast(kind, torch.bfloat16), sdpa_kernel(SDPBackend.MATH):
            relevance, verdict = losses(self.network, batch)
            (relevance + verdict).backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.parameters.values(), _CLIP)
        for group in self.optimizer.param_groups:
            group["lr"] = self._rate(steps)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        values = float(relevance.detach()), float(verdict.detach())
        if not all(map(math.isfinite, values)):
            raise SystemExit(f"the run diverged at step {self.step}; its last checkpoint is whole")
        return iter(values)

    def _rate(self, steps: int) -> float:
        part = (self.step + 1) / steps
        fall = min(1.0, (1.0 - part) / self.plan.decay)
        return self.plan.rate * min(1.0, (self.step + 1) / self.plan.warm_up) * max(0.03, fall)

    def _weights(self) -> dict[str, Tensor]:
        return {name: one.detach().cpu().contiguous() for name, one in self.parameters.items()}

    def _restore(self, weights: dict[str, Tensor]) -> None:
        with torch.no_grad():
            for name, tensor in weights.items():
                self.parameters[name].copy_(tensor)
