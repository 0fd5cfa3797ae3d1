"""Run a Dockerfile's commands in a directory, for a machine without a container engine. Needs root and chroot.

Supports stages, ``ARG``, ``ENV``, ``COPY`` and ``RUN``. All stages share the one directory, so ``COPY --from`` of the
same path does nothing. It does not test what an engine adds (layers, isolation, users at run time); it tests that the
commands work on a bare root.

    debootstrap --variant=minbase bookworm ROOT
    python -m scripts.image_in_chroot Dockerfile.gpu ROOT --build-arg MODE=cpu
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_VARIABLE = re.compile(r"\$\{(\w+)\}|\$(\w+)")
_PAIR = re.compile(r'(\w[\w.]*)=("[^"]*"|\S*)')
_MOUNT = re.compile(r"--mount=\S+\s+")


@dataclass(frozen=True, slots=True)
class Instruction:
    """``text``: what stands behind the word, continued lines joined, comments left out."""

    word: str
    text: str

    @property
    def flags(self) -> dict[str, str]:
        found = re.findall(r"--([a-z-]+)=(\S+)", self.text.split("CMD", 1)[0])
        return dict(found)

    @property
    def words(self) -> list[str]:
        return [part for part in self.text.split() if not part.startswith("--")]


@dataclass(slots=True)
class Build:
    """What has been set so far."""

    root: Path
    context: Path
    arguments: Mapping[str, str]
    environment: dict[str, str] = field(
        default_factory=lambda: {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
    )
    folder: str = "/"

    def carry_out(self, one: Instruction) -> None:
        match one.word:
            case "FROM":
                self.environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
                self.folder = "/"
            case "ARG":
                name, _, default = one.text.partition("=")
                if value := self.arguments.get(name, default):
                    self.environment[name] = value
            case "ENV":
                for name, value in pairs(one.text):
                    self.environment[name] = self._filled(value)
            case "WORKDIR":
                self.folder = one.text
                self._inside(one.text).mkdir(parents=True, exist_ok=True)
            case "COPY" if "from" not in one.flags:
                self._copy(one.words)
            case "RUN":
                self._run(_MOUNT.sub("", one.text))

    def _filled(self, text: str) -> str:
        return _VARIABLE.sub(lambda found: self.environment.get(found[1] or found[2], ""), text)

    def _inside(self, path: str) -> Path:
        return self.root / str(Path(self.folder) / path).lstrip("/")

    def _copy(self, words: Sequence[str]) -> None:
        *sources, target = words
        place = self._inside(target)
        for source in sources:
            origin = self.context / source
            if origin.is_dir():
                shutil.copytree(origin, place, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                into = place / origin.name if target.endswith("/") else place
                into.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(origin, into)

    def _run(self, command: str) -> None:
        line = f"cd {self.folder} && {command}"
        subprocess.run(["chroot", str(self.root), "/bin/sh", "-c", line], env=self.environment, check=True)


def parse(text: str) -> Iterator[Instruction]:
    """Instructions in order; words in capitals."""
    joined, lines = "", [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in lines:
        joined += line.rstrip("\\").strip() + " " if line.endswith("\\") else line.strip()
        if not line.endswith("\\") and joined:
            word, _, rest = joined.partition(" ")
            yield Instruction(word.upper(), rest.strip())
            joined = ""


def pairs(text: str) -> list[tuple[str, str]]:
    """Of ENV and LABEL: names and values, quotes taken off."""
    return [(name, value.strip('"')) for name, value in _PAIR.findall(text)]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("dockerfile", type=Path)
    parser.add_argument("root", type=Path)
    parser.add_argument("--build-arg", action="append", default=[], metavar="NAME=VALUE")
    given = parser.parse_args(argv)
    if os.geteuid() != 0:
        print("image_in_chroot: chroot needs root", file=sys.stderr)
        return 1
    arguments = dict(text.split("=", 1) for text in given.build_arg)
    build = Build(given.root.resolve(), given.dockerfile.resolve().parent, arguments)
    for one in parse(given.dockerfile.read_text(encoding="utf-8")):
        print(f"==> {one.word} {one.text[:100]}", flush=True)
        build.carry_out(one)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
