"""elink: cross references between gene, snp and omim, as JSON and XML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from retrieval.gateway.records import Database
from retrieval.gateway.replies import Reply, is_json, json_reply, text_of, uid_list, xml_reply
from retrieval.gateway.store import GatewayStore

_DOCTYPE: Final = "-//NLM//DTD elink 20101123//EN|https://eutils.ncbi.nlm.nih.gov/eutils/dtd/20101123/elink.dtd"
_MAX_IDS: Final = 1_000
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


def elink(store: GatewayStore, source: Database, target: Database, params: Mapping[str, str]) -> Reply:
    """All given ids make one link set, as NCBI does for ids in one comma-separated parameter."""
    uids = uid_list(params)[:_MAX_IDS]
    if not uids:
        return elink_error(params, "Empty id list - nothing todo")
    name = params.get("linkname", "").strip() or f"{source}_{target}"
    links = _links(store, source, target, uids) if name == f"{source}_{target}" else []
    if is_json(params):
        return _as_json(source, target, uids, links)
    return _as_xml(source, target, uids, links)


def elink_error(params: Mapping[str, str], message: str) -> Reply:
    if is_json(params):
        return json_reply("elink", {"linksets": [], "ERROR": message})
    return xml_reply("eLinkResult", _DOCTYPE, f"\n\t<ERROR>{text_of(message)}</ERROR>\n")


def _links(store: GatewayStore, source: Database, target: Database, uids: list[str]) -> list[str]:
    found = (link for uid in uids for link in store.links(source, uid, target))
    return list(dict.fromkeys(found))


def _as_json(source: str, target: str, uids: list[str], links: list[str]) -> Reply:
    linkset: dict[str, Any] = {"dbfrom": source, "ids": uids}
    if links:
        linkset["linksetdbs"] = [{"dbto": target, "linkname": f"{source}_{target}", "links": links}]
    return json_reply("elink", {"linksets": [linkset]})


def _as_xml(source: str, target: str, uids: list[str], links: list[str]) -> Reply:
    ids = "".join(f"\t\t<Id>{text_of(uid)}</Id>\n" for uid in uids)
    found = "".join(f"\t\t<Link>\n\t\t\t<Id>{uid}</Id>\n\t\t</Link>\n" for uid in links)
    block = (
        f"\t<LinkSetDb>\n\t\t<DbTo>{target}</DbTo>\n\t\t<LinkName>{source}_{target}</LinkName>\n{found}\t</LinkSetDb>\n"
    )
    inner = (
        f"\n<LinkSet>\n\t<DbFrom>{source}</DbFrom>\n\t<IdList>\n{ids}\t</IdList>\n{block if links else ''}</LinkSet>\n"
    )
    return xml_reply("eLinkResult", _DOCTYPE, inner)
