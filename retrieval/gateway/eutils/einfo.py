"""Implement einfo: the list of databases, and the fields and links of one, as JSON and XML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from retrieval.formats.records import DATABASES, Database
from retrieval.gateway.documents.docsum_xml import build_of
from retrieval.gateway.eutils.elink import LINKS, MENUS
from retrieval.gateway.http_reply import Reply, is_json, json_reply, text_of, xml_reply
from retrieval.gateway.query.planner import FIELDS, SearchField
from retrieval.gateway.store.reader import GatewayStore

_DOCTYPE: Final = "-//NLM//DTD einfo 20130322//EN|https://eutils.ncbi.nlm.nih.gov/eutils/dtd/20130322/einfo.dtd"
_SAMPLE_DAY: Final = "2023/05/02 00:00"


def einfo_list(params: Mapping[str, str]) -> Reply:
    if is_json(params):
        return json_reply("einfo", {"einforesult": {"dblist": list(DATABASES)}})
    names = "\n".join(f"\t<DbName>{name}</DbName>" for name in DATABASES)
    return xml_reply("eInfoResult", _DOCTYPE, f"\n<DbList>\n{names}\n</DbList>\n")


def einfo_database(store: GatewayStore, db: Database, params: Mapping[str, str]) -> Reply:
    """Describe one database.

    ``version=2.0`` adds to XML what JSON always has: which fields support truncation and ranges.
    """
    menu, description = MENUS[db]
    info: dict[str, Any] = {
        "dbname": db,
        "menuname": menu,
        "description": description,
        "dbbuild": build_of(store),
        "count": str(store.count(db)),
        "lastupdate": _last_update(store),
        "fieldlist": [_field(search_field) for search_field in FIELDS[db]],
        "linklist": [_link(source, target) for source, target in LINKS if source == db],
    }
    if is_json(params):
        return json_reply("einfo", {"einforesult": {"dbinfo": [info]}})
    tags = _FIELD_TAGS_2 if params.get("version", "").strip() == "2.0" else _FIELD_TAGS
    return xml_reply("eInfoResult", _DOCTYPE, _markup(info, tags))


def _last_update(store: GatewayStore) -> str:
    """Return when the last import finished, to the minute; without one, the date of the sample's data."""
    finished = store.query("SELECT max(finished) FROM imported")[0][0]
    return _SAMPLE_DAY if finished is None else finished[:16].replace("-", "/").replace("T", " ")


def einfo_error(params: Mapping[str, str], message: str) -> Reply:
    if is_json(params):
        return json_reply("einfo", {"einforesult": {"ERROR": message}})
    return xml_reply("eInfoResult", _DOCTYPE, f"\n\t<ERROR>{text_of(message)}</ERROR>\n")


def _field(search_field: SearchField) -> dict[str, str]:
    return {
        "name": search_field.code,
        "fullname": search_field.full_name,
        "description": f"Tags: {', '.join(search_field.tags)}",
        "termcount": "0",
        "isdate": "Y" if search_field.lookup == "day" else "N",
        "isnumerical": "Y" if search_field.code in ("UID", "CPOS") else "N",
        "singletoken": "Y" if search_field.code in ("UID", "RS", "CHR") else "N",
        "hierarchy": "N",
        "ishidden": "N",
        "istruncatable": "Y" if search_field.lookup == "text" else "N",
        "israngable": "Y" if search_field.lookup in ("number", "day") else "N",
    }


def _link(source: Database, target: Database) -> dict[str, str]:
    menu, description = MENUS[target]
    return {"name": f"{source}_{target}", "menu": f"{menu} Links", "description": description, "dbto": target}


_FIELD_TAGS: Final = (
    ("name", "Name"),
    ("fullname", "FullName"),
    ("description", "Description"),
    ("termcount", "TermCount"),
    ("isdate", "IsDate"),
    ("isnumerical", "IsNumerical"),
    ("singletoken", "SingleToken"),
    ("hierarchy", "Hierarchy"),
    ("ishidden", "IsHidden"),
)
_FIELD_TAGS_2: Final = (*_FIELD_TAGS, ("istruncatable", "IsTruncatable"), ("israngable", "IsRangable"))
_LINK_TAGS: Final = (("name", "Name"), ("menu", "Menu"), ("description", "Description"), ("dbto", "DbTo"))
_HEAD_TAGS: Final = (
    ("dbname", "DbName"),
    ("menuname", "MenuName"),
    ("description", "Description"),
    ("dbbuild", "DbBuild"),
    ("count", "Count"),
    ("lastupdate", "LastUpdate"),
)


def _markup(info: Mapping[str, Any], field_tags: tuple[tuple[str, str], ...]) -> str:
    fields = "".join(f"\t<Field>\n{_elements(item, field_tags)}\t</Field>\n" for item in info["fieldlist"])
    links = "".join(f"\t<Link>\n{_elements(item, _LINK_TAGS)}\t</Link>\n" for item in info["linklist"])
    head = _elements(info, _HEAD_TAGS)
    return f"\n<DbInfo>\n{head}<FieldList>\n{fields}</FieldList>\n<LinkList>\n{links}</LinkList>\n</DbInfo>\n"


def _elements(item: Mapping[str, Any], tags: tuple[tuple[str, str], ...]) -> str:
    return "".join(f"\t\t<{tag}>{text_of(item[key])}</{tag}>\n" for key, tag in tags)
