"""Train an adapter: seeded, resumable at any checkpoint, on CPU or GPU.

A run's folder holds ``state.json``, which names the files of the last checkpoint and is replaced last, so that a kill
leaves the old or the new state whole. Equal seeds, steps and machine give equal weights, interrupted or not.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional

from scripts.training.lora import adapter_parameters, restore
from scripts.training.packing import Encoded, Packed, pack, stacked, total_weight

Groups = Callable[[int], Sequence[Sequence[Encoded]]]
_BETAS: Final = (0.9, 0.98)
_CLIP: Final = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """Set everything that determines a run, besides its data.

    The rate rises over ``warm_up`` steps, stays, and falls by a cosine over the last ``decay`` of ``steps`` steps.
    """

    steps: int
    seed: int = 7
    rate: float = 8e-4
    warm_up: int = 10
    decay: int = 100
    # Contexts in one pass of the model: one on a CPU, as many as a step has on a GPU.
    at_once: int = 1

    def rate_at(self, step: int) -> float:
        rise = min(1.0, (step + 1) / max(1, self.warm_up))
        left = min(1.0, (self.steps - step) / max(1, self.decay))
        return self.rate * rise * (0.5 - 0.5 * math.cos(math.pi * max(0.0, left)))


class Run:
    """Hold one training run: its state on disk and in memory."""

    def __init__(self, model: nn.Module, plan: Plan, groups: Groups, folder: Path, device: str = "cpu") -> None:
        self.model, self.plan, self.groups, self.folder, self.device = model, plan, groups, folder, device
        self.parameters = adapter_parameters(model)
        self.optimizer = torch.optim.AdamW(
            [{"params": list(self.parameters.values())}], lr=plan.rate, betas=_BETAS, weight_decay=0.0
        )
        self.step = 0
        self.tokens = 0
        self.log: list[dict[str, Any]] = []
        self.plans: list[dict[str, Any]] = []
        # What else made this run, for its record.
        self.notes: dict[str, Any] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def resume(self) -> None:
        """Go on from the last checkpoint of the folder; raises FileNotFoundError where there is none."""
        state = json.loads((self.folder / "state.json").read_text(encoding="utf-8"))
        restore(self.parameters, load_file(self.folder / f"adapter-{state['step']}.safetensors"))
        self._restore_optimizer(load_file(self.folder / f"optimizer-{state['step']}.safetensors"))
        self.step, self.tokens, self.log = state["step"], state["tokens"], state["log"]
        self.plans = state["plans"]

    def save(self) -> None:
        save_file({k: v.detach().contiguous() for k, v in self.parameters.items()},
                  self.folder / f"adapter-{self.step}.safetensors")  # fmt: skip
        save_file(self._optimizer_tensors(), self.folder / f"optimizer-{self.step}.safetensors")
        state = {"step": self.step, "tokens": self.tokens, "plans": self.plans, "log": self.log}
        new = self.folder / "state.json.new"
        new.write_text(json.dumps(state), encoding="utf-8")
        new.replace(self.folder / "state.json")
        for old in self.folder.glob("*-*.safetensors"):
            if not old.stem.endswith(f"-{self.step}"):
                old.unlink()

    def train(self, every_s: float, until: int | None = None) -> None:
        """Run to the plan's last step, or to step ``until``; save every ``every_s`` seconds and at the end."""
        end = self.plan.steps if until is None else min(until, self.plan.steps)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self.plans.append({"from_step": self.step, **asdict(self.plan), **self.notes})
        saved = begun = time.monotonic()
        with Progress(*columns, refresh_per_second=0.5) as progress, ThreadPoolExecutor(1) as drawing:
            bar = progress.add_task("training", total=end, completed=self.step)
            drawn = drawing.submit(self.groups, self.step)
            while self.step < end:
                groups = [group for group in drawn.result() if group]
                if self.step + 1 < end:
                    # The samples of the next step are made while this one is computed.
                    drawn = drawing.submit(self.groups, self.step + 1)
                loss, tokens = self._step(groups)
                seconds = round(time.monotonic() - begun, 1)
                self.log.append({"step": self.step, "loss": round(loss, 4), "tokens": tokens, "seconds": seconds})
                print(f"step {self.step} loss {loss:.4f} tokens {tokens} seconds {seconds}", flush=True)
                progress.update(bar, completed=self.step, description=f"loss {loss:.4f}")
                if time.monotonic() - saved > every_s:
                    self.save()
                    saved = time.monotonic()
        self.save()

    def _step(self, groups: Sequence[Sequence[Encoded]]) -> tuple[float, int]:
        loss = self._backward(groups)
        torch.nn.utils.clip_grad_norm_(self.parameters.values(), _CLIP)
        for group in self.optimizer.param_groups:
            group["lr"] = self.plan.rate_at(self.step)
        self.optimizer.step()
        self.step += 1
        tokens = sum(len(one.ids) for group in groups for one in group)
        self.tokens += tokens
        if not math.isfinite(loss):
            raise SystemExit(f"the run diverged at step {self.step}; its last checkpoint is whole")
        return loss, tokens

    def _backward(self, groups: Sequence[Sequence[Encoded]]) -> float:
        """Set the gradient of each parameter for these groups, and return their mean loss."""
        whole, total = sum(total_weight(group) for group in groups), 0.0
        self.optimizer.zero_grad()
        for start in range(0, len(groups), self.plan.at_once):
            some = [pack(group) for group in groups[start : start + self.plan.at_once]]
            packed = (some[0] if len(some) == 1 else stacked(some)).to(self.device)
            loss = (token_losses(self.model, packed) * packed.weights).sum() / whole
            loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            total += float(loss.detach())
        return total

    def _optimizer_tensors(self) -> dict[str, torch.Tensor]:
        """Return all state as named tensors, so that no pickle is needed."""
        state = self.optimizer.state_dict()["state"]
        return {f"{at}.{key}": value.contiguous() for at, values in state.items() for key, value in values.items()}

    def _restore_optimizer(self, tensors: dict[str, torch.Tensor]) -> None:
        whole = self.optimizer.state_dict()
        for name, tensor in tensors.items():
            at, key = name.split(".", 1)
            whole["state"].setdefault(int(at), {})[key] = tensor
        self.optimizer.load_state_dict(whole)


def token_losses(model: Any, packed: Packed) -> torch.Tensor:
    """Return the cross-entropy of each learned token, float32 [m]."""
    hidden = model.model(
        input_ids=packed.ids, attention_mask=packed.mask, position_ids=packed.positions, use_cache=False
    ).last_hidden_state
    logits = model.lm_head(hidden[packed.rows, packed.sources]).float()
    return functional.cross_entropy(logits, packed.targets, reduction="none")
