"""Presentations."""

from __future__ import annotations

from pathlib import Path

import pptx
import pytest
from corpus_files import parsed_documents
from pptx.util import Inches

from retrieval.corpus.readers.office import slides
from retrieval.errors import DocumentUnreadable


def test_a_slide_is_a_page_under_its_title(tmp_path: Path) -> None:
    """Powers stay powers; tables, groups and the speaker's notes are read."""
    deck = pptx.Presentation()
    first = deck.slides.add_slide(deck.slide_layouts[0])
    first.shapes.title.text = "Aspirin in\nfever"
    second = deck.slides.add_slide(deck.slide_layouts[5])
    second.shapes.title.text = "Doses"
    paragraph = second.shapes.add_textbox(0, 0, Inches(1), Inches(1)).text_frame.paragraphs[0]
    paragraph.add_run().text = "5 × 10"
    power = paragraph.add_run()
    power.text = "6"
    power.font._element.set("baseline", "30000")
    table = second.shapes.add_table(1, 2, 0, 0, Inches(1), Inches(1)).table
    table.cell(0, 0).text, table.cell(0, 1).text = "Drug", "5 mg"
    group = second.shapes.add_group_shape()
    group.shapes.add_textbox(0, 0, Inches(1), Inches(1)).text_frame.text = "In a group"
    second.notes_slide.notes_text_frame.text = "Say it slowly."
    path = tmp_path / "talk.pptx"
    deck.save(str(path))
    (found,) = parsed_documents(list(slides.read(path)))
    assert found.document.title == "Aspirin in fever"
    spans = [(span.page, span.section, found.text[span.start : span.end]) for span in found.spans]
    assert spans == [
        (1, "Aspirin in fever", "Aspirin in\nfever"),
        (2, "Doses", "5 × 10⁶\nDrug | 5 mg\nIn a group"),
        (2, "Doses > Notes", "Say it slowly."),
    ]


def test_a_presentation_without_words_is_refused(tmp_path: Path) -> None:
    """It may hold pictures alone; a damaged one too."""
    path = tmp_path / "talk.pptx"
    deck = pptx.Presentation()
    deck.slides.add_slide(deck.slide_layouts[6])
    deck.save(str(path))
    with pytest.raises(DocumentUnreadable, match="pictures of slides are not read"):
        list(slides.read(path))
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DocumentUnreadable, match="damaged"):
        list(slides.read(path))
