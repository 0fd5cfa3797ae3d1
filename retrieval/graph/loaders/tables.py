"""Read tab-separated tables with a header line, the form of KGX and of this project's own files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from retrieval.gateway.importing.sources import Line
from retrieval.graph.errors import GraphFileInvalid
from retrieval.graph.loaders.reading import Place, Report

Row = dict[str, str]
_MAX_COLUMNS: Final = 1000


def table(source: Iterable[Line], place: Place, report: Report) -> Iterator[Row]:
    """Yield the header (each column with its own name), then every row.

    Lines that begin with # before the header are comments.

    Raises:
        GraphFileInvalid: the header is missing or has a column twice.
    """
    header: list[str] = []
    for number, text in source:
        place.line = number
        if text is None:
            if not header:
                raise GraphFileInvalid(f"{place}: no table: the first line is no UTF-8", param="files")
            report.add(str(place), "the line is not valid UTF-8")
        elif not header:
            if text.startswith("#") or not text.strip():
                continue
            header = [name.strip() for name in text.split("\t")]
            if len(set(header)) != len(header) or len(header) > _MAX_COLUMNS:
                raise GraphFileInvalid(f"{place}: no table: a column stands twice in the header", param="files")
            yield {name: name for name in header}
        elif text:
            cells = text.split("\t")
            if len(cells) != len(header):
                report.add(str(place), f"{len(cells)} columns, {len(header)} expected")
                continue
            yield dict(zip(header, cells, strict=True))
    if not header:
        raise GraphFileInvalid(f"{place.file}: the file is empty", param="files")
