"""Read Word documents (.docx): paragraphs under their headings, tables, formulas; deleted text of tracked changes not.

python-docx opens the package. Its paragraphs leave formulas and tracked insertions out, so that the XML is walked here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from retrieval.corpus.items import NO_OPTIONS, Item, ReadOptions, TextBuilder, path_of
from retrieval.corpus.readers.office.package import local_name as _local
from retrieval.corpus.readers.office.package import office_document, opened
from retrieval.errors import DocumentUnreadable
from retrieval.formats.mathml import GAP, NUMBER_GAP
from retrieval.formats.notation import lowered, plain, raised, without_marks
from retrieval.formats.table_grid import SEPARATOR
from retrieval.formats.tables import is_number

_MAX_DEPTH: Final = 100
_MAX_SPAN: Final = 200
_HEADING: Final = re.compile(r"heading ([1-9])")
_LEFT_OUT: Final = frozenset(("del", "moveFrom", "pPr", "rPr", "tblPr", "tblGrid", "instrText", "txbxContent"))
_VALUE: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}val"


def read(path: Path, options: ReadOptions = NO_OPTIONS) -> Iterator[Item]:
    """Yield one document.

    Raises:
        DocumentUnreadable: the package is damaged, encrypted, or holds no words; it would unpack to more than 512 MiB.
    """
    import docx

    text = TextBuilder()
    with opened(path, "Word document"):
        package = docx.Document(str(path))
        about = (package.core_properties.title or "", package.core_properties.author or "")
        styles = {style.style_id: (style.name or "").lower() for style in package.styles}
        shown = _add_body(text, package.element.body, styles)
    if not len(text):
        raise DocumentUnreadable(f"{path}: the Word document holds no words")
    yield text.reading(office_document(path, "docx", shown, about, options))


def _add_body(text: TextBuilder, body: Any, styles: dict[str, str]) -> tuple[str, str]:
    """Add paragraphs and tables under their headings; return the title that the document shows, and its first heading.

    Each is "" where there is none.
    """
    path: list[str] = []
    blocks: list[str] = []
    title = first = ""
    for block in _blocks(body):
        words = _block_text(block)
        style = _style_of(block, styles)
        heading = _HEADING.fullmatch(style)
        if style == "title" and not title:
            title = " ".join(words.split())
        elif heading is not None and words:
            text.add("\n".join(blocks), path_of(path))
            blocks, level = [], int(heading[1])
            path = [*path[: level - 1], *[""] * (level - 1 - len(path)), " ".join(words.split())]
            first = first or path[-1]
        elif words:
            blocks.append(words)
    text.add("\n".join(blocks), path_of(path))
    return title, first


def _blocks(parent: Any) -> Iterator[Any]:
    for child in parent:
        name = _local(child)
        if name in ("sdt", "sdtContent", "ins", "moveTo"):
            yield from _blocks(child)
        elif name in ("p", "tbl"):
            yield child


def _style_of(block: Any, styles: dict[str, str]) -> str:
    style = next((part.get(_VALUE) or "" for part in block.iter() if _local(part) == "pStyle"), "")
    return styles.get(style, "") if _local(block) == "p" else ""


def _block_text(block: Any) -> str:
    if _local(block) == "p":
        return plain("".join(_pieces(block, 0))).strip()
    rows: list[list[str]] = []
    for row in (part for part in block.iter() if _local(part) == "tr"):
        cells: list[str] = []
        for cell in (part for part in row.iter() if _local(part) == "tc"):
            text = " ".join(plain("".join(_pieces(cell, 0))).split())
            if _is_merged_with_above(cell) and rows and len(cells) < len(rows[-1]):
                text = rows[-1][len(cells)]
            cells.extend([text] * _columns_of(cell))
        rows.append(cells)
    return "\n".join(SEPARATOR.join(cells).rstrip(" |").lstrip() for cells in rows if any(cells))


def _is_merged_with_above(cell: Any) -> bool:
    return any(_local(part) == "vMerge" and part.get(_VALUE) != "restart" for part in cell.iter())


def _columns_of(cell: Any) -> int:
    number = next((part.get(_VALUE) or "" for part in cell.iter() if _local(part) == "gridSpan"), "")
    return min(max(int(number), 1), _MAX_SPAN) if is_number(number) else 1


def _pieces(element: Any, depth: int) -> Iterator[str]:
    if depth > _MAX_DEPTH:
        raise DocumentUnreadable(f"a paragraph is nested more than {_MAX_DEPTH} deep")
    for child in element:
        name = _local(child)
        if name == "t":
            yield without_marks(child.text or "")
        elif name in ("tab", "br", "cr", "p"):
            yield " " if name == "tab" else "\n"
            yield from _pieces(child, depth + 1)
        elif name in ("noBreakHyphen", "softHyphen"):
            yield "-" if name == "noBreakHyphen" else ""
        elif name in _FORMULAS:
            yield _formula(child, name, depth)
        elif name == "r":
            yield _run(child, depth)
        elif name and name not in _LEFT_OUT:
            yield from _pieces(child, depth + 1)


def _run(run: Any, depth: int) -> str:
    text = "".join(_pieces(run, depth + 1))
    place = next((part.get(_VALUE) for part in run.iter() if _local(part) == "vertAlign"), "")
    if place == "superscript":
        return raised(text)
    return lowered(text) if place == "subscript" else text


# The parts of Word's formulas that give text its place, with the names of their operands.
_FORMULAS: Final = {
    "f": ("num", "den"),
    "sSup": ("e", "sup"),
    "sSub": ("e", "sub"),
    "sSubSup": ("e", "sub", "sup"),
    "sPre": ("sub", "sup", "e"),
    "rad": ("deg", "e"),
}


def _formula(element: Any, name: str, depth: int) -> str:
    parts = {_local(child): "".join(_pieces(child, depth + 1)) for child in element}
    base, above, below = parts.get("e", ""), parts.get("sup", ""), parts.get("sub", "")
    match name:
        case "f":
            return f"{GAP}{_operand(parts.get('num', ''))}/{_operand(parts.get('den', ''))}{GAP}"
        case "rad":
            degree = parts.get("deg", "").strip()
            return f"{NUMBER_GAP}{_operand(base)}{raised(f'1/{degree}')}" if degree else f"√{_operand(base)}"
        case "sPre":
            return f"{NUMBER_GAP}{lowered(below)}{raised(above)}{base}"
        case _:
            scripts = (lowered(below) if below else "") + (raised(above) if above else "")
            return f"{NUMBER_GAP}{_operand(base)}{scripts}"


def _operand(text: str) -> str:
    return text if re.fullmatch(r"-?[\w.]*", text) else f"({text})"
