"""The layout of the tree: imports, folders, sizes, and the paths and module names that the documents name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import chain, pairwise
from pathlib import Path

import pytest

from server.settings.schema import Settings

ROOT = Path(__file__).parents[2]
PACKAGES = ("server", "retrieval", "models")
MAX_MODULES = 15
MAX_LINES = 500
TEXTS = ("README.md", "CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "pyproject.toml")
TEXT_FOLDERS = ("docs", "deploy", "scripts")
# Folders of weights that the reader of an example has made.
OF_THE_READER = ("models/MedCPT-Cross-Encoder",)
_PATH = re.compile(r"(?<![\w/.$}>-])(?:\./)?((?:server|retrieval|models|scripts|tests)/[\w./*-]+)")
_NAME = re.compile(r"(?<![\w/.@$-])((?:server|retrieval|models)(?:\.[A-Za-z_]\w*)+)(?![\w/(]*://)")


@dataclass(frozen=True, slots=True)
class Import:
    """One import of a product module by another, and where it stands."""

    source: str
    target: str
    place: str


@cache
def modules() -> Mapping[str, Path]:
    """The product modules and packages, by their dotted names."""
    files = chain.from_iterable((ROOT / package).rglob("*.py") for package in PACKAGES)
    return {name_of(path): path for path in sorted(files)}


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imports() -> tuple[Import, ...]:
    """All imports between product modules, those inside functions and for type checking too."""
    return tuple(chain.from_iterable(_imports_of(name, path) for name, path in modules().items()))


def _imports_of(name: str, path: Path) -> Iterator[Import]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            targets = [target if target in modules() else node.module for target in inner]
        else:
            continue
        place = f"{path.relative_to(ROOT)}:{node.lineno}"
        yield from (Import(name, target, place) for target in targets if target in modules() and target != name)


def cycle_of(found: list[Import]) -> list[str]:
    """The places of the imports that form a cycle, none where there is no cycle."""
    graph: dict[str, set[str]] = {}
    for one in found:
        graph.setdefault(one.source, set()).add(one.target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        ring = error.args[1][::-1]
        pairs = set(pairwise(ring))
        return [f"{one.place}: {one.target}" for one in found if (one.source, one.target) in pairs]
    return []


def test_no_module_imports_itself_by_way_of_others() -> None:
    """An import inside a function or for type checking counts like any other, so it hides no cycle."""
    assert cycle_of(list(imports())) == []


def test_a_cycle_is_found_with_its_places() -> None:
    """The message names each import of the circle, and no other."""
    found = [
        Import("a", "b", "a.py:1"),
        Import("b", "c", "b.py:2"),
        Import("c", "b", "c.py:3"),
        Import("c", "d", "c.py:4"),
    ]

    assert sorted(cycle_of(found)) == ["b.py:2: c", "c.py:3: b"]


def test_the_packages_of_a_folder_form_no_cycle() -> None:
    """In each folder, modules and packages that stand side by side can be put into an order of imports."""
    faults: list[str] = []
    for folder in sorted({name.rpartition(".")[0] for name in modules()} - {""}):
        depth = folder.count(".") + 2
        below = f"{folder}."
        inside = [one for one in imports() if one.source.startswith(below) and one.target.startswith(below)]
        cut = [Import(_cut(one.source, depth), _cut(one.target, depth), one.place) for one in inside]
        faults += cycle_of([one for one in cut if one.source != one.target])
    assert faults == []


def _cut(name: str, depth: int) -> str:
    return ".".join(name.split(".")[:depth])


def test_no_folder_has_too_many_modules() -> None:
    """A folder is read at one glance; ``__init__.py`` is not counted."""
    sizes: dict[Path, int] = {}
    for path in modules().values():
        sizes[path.parent] = sizes.get(path.parent, 0) + (path.name != "__init__.py")
    assert {str(folder.relative_to(ROOT)): size for folder, size in sizes.items() if size > MAX_MODULES} == {}


def test_no_module_is_too_long() -> None:
    """Cohesion decides how long a module is, up to this bound."""
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in modules().values()}
    assert [f"{path.relative_to(ROOT)}:{n}" for path, n in lengths.items() if n > MAX_LINES] == []


def texts() -> Iterator[tuple[str, str]]:
    """Each line of the documents, the deployment files and the scripts, with its place."""
    files = [ROOT / name for name in TEXTS]
    files += [path for folder in TEXT_FOLDERS for path in sorted((ROOT / folder).rglob("*")) if path.is_file()]
    for path in files:
        if path.exists() and path.suffix not in {".png", ".json", ".pyc"}:
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                yield f"{path.relative_to(ROOT)}:{number}", line


def missing_paths(line: str) -> list[str]:
    """The code paths that a line names and that do not exist."""
    named = [found.rstrip("./") for found in _PATH.findall(line)]
    here = [path for path in named if path not in OF_THE_READER]
    return [path for path in here if not (any(ROOT.glob(path)) if "*" in path else (ROOT / path).exists())]


def missing_names(line: str) -> list[str]:
    """The dotted names in a line that are neither settings nor modules, nor names that a module defines."""
    named = [name for name in _NAME.findall(line) if not name.endswith((".md", ".png", ".py"))]
    return [name for name in named if not is_setting(name) and not is_defined(name)]


def is_setting(name: str) -> bool:
    group, _, field = name.partition(".")
    found = Settings.model_fields.get(group)
    return found is not None and field.partition(".")[0] in getattr(found.annotation, "model_fields", {})


def is_defined(name: str) -> bool:
    if name in modules():
        return True
    module, _, attribute = name.rpartition(".")
    if module not in modules():
        return False
    if (modules()[module].parent / attribute).exists():
        return True
    return re.search(rf"^(?:class |def |async def )?{attribute}\b", modules()[module].read_text(), re.M) is not None


def test_every_code_path_that_a_document_names_exists() -> None:
    """Documents, deployment files and scripts name no file and no folder of the code that is not there."""
    assert [f"{place}: {path}" for place, line in texts() for path in missing_paths(line)] == []


def test_every_module_that_a_document_names_exists() -> None:
    """Dotted names are those of modules, of what they define, or of settings; mypy reads those of Python code."""
    found = [f"{place}: {name}" for place, line in texts() if ".py:" not in place for name in missing_names(line)]
    assert found == []


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("see server/app.py and `models/engines/`, ./scripts/test.", []),
        ("see server/gone.py", ["server/gone.py"]),
        ("all of retrieval/gone/*.py, server/api/*.py", ["retrieval/gone/*.py"]),
        ("arrowhead/server/gone.py, https://models/gone", []),
    ],
)
def test_a_path_that_is_gone_is_found(line: str, missing: list[str]) -> None:
    """Only paths from the root of the checkout are read as such."""
    assert missing_paths(line) == missing


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("server.cli.main:main, server.app.create_app, server.max_body_bytes", []),
        ("server.gone.main", ["server.gone.main"]),
        ("server.app.gone", ["server.app.gone"]),
    ],
)
def test_a_module_that_is_gone_is_found(line: str, missing: list[str]) -> None:
    """A setting of the group ``server`` is no module."""
    assert missing_names(line) == missing


def test_the_index_of_the_docs_names_every_page() -> None:
    """A reader finds each page from docs/README.md, and each of its links leads somewhere."""
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    linked = {(ROOT / "docs" / target).resolve() for target in re.findall(r"\]\(([^)#:]+)\)", index)}

    assert [str(path) for path in linked if not path.exists()] == []
    assert sorted(path.name for path in (ROOT / "docs").glob("*.md") if path not in linked) == ["README.md"]
