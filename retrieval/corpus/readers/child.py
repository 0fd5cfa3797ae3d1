"""Read one file in a process of its own, within limits that it sets itself, and write its items as JSON lines.

A damaged or hostile file may take any time and memory inside a library, where no check of ours runs; the process
contains the damage. Arguments: file, options as JSON, bytes of address space, seconds of processor time. Output:
{"kind"}, then {"document"}, {"withdrawn"} or {"skipped"} for each item, at the end {"end": true}; or {"error": kind,
"detail": text}. Of a PDF and a zip archive only the kind is written: ``pdf`` and ``archive`` read them in processes of
their own.
"""

from __future__ import annotations

import json
import logging
import resource
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from retrieval.corpus.items import Item, ParsedDocument, ReadOptions, Withdrawn
from retrieval.corpus.readers.office.package import ARCHIVE
from retrieval.corpus.readers.registry import guess_reader, reader
from retrieval.errors import DOCUMENT_TOO_LARGE, DocumentUnreadable


def _say(**fields: Any) -> None:
    sys.stdout.buffer.write(json.dumps(fields).encode() + b"\n")
    sys.stdout.buffer.flush()


def _say_item(item: Item) -> None:
    match item:
        case ParsedDocument():
            _say(document=asdict(item))
        case Withdrawn():
            _say(withdrawn=asdict(item))
        case _:
            _say(skipped=asdict(item))


def _limit(memory: int, seconds: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _read(path: Path, options: ReadOptions) -> None:
    kind = options.kind or guess_reader(path)
    _say(kind=kind)
    if kind not in ("pdf", ARCHIVE):
        for item in reader(kind)(path, options):
            _say_item(item)
    _say(end=True)


def main(arguments: list[str]) -> None:
    """Read the file that the arguments name."""
    path, options, memory, seconds = arguments
    logging.disable(logging.CRITICAL)
    _limit(int(memory), int(seconds))
    try:
        _read(Path(path), ReadOptions(**json.loads(options)))
    except MemoryError:
        _say(error="memory", detail="")
    except DocumentUnreadable as error:
        _say(error="large" if DOCUMENT_TOO_LARGE.is_of(error) else "unreadable", detail=error.message)
    except Exception as error:  # a fault of a reader is this file's alone
        _say(error="reader", detail=type(error).__name__)
