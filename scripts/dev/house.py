"""Print the sizes of the code base beside their budgets.

Counted are the files that git tracks: lines of Python by part, words of Markdown, what the module of a method imports
directly and through others, settings, options of the methods with those they inherit, and classes of errors.

    python scripts/dev/house.py             a table
    python scripts/dev/house.py --check     the same; exit code 1 where a bound is exceeded
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import BaseModel

ROOT: Final = Path(__file__).resolve().parents[2]
PRODUCT: Final = ("server/", "retrieval/", "models/")
METHODS: Final = "server/methods/"
METHOD: Final = "server.methods.medrag.method"
ERROR: Final = "ArrowheadError"

# Goals, and bounds a hundredth above what is reached.
GOALS: Final = {
    "product, lines": 60_000,
    "methods, lines": 7_500,
    "scripts, lines": 11_000,
    "tests, lines": 45_000,
    "Markdown, words": 45_000,
    "closure of MedRAG, lines": 7_500,
    "settings": 110,
    "method options": 60,
    "error classes": 25,
}
BOUNDS: Final = {
    "product, lines": 110_510,
    "methods, lines": 15_600,
    "scripts, lines": 16_735,
    "tests, lines": 90_010,
    "Markdown, words": 52_800,
    "closure of MedRAG, lines": 7_300,
    "settings": 110,
    "method options": 60,
    "error classes": 25,
}


@dataclass(frozen=True, slots=True)
class Tree:
    """The tracked files of a checkout with their texts."""

    files: Mapping[str, str]

    @classmethod
    def of(cls, root: Path) -> Tree:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "*.py", "*.md"], cwd=root, capture_output=True, text=True, check=True, timeout=60
        )
        paths = [path for path in listed.stdout.split("\0") if path and (root / path).is_file()]
        return cls({path: (root / path).read_text(encoding="utf-8") for path in paths})

    def lines(self, *folders: str) -> int:
        return sum(len(text.splitlines()) for path, text in self.files.items() if _is_python(path, folders))

    def words(self) -> int:
        return sum(len(text.split()) for path, text in self.files.items() if path.endswith(".md"))

    def classes(self, folder: str) -> Iterator[ast.ClassDef]:
        for path, text in self.files.items():
            if _is_python(path, (folder,)):
                yield from (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef))


def _is_python(path: str, folders: tuple[str, ...]) -> bool:
    return path.endswith(".py") and path.startswith(folders)


def closure(tree: Tree, start: str) -> dict[str, int]:
    """Return the product modules that ``start`` imports, directly or through others, and itself, with their lines."""
    modules = {_name(path): text for path, text in tree.files.items() if _is_python(path, PRODUCT)}
    reached: dict[str, int] = {}
    pending = [start]
    while pending:
        name = pending.pop()
        if name not in reached:
            reached[name] = len(modules[name].splitlines())
            pending += [target for target in _imports(modules[name]) if target in modules]
    return reached


def _name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imports(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def error_classes(tree: Tree) -> set[str]:
    """Return the classes that descend from the base of all errors, by their names."""
    bases = {node.name: _bases(node) for folder in PRODUCT for node in tree.classes(folder)}
    return {name for name in bases if _descends(name, bases)}


def _bases(node: ast.ClassDef) -> list[str]:
    return [ast.unparse(base).rpartition(".")[2] for base in node.bases]


def _descends(name: str, bases: Mapping[str, list[str]]) -> bool:
    return name == ERROR or any(_descends(base, bases) for base in bases.get(name, []) if base != name)


def method_options(tree: Tree) -> int:
    """Return the number of options over all methods; one that two methods have counts twice."""
    options = {node.name: node for node in tree.classes(METHODS) if node.name.endswith("Options")}
    return sum(len(_fields(name, options)) for name in options)


def _fields(name: str, classes: Mapping[str, ast.ClassDef]) -> set[str]:
    if name not in classes:
        return set()
    own = {ast.unparse(part.target) for part in classes[name].body if isinstance(part, ast.AnnAssign)}
    return own.union(*(_fields(base, classes) for base in _bases(classes[name])))


def setting_count(model: type[BaseModel]) -> int:
    """Return the number of fields of ``model``, those of a group in place of the group."""
    kinds = [field.annotation for field in model.model_fields.values()]
    return sum(setting_count(kind) if isinstance(kind, type) and issubclass(kind, BaseModel) else 1 for kind in kinds)


def measure(tree: Tree, settings: type[BaseModel]) -> dict[str, int]:
    """Return each figure under the name of its goal, and the number of modules of the closure."""
    medrag = closure(tree, METHOD)
    return {
        "product, lines": tree.lines(*PRODUCT),
        "methods, lines": tree.lines(METHODS),
        "scripts, lines": tree.lines("scripts/"),
        "tests, lines": tree.lines("tests/"),
        "Markdown, words": tree.words(),
        "closure of MedRAG, lines": sum(medrag.values()),
        "closure of MedRAG, modules": len(medrag),
        "settings": setting_count(settings),
        "method options": method_options(tree),
        "error classes": len(error_classes(tree)),
    }


def report(figures: Mapping[str, int]) -> str:
    """Return a Markdown table of figures, goals and bounds."""
    rows = [f"| {name} | {n:,} | {_limit(GOALS, name)} | {_limit(BOUNDS, name)} |" for name, n in figures.items()]
    return "\n".join(["| | now | goal | bound |", "| --- | --: | --: | --: |", *rows])


def _limit(limits: Mapping[str, int], name: str) -> str:
    return f"{limits[name]:,}" if name in limits else ""


def exceeded(figures: Mapping[str, int], bounds: Mapping[str, int]) -> list[str]:
    """Return a line for each figure above its bound."""
    return [f"{name}: {figures[name]:,} is above {bound:,}" for name, bound in bounds.items() if figures[name] > bound]


def main() -> None:
    """Measure this checkout, print, and fail above a bound if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit code 1 where a bound is exceeded")
    check = parser.parse_args().check
    sys.path.insert(0, str(ROOT))
    from server.settings.schema import Settings

    figures = measure(Tree.of(ROOT), Settings)
    print(report(figures))
    faults = exceeded(figures, BOUNDS) if check else []
    for fault in faults:
        print(f"error: {fault}", file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
