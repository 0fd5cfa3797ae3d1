"""What of a PDF's pages is text, and what frames it."""

from __future__ import annotations

from pathlib import Path

import pytest
from corpus_files import drawn_pdf, parsed_documents, saved_pdf

from retrieval.corpus.readers import pdf as pdf_reader
from retrieval.corpus.readers.pdf_layout import PdfLine, PdfPage, page_texts

HEIGHT = 792.0


def _page(*rows: tuple[float, str]) -> PdfPage:
    """Rows of text at a height, from the top."""
    return PdfPage(HEIGHT, tuple(PdfLine(text, 72.0, 300.0, y, 10.0) for y, text in rows))


def _line(text: str, size: int = 12, rise: int = 0) -> str:
    return f"{size} Tf {rise} Ts ({text}) Tj".replace(f"{size} Tf", f"/F1 {size} Tf", 1)


def _read(path: Path, *pages: str) -> list[str]:
    (found,) = parsed_documents(list(pdf_reader.read(saved_pdf(path / "paper.pdf", drawn_pdf(*pages)))))
    return [found.text[span.start : span.end] for span in found.spans]


def test_place_and_size_tell_a_power(tmp_path: Path) -> None:
    """10 with a small 6 above it is no 106; an index below joins its letters; a number at the same height is none."""
    content = " ".join(
        (
            "BT 72 700 Td",
            _line("5 x 10"), _line("6", 7, 5), _line(" cells, 10"), _line("-3", 7, 5), _line(" M, CO"),
            _line("2", 7, -3), _line(", Ca"), _line("2+", 7, 5), _line(" and 106 wells"),
            "0 -14 Td", _line("18", 7, 5), _line("F-FDG in"), _line(" small capitals", 8),
            "ET",
        )
    )  # fmt: skip
    assert _read(tmp_path, content) == ["5 x 10⁶ cells, 10⁻³ M, CO2, Ca2+ and 106 wells\n18F-FDG in small capitals"]


def test_text_that_runs_upwards_is_read_along_its_line(tmp_path: Path) -> None:
    """As a preprint server's stamp in the margin; powers in it too."""
    content = f"BT 0 1 -1 0 30 200 Tm {_line('Stamp of 10')} {_line('6', 7, 5)} ET BT 72 700 Td {_line('Text')} ET"
    assert _read(tmp_path, content) == ["Stamp of 10⁶\nText"]


def test_a_word_broken_at_a_line_end_is_read_whole(tmp_path: Path) -> None:
    """Compounds keep their hyphen."""
    lines = ("interac-", "tions of warfarin and ami-", "odarone are well-", "known for anti-", "IL-5 too")
    content = f"BT 72 700 Td {' 0 -14 Td '.join(map(_line, lines))} ET"
    assert _read(tmp_path, content) == ["interactions\nof warfarin and amiodarone\nare well-known\nfor anti-IL-5\ntoo"]


def test_heads_and_page_numbers_are_no_text() -> None:
    """The first page keeps what has words; a number that does not grow with the page stays, as in a table."""
    pages = {
        number: _page(
            (30, f"Doe et al. {number + 344}"), (60, "J Test 2020"), (300, f"Text {number}"), (770, f"{number}")
        )
        for number in range(1, 7)
    }
    pages[7] = _page((30, "Doe et al. 351"), (40, "17.5"), (300, "Text 7"), (770, "99"))
    texts = page_texts(pages)
    assert texts[1] == "Doe et al. 345\nJ Test 2020\nText 1"
    assert texts[2] == "Text 2"
    assert texts[7] == "17.5\nText 7\n99"


def test_rows_of_a_table_at_the_edge_of_a_page_stay() -> None:
    """Equal places, other numbers; and rows that are equal but in the middle of the page."""
    pages = {
        number: _page((40, f"Drug {5 * number} mg"), (400, "Equal in all"), (760, "0.5")) for number in range(1, 6)
    }
    texts = page_texts(pages)
    assert [texts[number].split("\n")[0] for number in texts] == [f"Drug {5 * number} mg" for number in range(1, 6)]
    assert all("Equal in all\n0.5" in text for text in texts.values())


@pytest.mark.parametrize("step", [1, 5])
def test_line_numbers_are_no_text(step: int) -> None:
    """Beside nearly each line or each fifth one; the numbers of a table that fills one page are text."""
    lines = []
    for row in range(1, 41):
        if row % step == 0:
            lines.append(PdfLine(str(row), 40.0, 50.0, 90 + 15.0 * row, 8.0))
        lines.append(PdfLine(f"Line {row} has words", 72.0, 300.0, 90 + 15.0 * row, 10.0, row % step == 0))
    page = PdfPage(HEIGHT, tuple(lines))
    for text in page_texts({1: page, 2: page, 3: page}).values():
        assert text.split("\n") == [f"Line {row} has words" for row in range(1, 41)]
    texts = page_texts({1: page, 2: _page((300, "Text")), 3: _page((300, "More text"))})
    assert "5 Line 5 has words" in texts[1]


def test_a_page_with_its_frame_alone_has_no_text() -> None:
    """So that its picture may be recognized."""
    pages = {number: _page((770, str(number))) for number in range(1, 4)}
    assert page_texts(pages) == {1: "", 2: "", 3: ""}


LEFT = [f"the left column goes on in its line {number:02} as" for number in range(1, 13)]
RIGHT = [f"and the right one has other words in line {number:02}" for number in range(1, 13)]
THIRD = [f"while a third has its own in the line {number:02}" for number in range(1, 13)]


def _drawn(*places: tuple[float, float, str], size: int = 8) -> str:
    return " ".join(f"BT /F1 {size} Tf {x} {y} Td ({text}) Tj ET" for x, y, text in places)


def _row_by_row(*columns: list[str], top: float = 700, size: int = 8, left: float = 50, step: float = 260) -> str:
    """As programs draw that lay pages out in rows."""
    rows = enumerate(zip(*columns, strict=True))
    return _drawn(
        *((left + step * at, top - 12 * row, text) for row, texts in rows for at, text in enumerate(texts)), size=size
    )


def test_columns_drawn_row_by_row_are_read_one_behind_the_other(tmp_path: Path) -> None:
    """With what stands over both before, between and behind; also where the base lines of both differ."""
    head, middle, foot = (
        "A title over both columns of this page of the paper, drawn first of all it has",
        "m" * 80,
        "f" * 80,
    )
    above = _drawn((50, 730, head), size=12)
    between = _drawn((50, 540, middle), size=12)
    shifted = [
        (50 + 260 * at, 500 - 12 * row - 3 * at, text[row])
        for row in range(12)
        for at, text in enumerate((LEFT, RIGHT))
    ]
    content = f"{above} {_row_by_row(LEFT, RIGHT)} {between} {_drawn(*shifted)} {_drawn((50, 300, foot), size=12)}"

    assert _read(tmp_path, content) == ["\n".join([head, *LEFT, *RIGHT, middle, *LEFT, *RIGHT, foot])]


def test_three_columns_and_indents_are_told(tmp_path: Path) -> None:
    columns = [LEFT, RIGHT, THIRD]
    places = [
        (30 + 190 * at + (10 if row in (3, 7) else 0), 700 - 12 * row, text[row])
        for row in range(12)
        for at, text in enumerate(columns)
    ]

    assert _read(tmp_path, _drawn(*places)) == ["\n".join([*LEFT, *RIGHT, *THIRD])]


def test_columns_drawn_one_by_one_stay_as_they_are(tmp_path: Path) -> None:
    left = _drawn(*((50, 700 - 12 * row, text) for row, text in enumerate(LEFT)))
    right = _drawn(*((310, 700 - 12 * row, text) for row, text in enumerate(RIGHT)))

    assert _read(tmp_path, f"{left} {right}") == ["\n".join([*LEFT, *RIGHT])]


def test_a_table_is_read_row_by_row(tmp_path: Path) -> None:
    """Its cells are short, or of unlike width; whoever reads a row needs all of it."""
    names = [f"drug number {number}" for number in range(1, 13)]
    doses = [f"{number}.5 mg (1.0 to {number}.9) a day" for number in range(1, 13)]
    content = _row_by_row(names, doses)
    assert _read(tmp_path, content) == ["\n".join(f"{name} {dose}" for name, dose in zip(names, doses, strict=True))]

    content = _row_by_row(names, [f"{text} {text}" for text in LEFT], step=120)
    assert _read(tmp_path, content)[0].startswith(f"{names[0]} {LEFT[0]}")


def test_words_of_a_page_come_in_the_same_order(tmp_path: Path) -> None:
    """The page marks a sentence by its words, one behind the other."""
    path = saved_pdf(tmp_path / "paper.pdf", drawn_pdf(_row_by_row(LEFT, RIGHT)))
    words = pdf_reader.page_words(path, 1).words

    assert " ".join(word.text for word in words) == " ".join([*LEFT, *RIGHT])
    assert [word.line for word in words] == sorted(word.line for word in words)


def test_a_word_broken_at_the_end_of_a_column_is_read_whole(tmp_path: Path) -> None:
    """And within each column; in rows it would be joined with the other column's word."""
    left = [*LEFT[:-2], "relevant interactions of warfarin and amio-", "darone are found, and those of phenpro-"]
    right = ["coumon too, in patients who were treated", *RIGHT[1:]]

    (text,) = _read(tmp_path, _row_by_row(left, right))
    assert "warfarin and amiodarone" in text and "those of phenprocoumon" in text
