"""Render document summaries as XML: the older layout (DocSum, Item) and each database's own (DocumentSummary)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from retrieval.gateway.replies import Reply, text_of, xml_reply
from retrieval.gateway.store import GatewayStore

DTD: Final = "https://eutils.ncbi.nlm.nih.gov/eutils/dtd"
V1: Final = f"-//NLM//DTD esummary v1 20041029//EN|{DTD}/20041029/esummary-v1.dtd"
UNKNOWN: Final = "cannot get document summary"


def build_of(store: GatewayStore) -> str:
    """Return a build name for the current data, in the form of NCBI's build names."""
    imports = store.version()
    return f"Build-{store.fingerprint[:12] or store.kind}" + (f".{imports}" if imports else "")


@dataclass(frozen=True, slots=True)
class Item:
    """Represent an Item element of the older layout; a list or structure holds Items."""

    name: str
    kind: Literal["String", "Integer", "Date", "List", "Structure"]
    content: str | tuple[Item, ...]


def text(name: str, value: str) -> Item:
    return Item(name, "String", value)


def number(name: str, value: int) -> Item:
    return Item(name, "Integer", str(value))


def date(name: str, value: str) -> Item:
    return Item(name, "Date", value)


def many(name: str, items: Iterable[Item]) -> Item:
    return Item(name, "List", tuple(items))


def items_of(document: Mapping[str, Any], names: Mapping[str, str]) -> list[Item]:
    """Return a flat mapping as items, under the names given or the capitalized keys."""
    return [
        Item(names.get(key, key.title()), "Integer" if isinstance(value, int) else "String", str(value))
        for key, value in document.items()
        if key != "uid"
    ]


def v1_reply(documents: Iterable[tuple[str, Sequence[Item] | None]], complaint: str) -> Reply:
    """Build the reply in the older layout; ``documents`` are (UID, its items or None for a missing record)."""
    error = f"\n<ERROR>{text_of(complaint)}</ERROR>" if complaint else ""
    inner = "".join(_v1_document(uid, items) for uid, items in documents)
    return xml_reply("eSummaryResult", V1, f"{error}\n{inner}")


def _v1_document(uid: str, items: Sequence[Item] | None) -> str:
    if items is None:
        return f"<ERROR>UID={text_of(uid)}: {UNKNOWN}</ERROR>\n\n"
    return f"<DocSum>\n\t<Id>{text_of(uid)}</Id>\n{''.join(_item(item, 1) for item in items)}</DocSum>\n\n"


def _item(item: Item, depth: int) -> str:
    tabs = "\t" * depth
    if isinstance(item.content, str):
        inner = text_of(item.content)
    else:
        inner = "".join(_item(part, depth + 1) for part in item.content)
        inner = f"\n{inner}{tabs}" if inner else ""
    return f'{tabs}<Item Name="{_attribute(item.name)}" Type="{item.kind}">{inner}</Item>\n'


def _attribute(value: str) -> str:
    return text_of(value).replace('"', "&quot;")


@dataclass(frozen=True, slots=True)
class Tag:
    """Describe how a value of the JSON form is written in a database's own layout.

    ``key`` is the JSON key, by default the name in lower case. ``item`` is the element of each entry of a list.
    ``parts`` are the elements within an entry, or within the value where it is a structure.
    """

    name: str
    key: str = ""
    item: str = ""
    parts: tuple[Tag, ...] = ()

    def markup(self, document: Mapping[str, Any]) -> str:
        value = document[self.key or self.name.lower()]
        if isinstance(value, list):
            inner = "".join(f"<{self.item}>{self._content(entry)}</{self.item}>" for entry in value)
        else:
            inner = self._content(value)
        return f"<{self.name}>{inner}</{self.name}>"

    def _content(self, value: Any) -> str:
        return "".join(part.markup(value) for part in self.parts) if self.parts else text_of(value)


def v2_document(document: Mapping[str, Any], layout: tuple[Tag, ...]) -> str:
    fields = "".join(f"\t{tag.markup(document)}\n" for tag in layout)
    return f'<DocumentSummary uid="{_attribute(str(document["uid"]))}">\n{fields}</DocumentSummary>\n'


def v2_error(uid: str) -> str:
    return f'<DocumentSummary uid="{_attribute(uid)}">\n\t<error>{UNKNOWN}</error>\n</DocumentSummary>\n'


def v2_reply(doctype: str, build: str, documents: Iterable[str], complaint: str) -> Reply:
    error = f"\n<ERROR>{text_of(complaint)}</ERROR>" if complaint else ""
    entries = "\n".join(documents)
    inner = (
        f'{error}\n<DocumentSummarySet status="OK">\n<DbBuild>{text_of(build)}</DbBuild>\n\n{entries}\n'
        "</DocumentSummarySet>\n"
    )
    return xml_reply("eSummaryResult", doctype, inner)
