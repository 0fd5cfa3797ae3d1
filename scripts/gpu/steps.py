"""The steps of the verification, in the order in which they run: what each executes, and for how long at most."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from scripts.gpu.report import Step

_MINUTE = 60.0
_PARITY = ("-m", "scripts.benchmarks.decoding.plain_model")
# Both servers run at once. Of tokens a second, less than 0.9 is no parity, whatever the noise between rounds.
_PARITY_OPTIONS = ("--clients", "1,32", "--gpu-share", "0.4", "--kv-gib", "2", "--least", "0.9")


def steps_for(python: str, model: Path, checkpoint: Path | None) -> list[Step]:
    """All steps. ``python`` is the interpreter of the environment with the gpu extra."""

    def module(name: str, *arguments: str) -> tuple[str, ...]:
        return (python, "-m", f"scripts.gpu.{name}", *arguments)

    def tests(*arguments: str) -> tuple[str, ...]:
        return (python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments)

    on_gpu = ("--vllm-device", "cuda")
    name = ("--model", str(model))
    return [
        Step("gpu-tests", "tests/gpu", tests("-m", "gpu", "tests/gpu", *on_gpu), 30 * _MINUTE, is_pytest=True),
        Step(
            "engine-contract",
            "the engine contract over vLLM",
            tests("tests/contract/test_engine_contract.py", "-k", "vllm", *on_gpu),
            20 * _MINUTE,
            is_pytest=True,
        ),
        Step(
            "engines-agree",
            "vLLM on the GPU and transformers on the CPU write the same",
            tests("tests/contract/test_engines_agree.py", *on_gpu),
            20 * _MINUTE,
            is_pytest=True,
        ),
        Step(
            "beside-index",
            "vLLM starts beside an index of 10 GiB",
            module("beside_index", *name, "--gib", "10"),
            15 * _MINUTE,
        ),
        Step(
            "survival",
            "requests that have no room in the sampler are refused, and the engine lives",
            module("survival", *name),
            15 * _MINUTE,
        ),
        Step(
            "quantised",
            "a quantised checkpoint answers",
            module("survival", "--model", str(checkpoint), "--answer-only"),
            30 * _MINUTE,
            skipped="" if checkpoint else "no folder was given (--checkpoint DIR)",
        ),
        Step("flat-scan", "FAISS flat against the copy bandwidth", module("flat_scan"), 15 * _MINUTE),
        Step(
            "parity",
            "the plain model beside vLLM's own server",
            (python, *_PARITY, *name, *_PARITY_OPTIONS),
            40 * _MINUTE,
        ),
    ]


def chosen(steps: Sequence[Step], only: str | None) -> list[Step]:
    """The steps that ``only`` names, separated by commas.

    Raises:
        ValueError: there is no such step.
    """
    if only is None:
        return list(steps)
    names = [name.strip() for name in only.split(",") if name.strip()]
    known = {step.name: step for step in steps}
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ValueError(f"there is no step {', '.join(unknown) or 'without a name'}; steps: {', '.join(known)}")
    return [known[name] for name in names]
