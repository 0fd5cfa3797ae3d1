"""Render the pages of NCBI's BLAST URL API around BLAST+'s reports. Pure functions, no I/O."""

from __future__ import annotations

from typing import Final

from retrieval.gateway.http_reply import text_of

NO_SIMILARITY: Final = "<b>No significant similarity found.</b>"  # NCBI's words and markup, in Text too


def put_page(rid: str, rtoe_s: int) -> str:
    return _html(f"<!--QBlastInfoBegin\n    RID = {rid}\n    RTOE = {rtoe_s}\nQBlastInfoEnd\n-->")


def error_page(message: str) -> str:
    """Render the reply to a Put request that cannot be run: an error and an empty RID."""
    error = f'<ul id="msg" class="msg"><li class="error"><p class="error">{text_of(message)}</p></li></ul>'
    return _html(f"{error}\n<!--QBlastInfoBegin\n    RID = \n    RTOE = \nQBlastInfoEnd\n-->")


def status_page(status: str, message: str = "", hits: bool | None = None) -> str:
    """Render the page of a status (WAITING, READY, UNKNOWN, FAILED or ERROR) with a message for the user."""
    error = f'<ul id="msg" class="msg"><li class="error"><p class="error">{text_of(message)}</p></li></ul>\n'
    more = (
        "" if hits is None else f"<!--\nQBlastInfoBegin\n\tThereAreHits={'yes' if hits else 'no'}\nQBlastInfoEnd\n-->"
    )
    return _html(
        f"{error if message else ''}<p><!--\nQBlastInfoBegin\n\tStatus={status}\nQBlastInfoEnd\n--><p>\n{more}"
    )


def html_page(text: str) -> str:
    """Render a page for a browser around ``text``, a report in the Text form."""
    escaped = text_of(text).replace(text_of(NO_SIMILARITY), NO_SIMILARITY)
    return _html(f"<p><!--\nQBlastInfoBegin\n\tStatus=READY\nQBlastInfoEnd\n--><p>\n<pre>{escaped}</pre>")


def _html(inner: str) -> str:
    return f"<!DOCTYPE html>\n<html>\n<head><title>NCBI Blast</title></head>\n<body>\n{inner}\n</body>\n</html>\n"


def with_status_header(text: str) -> str:
    """Prepend the markup that NCBI puts before a result in Text and Tabular."""
    return f"<p><!--\nQBlastInfoBegin\n\tStatus=READY\nQBlastInfoEnd\n--><p>\n<PRE>\n{text}"
