"""What kind of zip file one is."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from retrieval.corpus.readers.office.package import ARCHIVE, package_kind


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (("[Content_Types].xml", "word/document.xml"), "docx"),
        (("[Content_Types].xml", "ppt/presentation.xml"), "pptx"),
        (("[Content_Types].xml", "xl/workbook.xml"), "xlsx"),
        (("[Content_Types].xml", "xl/workbook.bin"), ""),
        (("mimetype", "content.xml"), ""),
        (("a.pdf", "b/c.md"), ARCHIVE),
        ((), ""),
    ],
)
def test_packages_are_told_from_archives_of_files(tmp_path: Path, names: tuple[str, ...], kind: str) -> None:
    """Those of other programs are neither."""
    path = tmp_path / "a.bin"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    assert package_kind(path) == kind
