"""Documents in all the forms that readers take, sound and damaged."""

from __future__ import annotations

import io
import json
import shutil
import zlib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pypdf
import pytest

from retrieval.corpus.items import ParsedDocument, SkippedRecord, TextBuilder
from retrieval.passages import Document

needs_tesseract = pytest.mark.skipif(
    shutil.which("tesseract") is None or find_spec("pytesseract") is None, reason="tesseract or its library is missing"
)
CHAPTER: Final = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE book-part-wrapper PUBLIC "-//NLM//DTD BITS Book Interchange DTD v2.0 20151225//EN" "BITS-book2.dtd">
<book-part-wrapper xmlns:xlink="http://www.w3.org/1999/xlink" dtd-version="2.0" xml:lang="en">
<book-meta><book-id book-id-type="pmcid">statpearls</book-id><book-title-group><book-title>StatPearls</book-title>
</book-title-group><permissions><license xlink:href="https://creativecommons.org/licenses/by-nc-nd/4.0/">
<license-p>CC BY-NC-ND.</license-p></license></permissions></book-meta>
<book-part book-part-type="chapter" id="article-100024"><book-part-meta>
<book-part-id book-part-id-type="pmcid">NBK430685</book-part-id><title-group><title>Cold Urticaria</title></title-group>
<contrib-group><contrib contrib-type="author"><name><surname>Doe</surname><given-names>Jane A</given-names></name>
</contrib></contrib-group><pub-history><date date-type="created"><day>5</day><month>1</month><year>2024</year></date>
</pub-history></book-part-meta><body>
<sec id="s1"><title>Continuing Education Activity</title><p>Cold urticaria is a rare wheal.</p></sec>
<sec id="s2"><title>Treatment / Management</title><p>Avoid the cold.</p><p><bold>Antihistamines:</bold></p>
<p>Up to 4 times the dose (40 mg)<sup><xref ref-type="bibr" rid="r1">1</xref>,<xref ref-type="bibr" rid="r2">2</xref>
</sup> is given.</p><list list-type="bullet"><list-item><p>First step</p></list-item></list></sec>
<sec id="s3"><title>References</title><ref-list><ref id="r1"><mixed-citation>Someone. 1999.</mixed-citation></ref>
</ref-list></sec></body></book-part></book-part-wrapper>
"""


def jats(pmcid: int = 5, body: str = "<sec><title>Results</title><p>It fell.</p></sec>", meta: str = "") -> str:
    return (
        '<article xmlns:xlink="http://www.w3.org/1999/xlink" article-type="research-article"><front><article-meta>'
        f"<article-id pub-id-type='pmc'>{pmcid}</article-id><title-group><article-title>On IL-6</article-title>"
        f"</title-group>{meta}</article-meta></front>" + (f"<body>{body}</body>" if body else "") + "</article>"
    )


def slow_pdf(num_pages: int = 1, *, kind: str = "forms") -> bytes:
    """Return a PDF of a few kB whose pages take hours to draw: forms within forms, or a tiling pattern of tiny tiles.

    Each page has a line of text, so that the file is taken for a document.
    """
    resources, drawn = b"/Font << /F1 3 0 R >>", b"BT /F1 12 Tf 72 720 Td (Slow page) Tj ET "
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]

    def stream(about: bytes, content: bytes) -> bytes:
        return b"<< " + about + b" /Length %d >>\nstream\n" % len(content) + content + b"\nendstream"

    if kind == "forms":
        form = b"/Type /XObject /Subtype /Form /BBox [0 0 600 800]"
        objects.append(stream(form, b"0 0 m 600 800 l 10 700 l f " * 20))
        for _ in range(8):
            inner = b"/Resources << /XObject << /X %d 0 R >> >>" % len(objects)
            objects.append(stream(form + inner, b"/X Do " * 20))
        resources += b" /XObject << /X %d 0 R >>" % len(objects)
        drawn += b"/X Do"
    else:
        tile = b"/Type /Pattern /PatternType 1 /PaintType 1 /TilingType 1 /BBox [0 0 100 100] /XStep 0.02 /YStep 0.02"
        objects.append(stream(tile + b" /Resources << >>", b"0 0 m 100 100 l 0 50 l f " * 50))
        resources += b" /Pattern << /P %d 0 R >>" % len(objects)
        drawn += b"/Pattern cs /P scn 0 0 600 800 re f"
    objects.append(stream(b"", drawn))
    contents = len(objects)
    kids = []
    for _ in range(num_pages):
        page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R /Resources << %s >> >>"
        objects.append(page % (contents, resources))
        kids.append(b"%d 0 R" % len(objects))
    objects[1] = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (b" ".join(kids), num_pages)
    return _assembled([*objects, b"<< /Title () >>"])


def json_lines(*rows: Mapping[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def pdf(*pages: str, title: str = "") -> bytes:
    """A PDF with one line of text a page, "" for a page without any, written by hand."""
    return drawn_pdf(
        *(f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET" if text else "0 0 m 10 10 l S" for text in pages), title=title
    )


def scan(*pages: str) -> bytes:
    """The same pages as pictures without text."""
    import pypdfium2

    document = pypdfium2.PdfDocument(pdf(*pages))
    pictures = [page.render(scale=3).to_pil() for page in document]
    out = io.BytesIO()
    pictures[0].save(out, "PDF", save_all=True, append_images=pictures[1:], resolution=216)
    return out.getvalue()


def drawn_pdf(*pages: str, title: str = "") -> bytes:
    """A PDF whose pages draw just these contents; the font is F1."""
    objects: list[bytes] = [b"<< /Type /Catalog /Pages 2 0 R >>", b""]
    font = b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
    objects.append(font)
    kids = []
    for drawn in pages:
        packed = zlib.compress(drawn.encode("latin-1"))
        stream = b"<< /Length %d /Filter /FlateDecode >>\nstream\n" % len(packed) + packed + b"\nendstream"
        objects.append(stream)
        page = f"/Contents {len(objects)} 0 R /Resources << /Font << /F1 3 0 R >> >>"
        objects.append(f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] {page} >>".encode())
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>".encode()
    objects.append(f"<< /Title ({title}) >>".encode("latin-1"))
    return _assembled(objects)


def _assembled(objects: list[bytes]) -> bytes:
    out = bytearray(b"%PDF-1.4\n")
    places = []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n" % number + content + b"\nendobj\n"
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    for place in places:
        out += b"%010d 00000 n \n" % place
    size, info = len(objects) + 1, len(objects)
    out += b"trailer\n<< /Size %d /Root 1 0 R /Info %d 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (size, info, start)
    return bytes(out)


def encrypted_pdf(content: bytes, password: str) -> bytes:
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(content))
    writer.encrypt(user_password=password, owner_password="owner", algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def swelling_pdf(size: int = 2 * 2**30) -> bytes:
    """A page whose content unpacks to so many blanks."""
    packer = zlib.compressobj(9)
    block = b" " * 2**20
    packed = b"".join(packer.compress(block) for _ in range(size // len(block))) + packer.flush()
    stream = b"<< /Length %d /Filter /FlateDecode >>\nstream\n" % len(packed) + packed + b"\nendstream"
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 3 0 R /Resources << >> >>"
    pages = b"<< /Type /Pages /Kids [4 0 R] /Count 1 >>"
    return _assembled([b"<< /Type /Catalog /Pages 2 0 R >>", pages, stream, page, b"<< >>"])


def reading(document_id: str, *paragraphs: str, title: str = "A title", **fields: Any) -> ParsedDocument:
    """One section for each paragraph."""
    text = TextBuilder()
    for number, paragraph in enumerate(paragraphs, 1):
        text.add(paragraph, f"Part {number}" if len(paragraphs) > 1 else "")
    return text.reading(Document(document_id=document_id, title=title, **fields))


def parsed_documents(found: list[Any]) -> list[ParsedDocument]:
    """All items of a file without a single record passed over."""
    assert [item for item in found if isinstance(item, SkippedRecord)] == []
    return [item for item in found if isinstance(item, ParsedDocument)]


def slices(found: ParsedDocument) -> list[tuple[str, str]]:
    """(section, text) of each part."""
    return [(span.section, found.text[span.start : span.end]) for span in found.spans]


def saved_pdf(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path
