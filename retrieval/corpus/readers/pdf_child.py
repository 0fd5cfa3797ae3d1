"""Extract the text of one PDF, as a script in its own process, within limits that it sets itself.

A damaged or hostile PDF may consume any time and memory; the process of its own contains the damage. Arguments: file,
bytes of address space, seconds of processor time, pages. Output: JSON lines, {"pages", "title"}, then {"page", "text"}
for each page, or {"page", "bad": reason}, at the end {"end": true}; or {"error": kind, "detail": text}.
"""

from __future__ import annotations

import json
import logging
import resource
import sys
from typing import Any


def _say(**fields: Any) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def _limit(memory: int, seconds: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _read(path: str, max_pages: int) -> None:
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


def main(arguments: list[str]) -> None:
    path, memory, seconds, pages = arguments
    logging.disable(logging.CRITICAL)
    _limit(int(memory), int(seconds))
    try:
        _read(path, int(pages))
    except MemoryError:
        _say(error="memory", detail="")
    except Exception as error:  # whatever the library raises for a file it cannot read
        locked = type(error).__name__ in ("DependencyError", "FileNotDecryptedError", "WrongPasswordError")
        _say(error="encrypted" if locked else "damaged", detail=f"{type(error).__name__}: {error}"[:200])


if __name__ == "__main__":
    main(sys.argv[1:])
