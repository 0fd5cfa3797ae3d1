"""Read one PDF, as a script in its own process, within limits that it sets itself.

A damaged or hostile PDF may consume any time and memory; the process of its own contains the damage. The first argument
is the task; file, bytes of address space and seconds of processor time follow.

``text FILE MEMORY SECONDS PAGES`` writes the text of at most so many pages as JSON lines: {"pages", "title"}, then
{"page", "text"} for each page, or {"page", "bad": reason}, at the end {"end": true}; or {"error": kind, "detail":
text}.

The tasks of single pages have the bytes of the largest file that may be written as the next argument, then their own:
``draw PAGE WIDTH PIXELS`` writes a PNG; ``words PAGE CHARS`` one line of JSON; ``recognize LANGUAGES SECONDS PAGE…`` a
line of JSON for each page. A failure is a line of JSON {"error", "detail"} with exit status 3.
"""

from __future__ import annotations

import io
import json
import logging
import os
import resource
import sys
from collections.abc import Callable
from typing import Any, Final, NoReturn

FAILED: Final = 3
_OCR_DPI: Final = 300
_OCR_PIXELS: Final = 40_000_000
_POINTS: Final = 72
# Searches and answers come first where processors are scarce.
_NICE: Final = 10


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


def _text_of_all_pages(path: str, max_pages: int) -> None:
    import pypdf

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
    for number in range(1, pages + 1):
        try:
            page = reader.pages[number - 1]
            contents = page.get_contents()
            if contents is not None:
                contents.get_data()  # extract_text would ignore a failure here silently
            text = page.extract_text()
        except MemoryError:
            raise
        except Exception as error:
            _say(page=number, bad=f"{type(error).__name__}: {error}"[:150])
        else:
            _say(page=number, text=text)
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
