"""The documents: links lead somewhere, figures are those of their files, and what the architecture names is there."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "models" / "embedded").glob("*/README.md")]
FIGURES = sorted((ROOT / "docs" / "figures").glob("*.json"))
MAX_WORDS = 1500
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def prose(page: Path) -> str:
    """The text of a page without its blocks of code."""
    return _CODE.sub("", page.read_text(encoding="utf-8"))


@cache
def anchors(page: Path) -> frozenset[str]:
    """The headings of a page as addresses within it."""
    heads = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads)


def broken_links(page: Path) -> Iterator[str]:
    for target in _LINK.findall(re.sub(r"`[^`\n]*`", "", prose(page))):
        name, _, anchor = target.partition("#")
        if "://" in target:
            continue
        other = (page.parent / name).resolve() if name else page
        if not other.exists() or (anchor and anchor not in anchors(other)):
            yield f"{page.relative_to(ROOT)}: {target}"


def tables(text: str) -> Iterator[list[list[str]]]:
    """The cells of each table without its head and without marks of type."""
    for block in re.findall(r"(?:^\|.*\|\n?)+", text, re.MULTILINE):
        lines = [line.strip("|").split("|") for line in block.splitlines()[2:]]
        yield [[cell.strip().replace("*", "").replace("`", "") for cell in line] for line in lines]


def rows_after(text: str, heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, without its head."""
    part = text.partition(f"## {heading}\n")[2]
    lines = re.findall(r"^\|(.*)\|$", part.partition("\n## ")[0], re.MULTILINE)
    return [[cell.strip() for cell in line.split("|")] for line in lines[2:]]


def defined(path: Path) -> set[str]:
    """The names of functions, classes, methods and constants of a module."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def test_each_link_leads_to_a_file_and_a_heading() -> None:
    assert [link for page in PAGES for link in broken_links(page)] == []


def test_a_newcomer_finds_each_answer_in_the_file_that_is_named() -> None:
    """Two opens: the page, then the module that defines the name."""
    rows = rows_after((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"), "A newcomer's questions")
    missing = [name for _, file, name in rows if name.strip("`") not in defined(ROOT / file.strip("`"))]

    assert len(rows) >= 10
    assert missing == []


def test_the_parts_for_jobs_define_what_the_table_names() -> None:
    """Behind a module and a colon stand names of it."""
    rows = rows_after((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"), "Which part for which job")
    named = [part for _, cell in rows for part in re.findall(r"`(\S+\.py)`: ((?:`\w+`(?:, )?)+)", cell)]
    missing = [(file, name) for file, names in named for name in re.findall(r"\w+", names)
               if name not in defined(ROOT / file)]  # fmt: skip

    assert len(named) >= 6
    assert missing == []


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_the_pages_for_developers_are_one_page_each(name: str) -> None:
    assert len((ROOT / name).read_text(encoding="utf-8").split()) <= MAX_WORDS


@pytest.mark.parametrize("path", FIGURES, ids=lambda path: path.stem)
def test_figures_have_a_command_that_exists_and_a_page(path: Path) -> None:
    """With the machine and the day; each row has as many cells as columns."""
    told = json.loads(path.read_text(encoding="utf-8"))
    script = re.search(r"scripts[./][\w./]+", told["command"])
    assert script is not None
    name = script[0] if "/" in script[0] else script[0].replace(".", "/") + ".py"

    assert (ROOT / name).exists() and told["machine"] and told["date"]
    assert all(len(row) == len(table["columns"]) for table in told["tables"] for row in table["rows"])
    assert any(f"figures/{path.name}" in page.read_text(encoding="utf-8") for page in PAGES)


@pytest.mark.parametrize("page", ["evals.md", "benchmarks.md", "kg-linking.md"])
def test_the_tables_of_figures_are_those_of_their_files(page: str) -> None:
    """A row of numbers below a link to a file is one of its rows, as far as the page shows its columns."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    faults = []
    for link, part in re.findall(r"figures/(\w+)\.json(.*?)(?=figures/\w+\.json|\Z)", text, re.DOTALL):
        told = json.loads((ROOT / "docs" / "figures" / f"{link}.json").read_text(encoding="utf-8"))
        rows = [set(row) for table in told["tables"] for row in table["rows"]]
        shown = [row for table in tables(part.partition("\n## ")[0]) for row in table]
        faults += [f"{link}: {row}" for row in shown if not any(set(row) <= own for own in rows)]
    assert faults == []


INTERFACES = (
    "decisions",
    "encoders",
    "files",
    "mcp",
    "messages",
    "openai-api",
    "retrieval-http",
    "stored-responses",
    "verify",
)


@pytest.mark.parametrize("page", INTERFACES)
def test_the_page_of_an_interface_is_short_and_begins_with_an_example(page: str) -> None:
    """At most 60 lines, the first code a program or commands; a test over HTTP runs it."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60
    assert re.search(r"^```(python|bash)$", "\n".join(text.splitlines()[:12]), re.MULTILINE)
    tests = [path.read_text(encoding="utf-8") for path in (ROOT / "tests" / "http").glob("test_*.py")]
    assert any(f'"{page}.md"' in test for test in tests)
