"""Read one PDF, as a script in its own process, within limits that it sets itself.

A damaged or hostile PDF may consume any time and memory; the process of its own contains the damage. The first argument
is the task; file, bytes of address space and seconds of processor time follow.

``text FILE MEMORY SECONDS PAGES`` writes the text of at most so many pages as JSON lines: {"pages", "title"}, then
{"page", "height", "lines"} for each page, or {"page", "bad": reason}, at the end {"end": true}; or {"error": kind,
"detail": text}. A line is [text, x0, x1, y, size, whether it goes on in the row of the one before], in points from the
top left corner; what stands raised or lowered in it is between the marks of ``retrieval.formats.notation``.

The tasks of single pages have the bytes of the largest file that may be written as the next argument, then their own:
``draw PAGE WIDTH PIXELS`` writes a PNG; ``words PAGE CHARS`` one line of JSON; ``recognize LANGUAGES SECONDS PAGE…`` a
line of JSON for each page. A failure is a line of JSON {"error", "detail"} with exit status 3.
"""

from __future__ import annotations

import io
import itertools
import json
import logging
import math
import os
import resource
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple, NoReturn

FAILED: Final = 3
_OCR_DPI: Final = 300
_OCR_PIXELS: Final = 40_000_000
_POINTS: Final = 72
# Searches and answers come first where processors are scarce.
_NICE: Final = 10
# The marks of retrieval.formats.mathml, which a script of its own does not import.
_RAISE, _LOWER, _UNMARK = "\x01", "\x02", "\x03"
_CONTROLS: Final = frozenset(map(chr, (*range(32), 0x7F)))
_LINE_HYPHENS: Final = "\x02\xad\ufffe"
_LIGATURES: Final = {
    "\ufb00": "ff",
    "\ufb01": "fi",
    "\ufb02": "fl",
    "\ufb03": "ffi",
    "\ufb04": "ffl",
    "\ufb05": "st",
    "\ufb06": "st",
}
# Shares of the size of a line's letters: by how much smaller what is raised may be, how far its base is above.
_SMALL: Final = 0.86
_RAISED: Final = 0.12
_RAISED_LARGE: Final = 0.22
_LOWERED: Final = 0.06
_REACH_UP: Final = 0.9
_REACH_DOWN: Final = 0.55
_SAME_BASE: Final = 0.12
_WORD_GAP: Final = 0.17
_SEGMENT_GAP: Final = 0.7
_BACK: Final = 0.6


def _fail(error: str, detail: str = "") -> NoReturn:
    sys.stdout.buffer.write(json.dumps({"error": error, "detail": detail[:300]}).encode() + b"\n")
    sys.stdout.buffer.flush()
    sys.exit(FAILED)


def _say(**fields: Any) -> None:
    sys.stdout.buffer.write(json.dumps(fields).encode() + b"\n")
    sys.stdout.buffer.flush()


def _limit(memory: int, seconds: int, file_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(_NICE)


def _page(document: Any, number: int) -> Any:
    if not 1 <= number <= len(document):
        _fail("page", f"it has {len(document)} pages")
    return document[number - 1]


def _image(page: Any, scale: float, pixels: int) -> Any:
    """Return the page drawn at ``scale`` pixels a point, or smaller where it would have more than ``pixels``."""
    width, height = page.get_size()
    scale = min(scale, (pixels / max(width * height, 1.0)) ** 0.5)
    return page.render(scale=scale, may_draw_forms=False).to_pil()


def _draw(document: Any, number: str, width: str, pixels: str) -> None:
    page = _page(document, int(number))
    image = _image(page, int(width) / max(page.get_width(), 1.0), int(pixels))
    out = io.BytesIO()
    image.save(out, "PNG")
    sys.stdout.buffer.write(out.getvalue())
    sys.stdout.buffer.flush()


def _words(document: Any, number: str, chars: str) -> None:
    """Write the words of a page with their boxes, in points from the top left corner of the page as it is shown."""
    page = _page(document, int(number))
    text_page = page.get_textpage()
    count = text_page.count_chars()
    if count > int(chars):
        _fail("large", f"more than {chars} characters on the page")
    width, height = page.get_size()
    words, line = list[dict[str, Any]](), 0
    letters, box = "", (0.0, 0.0, 0.0, 0.0)
    for letter, (x0, y0, x1, y1) in _letters(page, text_page, count):
        if letter.isspace():
            if letters:
                words.append(_word(letters, box, line))
            letters = ""
            line += letter == "\n"
            continue
        whole = (min(box[0], x0), min(box[1], y0), max(box[2], x1), max(box[3], y1))
        box = whole if letters else (x0, y0, x1, y1)
        letters += letter
    if letters:
        words.append(_word(letters, box, line))
    _say(pages=len(document), width=round(width, 2), height=round(height, 2), words=words)


def _word(letters: str, box: tuple[float, float, float, float], line: int) -> dict[str, Any]:
    x0, y0, x1, y1 = (round(value, 2) for value in box)
    return {"text": letters, "x0": x0, "y0": y0, "x1": x1, "y1": y1, "line": line}


def _letters(page: Any, text_page: Any, count: int) -> Any:
    """Yield the characters of a page with their boxes; pairs of surrogates are put together."""
    import ctypes

    from pypdfium2 import raw

    fine = 100  # hundredths of a point
    width, height = (round(size * fine) for size in page.get_size())
    x, y = ctypes.c_int(), ctypes.c_int()

    def shown(left: float, bottom: float) -> tuple[float, float]:
        raw.FPDF_PageToDevice(page, 0, 0, width, height, 0, left, bottom, x, y)
        return x.value / fine, y.value / fine

    high = 0
    for at in range(count):
        code = raw.FPDFText_GetUnicode(text_page, at)
        if 0xD800 <= code < 0xDC00:
            high = code
            continue
        if 0xDC00 <= code < 0xE000 and high:
            code = 0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00)
        high = 0
        left, bottom, right, top = text_page.get_charbox(at, loose=True)
        (ax, ay), (bx, by) = shown(left, bottom), shown(right, top)
        letter = chr(code) if code and not 0xD800 <= code < 0xE000 else "\ufffd"
        yield letter, (min(ax, bx), min(ay, by), max(ax, bx), max(ay, by))


def _recognize(document: Any, languages: str, seconds: str, *numbers: str) -> None:
    try:
        import pytesseract
    except ImportError:
        _fail("ocr", "pytesseract is not installed: pip install 'arrowhead[ocr]'")
    try:
        known = pytesseract.get_languages()
    except (pytesseract.TesseractNotFoundError, OSError):
        _fail("ocr", "the program tesseract is not installed (Debian's package tesseract-ocr)")
    if missing := [name for name in languages.split("+") if name not in known]:
        _fail("ocr", f"tesseract has no language {missing[0][:20]!r}; it has {', '.join(known)}")
    for number in map(int, numbers):
        try:
            image = _image(_page(document, number), _OCR_DPI / _POINTS, _OCR_PIXELS)
            text = pytesseract.image_to_string(image, lang=languages, timeout=float(seconds))
        except MemoryError:
            raise
        except (RuntimeError, pytesseract.TesseractError, OSError) as error:
            _say(page=number, bad=f"{type(error).__name__}: {error}"[:150])
        else:
            _say(page=number, text=text)
    _say(end=True)


_TASKS: Final[dict[str, Callable[..., None]]] = {"draw": _draw, "words": _words, "recognize": _recognize}


def _read_page(task: str, arguments: list[str]) -> None:
    path, memory, seconds, file_bytes, *rest = arguments
    _limit(int(memory), int(seconds), int(file_bytes))
    try:
        import pypdfium2

        document = pypdfium2.PdfDocument(path)
        _TASKS[task](document, *rest)
    except MemoryError:
        _fail("memory")
    except Exception as error:  # whatever the library raises for a file it cannot read
        _fail("damaged", f"{type(error).__name__}: {error}")


class _Letter(NamedTuple):
    """Hold a character with its left and right edge, its base line from below, and the size of its letters.

    Edges and base line are those of the page turned so that the text runs from left to right; ``angle`` is by how much.
    """

    text: str
    x0: float
    x1: float
    base: float
    size: float
    angle: float = 0.0


def _lines(page: Any, text_page: Any) -> list[tuple[str, float, float, float, float, bool]]:
    """Return the lines of a page in the order in which its content draws them."""
    height = page.get_height()
    lines = []
    row: _Letter | None = None
    for letters in _runs(_placed_letters(text_page)):
        base, size = _base_of(letters)
        goes_on = row is not None and abs(row.base - base) <= _SAME_BASE * size and letters[0].x0 >= row.x1
        x0, x1 = min(letter.x0 for letter in letters), max(letter.x1 for letter in letters)
        text = _marked(letters, base, size)
        if text.strip():
            edges = (round(x0, 1), round(x1, 1), round(height - base, 1), round(size, 1))
            lines.append((text.strip(" "), *edges, goes_on))
            row = _Letter("", x0, x1, base, size)
    return lines


def _placed_letters(text_page: Any) -> Iterator[_Letter]:
    """Yield the characters that the page draws, and blanks as the library infers them."""
    import ctypes

    from pypdfium2 import raw

    x, y, matrix = ctypes.c_double(), ctypes.c_double(), raw.FS_MATRIX()
    high = 0
    for at in range(text_page.count_chars()):
        code = raw.FPDFText_GetUnicode(text_page, at)
        if 0xD800 <= code < 0xDC00:
            high = code
            continue
        if 0xDC00 <= code < 0xE000:
            code = 0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00) if high else 0xFFFD
        high = 0
        letter = chr(code) if code else "\ufffd"
        if letter in "\r\n" and raw.FPDFText_IsGenerated(text_page, at):
            continue
        letter = "-" if letter in _LINE_HYPHENS else _LIGATURES.get(letter, letter)
        if letter in _CONTROLS:
            letter = " "
        raw.FPDFText_GetCharOrigin(text_page, at, x, y)
        raw.FPDFText_GetMatrix(text_page, at, matrix)
        scale = (matrix.c * matrix.c + matrix.d * matrix.d) ** 0.5 or 1.0
        size = raw.FPDFText_GetFontSize(text_page, at) * scale
        left, bottom, right, top = text_page.get_charbox(at, loose=True)
        angle = round(math.atan2(matrix.b, matrix.a), 2) if letter != " " else 0.0
        if not angle:
            yield _Letter(letter, left, right, y.value, size)
            continue
        cos, sin = math.cos(angle), math.sin(angle)
        edges = (left * cos + bottom * sin, right * cos + top * sin)
        yield _Letter(letter, min(edges), max(edges), y.value * cos - x.value * sin, size, angle)


def _runs(letters: Iterable[_Letter]) -> Iterator[list[_Letter]]:
    """Divide characters into lines, and lines at gaps as wide as those between columns and line numbers."""
    run: list[_Letter] = []
    base = _Letter("", 0, 0, 0, 0)
    for letter in letters:
        if letter.text == " ":
            if run and not run[-1].text.endswith(" "):
                run[-1] = run[-1]._replace(text=run[-1].text + " ")
            continue
        if run and not _follows(letter, run[-1], base):
            yield run
            run = []
        elif run and letter.x0 - run[-1].x1 > _WORD_GAP * base.size and not run[-1].text.endswith(" "):
            run[-1] = run[-1]._replace(text=run[-1].text + " ")
        if not run or letter.size >= base.size:
            base = letter
        run.append(letter)
    if run:
        yield run


def _follows(letter: _Letter, last: _Letter, base: _Letter) -> bool:
    if letter.angle != base.angle:
        return False
    if (letter.x0, letter.base) == (last.x0, last.base):  # letters of one ligature
        return True
    size = max(letter.size, base.size)
    rise = letter.base - base.base
    if not -_BACK * size <= letter.x0 - last.x1 <= _SEGMENT_GAP * size:
        return False
    if abs(rise) <= _SAME_BASE * size:
        return True
    if letter.size > base.size:  # the line began with what is raised or lowered
        rise = -rise
    return -_REACH_DOWN * size <= rise <= _REACH_UP * size


def _base_of(letters: list[_Letter]) -> tuple[float, float]:
    """Return the base line and the size of most characters of a line, the largest ones where several are as many."""
    counts: dict[tuple[float, float], int] = {}
    for letter in letters:
        key = (round(letter.size, 1), round(letter.base, 1))
        counts[key] = counts.get(key, 0) + 1
    size, base = max(counts, key=lambda key: (counts[key] * key[0], key[0]))
    return base, size


def _marked(letters: list[_Letter], base: float, size: float) -> str:
    """Return the text of a line with marks around what stands raised or lowered."""
    out = []
    for mark, group in itertools.groupby(letters, lambda letter: _place(letter, base, size)):
        text = "".join(letter.text for letter in group)
        bare = text.rstrip(" ")
        out.append(f"{mark}{bare}{_UNMARK}{text[len(bare) :]}" if mark else text)
    return "".join(out)


def _place(letter: _Letter, base: float, size: float) -> str:
    rise = (letter.base - base) / (size or 1.0)
    is_small = letter.size <= _SMALL * size
    if rise >= (_RAISED if is_small else _RAISED_LARGE):
        return _RAISE
    return _LOWER if is_small and rise <= -_LOWERED else ""


def _text_of_all_pages(path: str, max_pages: int) -> None:
    import pypdf
    import pypdfium2

    reader = pypdf.PdfReader(path)
    # Many files are encrypted for printing rights only: their user password is empty.
    if reader.is_encrypted and not reader.decrypt(""):
        _say(error="encrypted", detail="it needs a password")
        return
    pages = len(reader.pages)
    title = reader.metadata.title if reader.metadata else None
    _say(pages=pages, title=title if isinstance(title, str) else "")
    if pages > max_pages:
        _say(error="large", detail=f"{pages} pages, {max_pages} at most")
        return
    drawn = pypdfium2.PdfDocument(path)
    for number in range(1, pages + 1):
        try:
            contents = reader.pages[number - 1].get_contents()
            if contents is not None:
                contents.get_data()  # the other library would ignore a failure here silently
            page = drawn[number - 1]
            height, lines = page.get_height(), _lines(page, page.get_textpage())
        except MemoryError:
            raise
        except Exception as error:
            _say(page=number, bad=f"{type(error).__name__}: {error}"[:150])
        else:
            _say(page=number, height=round(height, 1), lines=lines)
    _say(end=True)


def _read_text(arguments: list[str]) -> None:
    path, memory, seconds, pages = arguments
    _limit(int(memory), int(seconds), 0)
    try:
        _text_of_all_pages(path, int(pages))
    except MemoryError:
        _say(error="memory", detail="")
    except Exception as error:  # whatever the library raises for a file it cannot read
        locked = type(error).__name__ in ("DependencyError", "FileNotDecryptedError", "WrongPasswordError")
        _say(error="encrypted" if locked else "damaged", detail=f"{type(error).__name__}: {error}"[:200])


def main(task: str, *arguments: str) -> None:
    """Do the task that the arguments name: the text of all pages, or a task of single pages."""
    logging.disable(logging.CRITICAL)
    if task == "text":
        _read_text(list(arguments))
    else:
        _read_page(task, list(arguments))


if __name__ == "__main__":
    main(*sys.argv[1:])
