"""Verify Arrowhead on a machine with a GPU and print the report; scripts/verify_gpu installs what this needs first."""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path

from scripts.gpu.report import Outcome, Step, render, run_steps
from scripts.gpu.steps import chosen, steps_for

ROOT = Path(__file__).resolve().parents[2]
EMBEDDED = ROOT / "models" / "embedded" / "arrowhead-tiny"
_PACKAGES = ("arrowhead", "torch", "vllm", "transformers", "flashinfer-python", "triton", "faiss-gpu", "cuda-python")
_SMI = ("nvidia-smi", "--query-gpu=name,memory.total,driver_version,compute_cap", "--format=csv,noheader")
NO_GPU = 2
Ask = Callable[[Sequence[str]], str]


def ask(command: Sequence[str]) -> str:
    """The output of a short command, "" where it cannot be run."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def facts(arguments: Sequence[str], gpus: str, run: Ask) -> dict[str, str]:
    """What the report was made with: commit, versions, card."""
    versions = []
    for name in _PACKAGES:
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            versions.append(f"{name} missing")
    commit = run(("git", "rev-parse", "HEAD")) or "unknown"
    changed = "with changes" if run(("git", "status", "--porcelain")) else "unchanged"
    return {
        "command": " ".join(("scripts/verify_gpu", *arguments)),
        "commit": f"{commit}, {changed}",
        "GPUs": "; ".join(gpus.splitlines()),
        "machine": f"{platform.platform()}, {platform.machine()}",
        "Python": platform.python_version(),
        "versions": ", ".join(versions),
    }


def installation(args: argparse.Namespace) -> list[Outcome]:
    """The outcome of the installation, which scripts/verify_gpu did."""
    if args.install_status is None:
        return []
    tail = args.install_log.read_text(errors="replace").splitlines()[-25:] if args.install_log else []
    step = Step("install", "the gpu extra installs", ("scripts/install", "gpu"), 0.0)
    status = "passed" if args.install_status == 0 else "failed"
    return [Outcome(step, status, args.install_seconds, tail="\n".join(tail))]


def main(argv: Sequence[str] | None = None, run: Ask = ask) -> int:
    args = _arguments(argv)
    try:
        steps = chosen(steps_for(sys.executable, args.model, args.checkpoint), args.only)
    except ValueError as error:
        print(f"verify_gpu: {error}", file=sys.stderr)
        return 1
    if args.list:
        print("\n".join(f"{step.name:<16} {step.title}, {step.limit_s / 60:.0f} min at most" for step in steps))
        return 0
    gpus = run(_SMI)
    if not gpus:
        print("verify_gpu: nvidia-smi lists no GPU: run this on the GPU host, with its driver", file=sys.stderr)
        return NO_GPU
    given = [one for one in (sys.argv[1:] if argv is None else argv) if not one.startswith("--install-")]
    with tempfile.TemporaryDirectory(prefix="verify-gpu-") as folder:
        outcomes = installation(args)
        outcomes += run_steps(steps, Path(folder), lambda text: print(text, file=sys.stderr, flush=True))
    report = render(outcomes, facts(given, gpus, run))
    print(report)
    if args.out:
        args.out.write_text(report, encoding="utf-8")
    return 1 if any(one.is_failure for one in outcomes) else 0


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="verify_gpu", description=__doc__)
    parser.add_argument("--model", type=Path, default=EMBEDDED, help="model directory; the embedded one")
    parser.add_argument("--checkpoint", type=Path, help="directory of a quantised checkpoint")
    parser.add_argument("--only", help="names of steps, separated by commas")
    parser.add_argument("--out", type=Path, help="file for the report")
    parser.add_argument("--list", action="store_true", help="name the steps and end")
    parser.add_argument("--install-status", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--install-seconds", type=float, default=0.0, help=argparse.SUPPRESS)
    parser.add_argument("--install-log", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


if __name__ == "__main__":
    raise SystemExit(main())
