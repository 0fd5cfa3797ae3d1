"""What the checks on the card compute from their measurements."""

from __future__ import annotations

import numpy as np
import pytest

from scripts.benchmarks.decoding.plain_model import Measured, commands, compare, ratios_of
from scripts.gpu.beside_index import held_bytes
from scripts.gpu.flat_scan import median_s, recall

GIB = 2**30


def test_enough_of_a_gpu_is_held_that_vllms_share_is_not_free() -> None:
    """10 GiB of a small one are; of a large one, 15 %."""
    assert held_bytes(10, 24 * GIB) == 10 * GIB
    assert held_bytes(10, 140 * GIB) == 21 * GIB > (1 - 0.92) * 140 * GIB


def test_recall_is_the_share_of_exact_hits() -> None:
    assert recall(np.array([[1, 2], [3, 4]]), np.array([[2, 1], [3, 9]])) == 0.75


def test_one_run_warms_up_and_the_others_count() -> None:
    runs: list[int] = []
    assert median_s(lambda: runs.append(1), repeats=3) >= 0 and len(runs) == 4


def test_the_benchmark_prints_its_figures_for_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    ours, theirs = Measured(90.0, 0.1, 0.2, 1.0), Measured(100.0, 0.1, 0.2, 1.0)
    report = {"idle_mb": {"ours": 1.0, "vllm": 1.0}, "32": compare([ours, ours], [theirs, theirs])}
    assert ratios_of(report) == [0.9]
    said = capsys.readouterr().out
    assert said.startswith("FIGURE tokens/s, ours over vLLM's, 32 clients={") and '"ratio": 0.9' in said


def test_both_servers_take_the_same_share_of_a_gpu_and_none_on_a_cpu() -> None:
    """On a GPU neither gets the sizes of the CPU build."""
    import argparse

    args = argparse.Namespace(model="/m/tiny", kv_gib=1.0, port=8300, gpu_share=0.4, vllm_logs=False)
    for command in commands(args):
        assert command[command.index("--gpu-memory-utilization") + 1] == "0.4" and "--enforce-eager" not in command
    args.gpu_share = None
    ours, theirs = commands(args)
    assert "--gpu-memory-utilization" not in ours + theirs and "--enforce-eager" in theirs
