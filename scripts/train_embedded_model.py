"""Train the embedded model from scratch on generated transcripts.

    python -m scripts.train_embedded_model --tokens 16e6 --run runs/embedded

Reproducible by its seed on one machine (the order of floating-point sums depends on the machine), resumable at any
moment (``--resume``), on CPU or GPU. Writes weights, digests and the tokenizer to ``--out`` at the end, prints
the scores for the card, and keeps the losses with the scores of held-out transcripts in ``--run``.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM

from scripts.embedded.batches import Batch, StreamPlan, batches, encode, in_background, make_batch
from scripts.embedded.copying_init import NUM_COPYING_LAYERS, start_with_copying
from scripts.embedded.generator import Generator
from scripts.embedded.tokenizer import build_tokenizer, save_tokenizer
from scripts.training.card import write_facts

HELD_OUT_SEED = 987_654_321


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that determines the run. Token counts leave padding out."""

    tokens: int
    seed: int
    batch_tokens: int
    learning_rate: float
    layers: int
    width: int
    inner: int

    def rate(self, seen: int) -> float:
        """Linear warm-up, level, then a straight line down to nothing over the last 70 %."""
        rise = min(1.0, (seen + 1000) / 150_000)
        fall = min(1.0, (self.tokens - seen) / (0.7 * self.tokens))
        return self.learning_rate * max(0.0, min(rise, fall))


def build_model(plan: Plan, tokenizer: Tokenizer) -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=plan.width,
        intermediate_size=plan.inner,
        num_hidden_layers=plan.layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=plan.width // 2,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=0,
        rms_norm_eps=1e-5,
        rope_theta=1e12,
        attn_implementation="sdpa",
    )
    torch.manual_seed(plan.seed)
    model = LlamaForCausalLM(config)
    start_with_copying(model, lambda text: tokenizer.encode(text).ids[-1], plan.seed)
    return model


class Optimizers:
    """Muon for the matrices inside the blocks, AdamW at a tenth of its rate for the rest.

    What starts from closed form moves slowly: the first two layers, and the embeddings, which lose what copying stands
    on (that no two tokens look alike) when they move fast.
    """

    def __init__(self, model: LlamaForCausalLM) -> None:
        matrices = [(n, p) for n, p in model.named_parameters() if p.ndim == 2 and n.startswith("model.layers.")]
        copying = [p for n, p in matrices if int(n.split(".")[2]) < NUM_COPYING_LAYERS]
        later = [p for n, p in matrices if int(n.split(".")[2]) >= NUM_COPYING_LAYERS]
        taken = {id(p) for _, p in matrices}
        rest = [p for p in model.parameters() if id(p) not in taken]
        groups = [{"params": copying, "scale": 0.2}, {"params": later, "scale": 1.0}]
        others = [{"params": rest, "scale": 0.1}]
        self.all = [
            torch.optim.Muon(groups, lr=1.0, weight_decay=0.05, adjust_lr_fn="match_rms_adamw"),
            torch.optim.AdamW(others, lr=1.0, betas=(0.9, 0.97), weight_decay=0.0, fused=True),
        ]

    def step(self, rate: float) -> None:
        for optimizer in self.all:
            for group in optimizer.param_groups:
                group["lr"] = rate * group["scale"]
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    def tensors(self) -> dict[str, torch.Tensor]:
        """All state as named tensors, so that no pickle is needed."""
        found: dict[str, torch.Tensor] = {}
        for place, optimizer in enumerate(self.all):
            for index, state in optimizer.state_dict()["state"].items():
                found |= {f"{place}.{index}.{k}": v.contiguous() for k, v in state.items() if torch.is_tensor(v)}
        return found

    def restore(self, tensors: dict[str, torch.Tensor]) -> None:
        for place, optimizer in enumerate(self.all):
            whole = optimizer.state_dict()
            for name, tensor in tensors.items():
                at, index, key = name.split(".", 2)
                if int(at) == place:
                    whole["state"].setdefault(int(index), {})[key] = tensor
            optimizer.load_state_dict(whole)


def forward(model: LlamaForCausalLM, batch: Batch, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits at the positions before learnt tokens, [n, vocab], and those tokens, [n]."""
    ids, learn = batch.ids.to(device), batch.learn.to(device)
    with torch.autocast(device_type=device, dtype=torch.bfloat16):
        hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state
        logits = model.lm_head(hidden[:, :-1][learn[:, 1:]])
    return logits.float(), ids[:, 1:][learn[:, 1:]]


@torch.no_grad()
def evaluate(model: LlamaForCausalLM, held_out: dict[str, Batch], device: str) -> dict[str, float]:
    """Share of held-out transcripts of each kind in which every written token is the most likely one."""
    scores = {}
    for kind, batch in held_out.items():
        logits, wanted = forward(model, batch, device)
        rows = torch.nonzero(batch.learn[:, 1:])[:, 0]
        wrong = rows[(logits.argmax(-1) != wanted).cpu()]
        scores[kind] = 1.0 - len(set(wrong.tolist())) / len(batch.ids)
    return scores


def draw_held_out(num_each: int) -> dict[str, Batch]:
    tokenizer, generator = build_tokenizer(), Generator(HELD_OUT_SEED)
    return {
        kind: make_batch([encode(tokenizer, generator.draw_one(kind)) for _ in range(num_each)])
        for kind in generator.kinds
    }


class Run:
    """One training run: its state on disk and in memory."""

    def __init__(self, plan: Plan, folder: Path, device: str) -> None:
        self.plan, self.folder, self.device = plan, folder, device
        self.tokenizer = build_tokenizer()
        self.model = build_model(plan, self.tokenizer).to(device)
        self.optimizers = Optimizers(self.model)
        self.seen = 0
        self.log: list[dict[str, Any]] = []
        self.plans: list[dict[str, Any]] = [{"from_token": 0, **asdict(plan)}]
        folder.mkdir(parents=True, exist_ok=True)

    def resume(self) -> None:
        state = json.loads((self.folder / "state.json").read_text())
        self.model.load_state_dict(load_file(self.folder / f"model-{state['seen']}.safetensors"))
        self.optimizers.restore(load_file(self.folder / f"optimizer-{state['seen']}.safetensors"))
        self.seen, self.log, earlier = state["seen"], state["log"], state["plans"]
        self.plans = earlier + [
            p | {"from_token": self.seen} for p in self.plans if p | {"from_token": 0} not in earlier
        ]

    def save(self) -> None:
        """The state file names the tensors and is replaced last: a kill leaves the old or the new state whole."""
        weights = {k: v.contiguous() for k, v in self.model.state_dict().items() if k != "lm_head.weight"}
        weights["lm_head.weight"] = self.model.lm_head.weight.detach().clone()
        save_file(weights, self.folder / f"model-{self.seen}.safetensors")
        save_file(self.optimizers.tensors(), self.folder / f"optimizer-{self.seen}.safetensors")
        new = self.folder / "state.json.new"
        new.write_text(json.dumps({"seen": self.seen, "plans": self.plans, "log": self.log}))
        new.replace(self.folder / "state.json")
        for old in self.folder.glob("*-*.safetensors"):
            if not old.name.endswith(f"-{self.seen}.safetensors"):
                old.unlink()

    def step(self, batch: Batch) -> float:
        logits, wanted = forward(self.model, batch, self.device)
        loss = functional.cross_entropy(logits, wanted)
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizers.step(self.plan.rate(self.seen))
        self.seen += batch.num_tokens
        return float(loss.detach())

    def train(self, every_s: float, held_out: dict[str, Batch]) -> None:
        plan = StreamPlan(self.plan.seed, self.plan.batch_tokens)
        stream: Iterator[Batch] = batches(self.tokenizer, plan, start=self.seen)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        begun = last = time.monotonic()
        losses: list[float] = []
        with Progress(*columns, refresh_per_second=0.5) as progress:
            bar = progress.add_task("training", total=self.plan.tokens, completed=self.seen)
            for batch in in_background(stream):
                losses.append(self.step(batch))
                if len(losses) % 50 == 0:
                    print(f"{self.seen:>12,} tokens loss {sum(losses[-50:]) / 50:.4f}", flush=True)
                progress.update(bar, completed=self.seen, description=f"loss {losses[-1]:.4f}")
                done = self.seen >= self.plan.tokens
                if done or time.monotonic() - last > every_s:
                    last = time.monotonic()
                    self._report(losses, last - begun, evaluate(self.model, held_out, self.device))
                    losses = []
                    self.save()
                if done:
                    return

    def _report(self, losses: list[float], seconds: float, scores: dict[str, float]) -> None:
        loss = sum(losses) / len(losses)
        self.log.append({"seen": self.seen, "seconds": round(seconds), "loss": loss, "right": scores})
        mean = sum(v for k, v in scores.items() if k != "copy") / (len(scores) - 1)
        shown = " ".join(f"{k} {v:.2f}" for k, v in scores.items())
        print(f"{self.seen:>12,} tokens {seconds:6.0f} s loss {loss:.4f} right {mean:.3f}: {shown}", flush=True)

    def export(self, out: Path, held_out: dict[str, Batch]) -> None:
        if not math.isfinite(self.log[-1]["loss"]):
            raise SystemExit("the run diverged; nothing was exported")
        scores = evaluate(self.model, held_out, self.device)
        self.model.to(torch.bfloat16).save_pretrained(out)
        save_tokenizer(out)
        write_facts(out)
        print("\n".join(f"| {kind} | {share:.2f} |" for kind, share in scores.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=float, default=16e6, help="tokens to train on")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--learning-rate", type=float, default=1.5e-3)
    parser.add_argument("--layers", type=int, default=5)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--inner", type=int, default=640)
    parser.add_argument("--every", type=float, default=300.0, help="seconds between evaluations and checkpoints")
    parser.add_argument("--run", type=Path, default=Path("runs/embedded"))
    parser.add_argument("--out", type=Path, default=Path("models/embedded/arrowhead-tiny"))
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint of --run")
    parser.add_argument("--export-only", action="store_true", help="write the last checkpoint of --run to --out")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--compile", action="store_true", help="fuse with torch.compile (needs a C++ compiler)")
    args = parser.parse_args()
    plan = Plan(int(args.tokens), args.seed, args.batch_tokens, args.learning_rate,
                args.layers, args.width, args.inner)  # fmt: skip
    run = Run(plan, args.run, args.device)
    if args.resume or args.export_only:
        run.resume()
    if args.compile:
        run.model.model.compile(dynamic=True)
    if not args.export_only:
        run.train(args.every, draw_held_out(25))
    run.export(args.out, draw_held_out(100))


if __name__ == "__main__":
    main()
