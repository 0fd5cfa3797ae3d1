"""Implement elink, cross references between the databases, and einfo, the databases with their fields and links.

Replies are JSON and XML.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from retrieval.formats.records import DATABASES, Database
from retrieval.formats.tables import is_number
from retrieval.gateway.documents.docsum_xml import build_of
from retrieval.gateway.eutils.history import History, StoredSearch
from retrieval.gateway.http_reply import Reply, is_json, json_reply, text_of, uid_groups, xml_reply
from retrieval.gateway.query.conditions import UidSelect
from retrieval.gateway.query.search import Page, search
from retrieval.gateway.query.syntax import FIELDS, Query, QueryTooComplexError, SearchField, parse_query
from retrieval.gateway.store.reader import GatewayStore

_DOCTYPE: Final = "-//NLM//DTD elink 20101123//EN|https://eutils.ncbi.nlm.nih.gov/eutils/dtd/20101123/elink.dtd"
_MAX_IDS: Final = 1_000
_PRIORITY: Final = "128"
_MAX_DIGITS: Final = 18
LINKS: Final[tuple[tuple[Database, Database], ...]] = (
    ("gene", "omim"),
    ("gene", "snp"),
    ("omim", "gene"),
    ("snp", "gene"),
    ("gene", "pubmed"),
    ("pubmed", "gene"),
    ("gene", "clinvar"),
    ("clinvar", "gene"),
    ("clinvar", "snp"),
    ("snp", "clinvar"),
    ("clinvar", "omim"),
    ("omim", "clinvar"),
    ("omim", "medgen"),
    ("medgen", "omim"),
    ("pubmed", "pmc"),
    ("pmc", "pubmed"),
)
# (menu, description) of each database.
MENUS: Final[Mapping[Database, tuple[str, str]]] = {
    "gene": ("Gene", "Gene database (local)"),
    "snp": ("SNP", "Single Nucleotide Polymorphisms (local)"),
    "omim": ("OMIM", "OMIM records (local)"),
    "nuccore": ("Nucleotide", "Core Nucleotide db (local)"),
    "pubmed": ("PubMed", "PubMed bibliographic records (local)"),
    "pmc": ("PMC", "PubMed Central full-text records (local)"),
    "clinvar": ("ClinVar", "ClinVar variations (local)"),
    "taxonomy": ("Taxonomy", "Taxonomy (local)"),
    "medgen": ("MedGen", "Medical Genetics concepts (local)"),
}
_NEIGHBOURS: Final = ("", "neighbor", "neighbor_score")
_NONE: Final = "No filtered links"
_CHECKS: Final = ("acheck", "ncheck", "lcheck")
_INFO_TAGS: Final = (
    ("dbto", "DbTo"), ("linkname", "LinkName"), ("menutag", "MenuTag"), ("htmltag", "HtmlTag"),
    ("priority", "Priority"),
)  # fmt: skip
_EINFO_DOCTYPE: Final = "-//NLM//DTD einfo 20130322//EN|https://eutils.ncbi.nlm.nih.gov/eutils/dtd/20130322/einfo.dtd"
_SAMPLE_DAY: Final = "2023/05/02 00:00"
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


@dataclass(frozen=True, slots=True)
class _LinkSet:
    """Hold the links of one group of UIDs.

    ``links`` are (target, its UIDs); a target without UIDs is one whose links a term has all removed. ``checks`` are
    (UID, the targets it has links to). ``keys`` are query keys in ``environment``, in the order of ``links``.
    """

    source: Database
    uids: list[str]
    links: list[tuple[Database, list[str]]]
    checks: list[tuple[str, list[Database]]]
    keys: tuple[int, ...] = ()
    environment: str = ""


def elink(store: GatewayStore, source: Database, params: Mapping[str, str], history: History) -> Reply:
    """Return a link set for each ``id`` parameter: IDs separated by commas share one.

    The links are those named by ``linkname``, else those to the databases of ``db`` (store names, several with commas,
    "all", by default pubmed).
    """
    groups = uid_groups(params)
    if not groups:
        return elink_error(params, "Empty id list - nothing todo")
    if sum(map(len, groups)) > _MAX_IDS:
        return elink_error(params, f"Too many UIDs in request. Maximum number of UIDs is {_MAX_IDS}.")
    command = params.get("cmd", "").strip().lower()
    if command not in (*_NEIGHBOURS, *_CHECKS, "neighbor_history"):
        return elink_error(params, f"Invalid command: {command[:40]}")
    try:
        term = parse_query(params.get("term", "").strip())
    except QueryTooComplexError as error:
        return elink_error(params, str(error))
    targets = [target for of, target in LINKS if of == source] if command in _CHECKS else _targets(source, params)
    sets = [_link_set(store, source, group, targets) for group in groups]
    if command in _CHECKS:
        return _checked(params, command, sets)
    if params.get("term", "").strip():
        sets = [_filtered(store, found, term) for found in sets]
    if command == "neighbor_history":
        sets = [_store_links(found, params, history) for found in sets]
    return _neighbours(params, sets)


def elink_error(params: Mapping[str, str], message: str) -> Reply:
    if is_json(params):
        return json_reply("elink", {"linksets": [], "ERROR": message})
    return xml_reply("eLinkResult", _DOCTYPE, f"\n\t<ERROR>{text_of(message)}</ERROR>\n")


def _targets(source: Database, params: Mapping[str, str]) -> list[Database]:
    """Return the targets of the requested links.

    An unknown link name gives none, as at NCBI a link name without links.
    """
    names = [name.strip() for name in params.get("linkname", "").split(",") if name.strip()]
    databases = (params.get("db", "") or "pubmed").split(",")
    link_names = names or [f"{source}_{db}" for db in databases]
    every = not names and "all" in databases
    return [target for of, target in LINKS if of == source and (every or f"{of}_{target}" in link_names)]


def _link_set(store: GatewayStore, source: Database, uids: list[str], targets: list[Database]) -> _LinkSet:
    known = {(uid, target): store.links(source, uid, target) for uid in uids for target in targets}
    links = [(target, list(dict.fromkeys(found for uid in uids for found in known[uid, target]))) for target in targets]
    checks = [(uid, [target for target in targets if known[uid, target]]) for uid in uids]
    return _LinkSet(source, uids, [(target, found) for target, found in links if found], checks)


def _filtered(store: GatewayStore, found: _LinkSet, term: Query) -> _LinkSet:
    """Keep only links to records that the query finds; a target without any left stays, without UIDs."""
    links = []
    for target, uids in found.links:
        page = Page(0, len(uids))
        matching = set(search(store, target, term.tree, page, _linked(found, target)).uids if term.tree else ())
        links.append((target, [uid for uid in uids if uid in matching]))
    return replace(found, links=links)


def _linked(found: _LinkSet, target: Database) -> UidSelect:
    """Return a statement for the linked records that lists the few IDs of the call, not their many targets."""
    ids = ",".join(str(int(uid)) for uid in found.uids if is_number(uid, _MAX_DIGITS))
    linked = f"SELECT target_uid FROM link WHERE source = ? AND target = ? AND link.uid IN ({ids})"
    return UidSelect(f"SELECT uid FROM {target} WHERE uid IN ({linked})", (found.source, target))


def _store_links(found: _LinkSet, params: Mapping[str, str], history: History) -> _LinkSet:
    """Store the links on the history server, for later calls that refer to them."""
    environment, keys = params.get("webenv", ""), []
    for target, uids in found.links:
        environment, key = history.keep(environment, StoredSearch(target, {}, tuple(uids)))
        keys.append(key)
    return replace(found, keys=tuple(keys), environment=environment)


def _neighbours(params: Mapping[str, str], sets: list[_LinkSet]) -> Reply:
    if is_json(params):
        return json_reply("elink", {"linksets": [_neighbour_mapping(found) for found in sets]})
    return xml_reply("eLinkResult", _DOCTYPE, "\n" + "".join(map(_neighbour_markup, sets)))


def _neighbour_mapping(found: _LinkSet) -> dict[str, Any]:
    mapping: dict[str, Any] = {"dbfrom": found.source, "ids": found.uids}
    names = [{"dbto": target, "linkname": f"{found.source}_{target}"} for target, _ in found.links]
    if found.environment:
        keyed = zip(names, found.keys, strict=True)
        histories = [{**name, "querykey": str(key)} for name, key in keyed]
        return mapping | {"linksetdbhistories": histories, "webenv": found.environment}
    if found.links:
        pairs = zip(names, found.links, strict=True)
        mapping["linksetdbs"] = [
            {**name, **({"links": uids} if uids else {"info": _NONE})} for name, (_, uids) in pairs
        ]
    return mapping


def _neighbour_markup(found: _LinkSet) -> str:
    return (
        f"<LinkSet>\n\t<DbFrom>{found.source}</DbFrom>\n\t<IdList>\n{_ids(found.uids)}\t</IdList>\n"
        f"{''.join(_link_blocks(found))}</LinkSet>\n"
    )


def _link_blocks(found: _LinkSet) -> Iterator[str]:
    for index, (target, uids) in enumerate(found.links):
        name = f"\t\t<DbTo>{target}</DbTo>\n\t\t<LinkName>{found.source}_{target}</LinkName>\n"
        if found.environment:
            key = f"\t\t<QueryKey>{found.keys[index]}</QueryKey>\n"
            yield f"\t<LinkSetDbHistory>\n{name}{key}\t</LinkSetDbHistory>\n"
        else:
            none = f"\t\t<Info>{_NONE}</Info>\n"
            links = "".join(f"\t\t<Link>\n\t\t\t<Id>{uid}</Id>\n\t\t</Link>\n" for uid in uids)
            yield f"\t<LinkSetDb>\n{name}{links or none}\t</LinkSetDb>\n"
    if found.environment:
        yield f"\t<WebEnv>{found.environment}</WebEnv>\n"


def _ids(uids: list[str]) -> str:
    return "".join(f"\t\t<Id>{text_of(uid)}</Id>\n" for uid in uids)


def _checked(params: Mapping[str, str], command: str, sets: list[_LinkSet]) -> Reply:
    """Return which links exist (acheck), or whether any exist within a database (ncheck) or to the outside (lcheck)."""
    if is_json(params):
        mapped = [{"dbfrom": found.source, "idchecklist": _check_mapping(command, found)} for found in sets]
        return json_reply("elink", {"linksets": mapped})
    inner = "".join(
        f"<LinkSet>\n\t<DbFrom>{found.source}</DbFrom>\n\t<IdCheckList>\n{_check_markup(command, found)}"
        "\t</IdCheckList>\n</LinkSet>\n"
        for found in sets
    )
    return xml_reply("eLinkResult", _DOCTYPE, f"\n{inner}")


def _check_mapping(command: str, found: _LinkSet) -> dict[str, Any]:
    if command != "acheck":
        key = "hasneighbor" if command == "ncheck" else "haslinkout"
        return {"idlinksets": [], "ids": [{"value": uid, key: "N"} for uid in found.uids]}
    sets = [{"id": uid, "linkinfos": [_info(found.source, to) for to in targets]} for uid, targets in found.checks]
    return {"idlinksets": sets, "ids": []}


def _info(source: Database, target: Database) -> dict[str, str]:
    return {
        "dbto": target,
        "linkname": f"{source}_{target}",
        "menutag": f"{MENUS[target][0]} Links",
        "htmltag": MENUS[target][0],
        "priority": _PRIORITY,
    }


def _check_markup(command: str, found: _LinkSet) -> str:
    if command != "acheck":
        attribute = "HasNeighbor" if command == "ncheck" else "HasLinkOut"
        return "".join(f'\t\t<Id {attribute}="N">{text_of(uid)}</Id>\n' for uid in found.uids)
    return "".join(
        f"\t\t<IdLinkSet>\n\t\t\t<Id>{text_of(uid)}</Id>\n"
        + "".join(f"\t\t\t<LinkInfo>{_info_markup(_info(found.source, target))}</LinkInfo>\n" for target in targets)
        + "\t\t</IdLinkSet>\n"
        for uid, targets in found.checks
    )


def _info_markup(info: Mapping[str, str]) -> str:
    return "".join(f"<{tag}>{text_of(info[key])}</{tag}>" for key, tag in _INFO_TAGS)


def einfo_list(params: Mapping[str, str]) -> Reply:
    if is_json(params):
        return json_reply("einfo", {"einforesult": {"dblist": list(DATABASES)}})
    names = "\n".join(f"\t<DbName>{name}</DbName>" for name in DATABASES)
    return xml_reply("eInfoResult", _EINFO_DOCTYPE, f"\n<DbList>\n{names}\n</DbList>\n")


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
    return xml_reply("eInfoResult", _EINFO_DOCTYPE, _markup(info, tags))


def _last_update(store: GatewayStore) -> str:
    """Return when the last import finished, to the minute; without one, the date of the sample's data."""
    finished = store.query("SELECT max(finished) FROM imported")[0][0]
    return _SAMPLE_DAY if finished is None else finished[:16].replace("-", "/").replace("T", " ")


def einfo_error(params: Mapping[str, str], message: str) -> Reply:
    if is_json(params):
        return json_reply("einfo", {"einforesult": {"ERROR": message}})
    return xml_reply("eInfoResult", _EINFO_DOCTYPE, f"\n\t<ERROR>{text_of(message)}</ERROR>\n")


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


def _markup(info: Mapping[str, Any], field_tags: tuple[tuple[str, str], ...]) -> str:
    fields = "".join(f"\t<Field>\n{_elements(item, field_tags)}\t</Field>\n" for item in info["fieldlist"])
    links = "".join(f"\t<Link>\n{_elements(item, _LINK_TAGS)}\t</Link>\n" for item in info["linklist"])
    head = _elements(info, _HEAD_TAGS)
    return f"\n<DbInfo>\n{head}<FieldList>\n{fields}</FieldList>\n<LinkList>\n{links}</LinkList>\n</DbInfo>\n"


def _elements(item: Mapping[str, Any], tags: tuple[tuple[str, str], ...]) -> str:
    return "".join(f"\t\t<{tag}>{text_of(item[key])}</{tag}>\n" for key, tag in tags)
