"""Read presentations (.pptx): each slide with its title as the section and its number as the page, and its notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from retrieval.corpus.items import NO_OPTIONS, Item, ReadOptions, TextBuilder, path_of
from retrieval.corpus.readers.office.package import local_name, office_document, opened, placed
from retrieval.errors import DocumentUnreadable
from retrieval.formats.notation import plain
from retrieval.formats.table_grid import SEPARATOR
from retrieval.formats.tables import is_number

_NOTES: Final = "Notes"
_MAX_DEPTH: Final = 20


def read(path: Path, options: ReadOptions = NO_OPTIONS) -> Iterator[Item]:
    """Yield one document. Charts and pictures are not read.

    Raises:
        DocumentUnreadable: the package is damaged, encrypted, or holds no words; it would unpack to more than 512 MiB.
    """
    import pptx

    text, shown = TextBuilder(), ""
    with opened(path, "presentation"):
        deck = pptx.Presentation(str(path))
        about = (deck.core_properties.title or "", deck.core_properties.author or "")
        for number, slide in enumerate(deck.slides, 1):
            head = slide.shapes.title
            title = "" if head is None or not head.has_text_frame else _frame_text(head.text_frame)
            shown = shown or title
            section = " ".join(title.split())
            blocks = list(_texts(shape for shape in slide.shapes if head is None or shape.shape_id != head.shape_id))
            text.add("\n".join(filter(None, blocks)) or title, section, number)
            if slide.has_notes_slide and (notes := slide.notes_slide.notes_text_frame) is not None:
                text.add(_frame_text(notes), path_of((section, _NOTES)), number)
    if not len(text):
        raise DocumentUnreadable(f"{path}: the presentation holds no words: pictures of slides are not read")
    yield text.reading(office_document(path, "pptx", (shown, ""), about, options))


def _texts(shapes: Iterable[Any], depth: int = 0) -> Iterator[str]:
    for shape in shapes:
        if hasattr(shape, "shapes") and depth < _MAX_DEPTH:
            yield from _texts(shape.shapes, depth + 1)
        elif shape.has_text_frame:
            yield _frame_text(shape.text_frame)
        elif shape.has_table:
            for row in shape.table.rows:
                cells = [" ".join(_frame_text(cell.text_frame).split()) for cell in row.cells]
                yield SEPARATOR.join(cells).rstrip(" |") if any(cells) else ""


def _frame_text(frame: Any) -> str:
    return "\n".join(filter(None, (plain("".join(_pieces(one._p))).strip() for one in frame.paragraphs)))


def _pieces(paragraph: Any) -> Iterator[str]:
    """Yield the runs of a paragraph; what stands above the base line, or below it, is marked."""
    for part in paragraph:
        if local_name(part) == "br":
            yield "\n"
            continue
        words = "".join(child.text or "" for child in part if local_name(child) == "t")
        base = next((child.get("baseline") or "" for child in part if local_name(child) == "rPr"), "")
        yield placed(words, int(base) if is_number(base.removeprefix("-")) else 0)
