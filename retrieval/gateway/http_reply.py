"""Define what every E-utility reply shares: the reply record, JSON and XML writing, NCBI's error bodies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from xml.sax.saxutils import escape

from retrieval.formats.tables import is_number

JSON: Final = "application/json; charset=UTF-8"
XML: Final = "text/xml; charset=UTF-8"
PLAIN: Final = "text/plain; charset=UTF-8"
HTML: Final = "text/html; charset=UTF-8"
# Separates the values of a repeated ``id`` parameter: elink answers each of them on its own.
REPEATED: Final = "&"
_MOST: Final = 10_000  # records in one reply
_DECLARATION: Final = '<?xml version="1.0" encoding="UTF-8" ?>\n'
_EFETCH_DOCTYPE: Final = (
    "-//NLM//DTD efetch 20131226//EN|https://eutils.ncbi.nlm.nih.gov/eutils/dtd/20131226/efetch.dtd"
)
# XML 1.0 cannot represent these characters.
_UNWRITABLE: Final = {code: None for code in range(32) if chr(code) not in "\t\n\r"} | {0xFFFE: None, 0xFFFF: None}


@dataclass(frozen=True, slots=True)
class Reply:
    """Hold a reply."""

    status: int
    content_type: str
    body: str

    @property
    def content(self) -> bytes:
        return self.body.encode()


def text_of(value: object) -> str:
    """Escape ``value`` as XML character data, without the characters that XML 1.0 cannot represent."""
    return escape(str(value).translate(_UNWRITABLE))


def json_reply(kind: str, content: Mapping[str, Any], version: str = "0.3") -> Reply:
    """Build a JSON reply: ``content`` after NCBI's header object."""
    document = {"header": {"type": kind, "version": version}, **content}
    return Reply(200, JSON, json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n")


def prolog(root: str, doctype: str) -> str:
    """Return the XML declaration and the document type; ``doctype`` is "public id|system URL"."""
    public, _, system = doctype.partition("|")
    return f'{_DECLARATION}<!DOCTYPE {root} PUBLIC "{public}" "{system}">\n'


def xml_reply(root: str, doctype: str, inner: str) -> Reply:
    """Build an XML reply; ``inner`` is the markup inside the root element."""
    return Reply(200, XML, f"{prolog(root, doctype)}<{root}>{inner}</{root}>\n")


def is_json(params: Mapping[str, str]) -> bool:
    return params.get("retmode", "").lower() == "json"


def whole_number(params: Mapping[str, str], name: str, default: int, highest: int) -> int:
    """Return a non-negative parameter, at most ``highest``; as at NCBI, the default if it is not a number."""
    text = params.get(name, "").strip()
    return min(int(text), highest) if is_number(text, 11) else default


def uid_groups(params: Mapping[str, str]) -> list[list[str]]:
    """Return the IDs of each ``id`` parameter of a call, in order, without repeats."""
    lists = ([part.strip() for part in group.split(",")] for group in params.get("id", "").split(REPEATED))
    return [group for ids in lists if (group := list(dict.fromkeys(filter(None, ids))))]


def uid_list(params: Mapping[str, str]) -> list[str]:
    """Return all IDs of a call, in order, without repeats."""
    return list(dict.fromkeys(uid for group in uid_groups(params) for uid in group))


def page_of(uids: list[str], params: Mapping[str, str]) -> list[str]:
    """Return the part of a call's IDs that its retstart and retmax select."""
    start = whole_number(params, "retstart", 0, _MOST)
    return uids[start : start + whole_number(params, "retmax", _MOST, _MOST)]


def efetch_error(message: str, status: int = 400) -> Reply:
    """Build efetch's error body, which is the same for every requested form."""
    body = f"<eFetchResult>\n\t<ERROR>{text_of(message)}</ERROR>\n</eFetchResult>\n"
    return Reply(status, XML, f"{prolog('eEfetchResult', _EFETCH_DOCTYPE)}{body}")
