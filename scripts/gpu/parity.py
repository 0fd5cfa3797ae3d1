"""Compare the plain model's endpoint with vLLM's own server, both on one GPU; figures for the report.

    python -m scripts.gpu.parity --model DIR

scripts/benchmarks/decoding/plain_model.py measures; this passes it sizes for a GPU and reads its report.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scripts.gpu.serving import figure
from scripts.served import ROOT

_BENCHMARK = "scripts/benchmarks/decoding/plain_model.py"
# Both servers run at once.
_SHARE, _KV_GIB, _ROUNDS = 0.4, 2.0, 5
# Of tokens a second: slower than this is no parity, whatever the noise between rounds.
_LEAST = 0.9


def readings(report: Mapping[str, Any]) -> Iterator[tuple[str, str, float]]:
    """(name, text, ratio of tokens/s) for each number of clients."""
    for clients, found in report.items():
        if clients.isdigit():
            ratio = found["tokens_per_s"]["ratio"]
            yield f"tokens/s, ours over vLLM's, {clients} clients", json.dumps(found["tokens_per_s"]), float(ratio)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--clients", default="1,32")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="parity-") as folder:
        out = Path(folder) / "report.json"
        command = [sys.executable, _BENCHMARK, "--model", str(args.model), "--clients", args.clients]
        command += ["--rounds", str(_ROUNDS), "--gpu-share", str(_SHARE), "--kv-gib", str(_KV_GIB), "--out", str(out)]
        status = subprocess.run(command, cwd=ROOT).returncode
        if status:
            return status
        report = json.loads(out.read_text(encoding="utf-8"))
    ratios = []
    for name, text, ratio in readings(report):
        figure(name, text)
        ratios.append(ratio)
    return 0 if ratios and min(ratios) >= _LEAST else 1


if __name__ == "__main__":
    raise SystemExit(main())
