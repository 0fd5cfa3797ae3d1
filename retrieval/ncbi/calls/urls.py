"""Parse calls written as text, and build the regular expression that describes all of them.

Reads the call table and nothing else; knows nothing of HTTP, caching or models. Whatever ``call_regex`` matches,
``parse_call_url`` accepts.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal
from urllib.parse import quote, unquote_to_bytes, urlsplit

from retrieval.errors import CALL_REJECTED, NcbiError
from retrieval.ncbi.calls import table
from retrieval.ncbi.calls.entrez_spelling import entrez_spelling
from retrieval.ncbi.calls.table import Param
from retrieval.types import Endpoint, NcbiCall

_NCBI_URL: Final = re.compile(r"https?://[a-z0-9.-]*\bncbi\.nlm\.nih\.gov(/|$)", re.IGNORECASE)
_PARTS: Final = re.compile(r"(?P<scheme>https?)://(?P<host>[^/?#]*)(?P<path>[^?#]*)(?:\?(?P<query>.*))?", re.IGNORECASE)
_BASES: Final = re.compile(rf"[ACGTUNacgtun]{{{table.MAX_BASES_IN_TERM},}}")
ALL_ENDPOINTS: Final[tuple[Endpoint, ...]] = tuple(table.CALLS)
EUTILS_ENDPOINTS: Final[tuple[Endpoint, ...]] = tuple(one for one in ALL_ENDPOINTS if not one.startswith("blast_"))
# Longer ones, as a sequence is, stand in no term.
_WHOLE_WORD: Final = re.compile(rf"(?<![A-Za-z0-9]){table.WRITTEN_WORD}(?![A-Za-z0-9])")
_MAX_SEARCHED_WORDS: Final = 40
_MAX_IN_A_ROW: Final = 8


def looks_like_call(text: str) -> bool:
    """Return whether ``text`` (without brackets and arrow) is meant as a call: a URL of an NCBI host, valid or not.

    An invalid one is still a call attempt: it must be answered with an error, or the model invents the answer.
    """
    text = text.strip()
    return len(text) <= table.MAX_URL_CHARS and "\n\n" not in text and _NCBI_URL.match(text) is not None


def parse_call_url(text: str) -> NcbiCall:
    """Check a call written by a model.

    Accepts variants of spelling: raw spaces, ``+``, ``%XX``, non-ASCII (Greek letters become their names), brackets,
    case of parameter names and fixed values, order, http for https, ``rs`` before SNP ids, ``nucleotide`` for
    ``nuccore``. Strict on host, path, database, parameter names and values. ``tool``, ``email`` and ``api_key`` are
    dropped: the client sends the operator's own.

    Raises:
        CALL_REJECTED: ``param`` names the part, the message says what to write instead.
    """
    text = " ".join(text.split())
    if len(text) > table.MAX_URL_CHARS:
        raise NcbiError(f"the call is longer than {table.MAX_URL_CHARS} characters", CALL_REJECTED, param="url")
    parts = _PARTS.fullmatch(text)
    if parts is None:
        raise NcbiError("a call is an https URL of NCBI", CALL_REJECTED, param="url")
    written = _split_query(parts["query"] or "")
    endpoint = _endpoint(parts["host"].lower(), parts["path"], written)
    params = _checked_params(endpoint, written)
    return NcbiCall(endpoint, params.get("DATABASE" if endpoint == "blast_put" else "db", ""), params)


@dataclass(frozen=True, slots=True)
class Searched:
    """Restrict what a search may be for: words in a row of ``text``, as it has them, or the ``whole`` of it.

    ``db`` is the only database, "" for any. A text of more than 40 words, or of none that a term can have, restricts no
    term.
    """

    text: str = ""
    db: str = ""
    whole: bool = False


ANYTHING: Final = Searched()


def call_regex(
    sequences: Sequence[str] = (), *, searched: Searched = ANYTHING, endpoints: Collection[Endpoint] = ALL_ENDPOINTS
) -> str:
    """Return a regular expression over the text between ``[`` and ``]->``; it starts with ``https://``, literally.

    Plain syntax only (groups, classes, bounded repeats), as grammar engines require. With ``sequences``, BLAST's QUERY
    is one of them, letter for letter. Endpoints that are not in ``endpoints`` are omitted.

    Raises:
        CALL_REJECTED: BLAST does not accept one of the sequences.
    """
    for sequence in sequences:
        _check_value(_param("blast_put", "QUERY"), sequence)
    eutils = [_eutils_regex(e, searched) for e in ALL_ENDPOINTS if e in endpoints and not e.startswith("blast_")]
    blast = [_blast_regex(e, sequences) for e in ALL_ENDPOINTS if e in endpoints and e.startswith("blast_")]
    hosts = []
    if eutils:
        hosts.append(_literal(table.EUTILS_HOST + table.EUTILS_PATH) + f"({'|'.join(eutils)})")
    if blast:
        hosts.append(_literal(table.BLAST_HOST + table.BLAST_PATHS[0]) + rf"\?({'|'.join(blast)})")
    return f"https://({'|'.join(hosts)})"


# --- reading ---------------------------------------------------------------------------------------------------------


def _endpoint(host: str, path: str, written: list[tuple[str, str]]) -> Endpoint:
    if host == table.EUTILS_HOST:
        name = path.removeprefix(table.EUTILS_PATH).removesuffix(".fcgi")
        for endpoint in ALL_ENDPOINTS:
            if endpoint == name and path == f"{table.EUTILS_PATH}{name}.fcgi" and not name.startswith("blast_"):
                return endpoint
        raise NcbiError("use esearch, esummary, efetch, elink or einfo (.fcgi)", CALL_REJECTED, param="endpoint")
    if host == table.BLAST_HOST:
        if path not in table.BLAST_PATHS:
            raise NcbiError(f"BLAST is at {table.BLAST_PATHS[0]}", CALL_REJECTED, param="endpoint")
        return _blast_endpoint(written)
    raise NcbiError(f"only {table.EUTILS_HOST} and {table.BLAST_HOST} can be called", CALL_REJECTED, param="host")


def _blast_endpoint(written: list[tuple[str, str]]) -> Endpoint:
    commands = {value.strip().lower() for name, value in written if name.upper() == "CMD"}
    if commands == {"put"}:
        return "blast_put"
    if commands == {"get"}:
        return "blast_get"
    raise NcbiError("BLAST takes CMD=Put or CMD=Get", CALL_REJECTED, param="CMD")


def _split_query(query: str) -> list[tuple[str, str]]:
    """Return decoded (name, value) pairs.

    Raises:
        CALL_REJECTED: a part has no name, as after a raw ``&`` inside a value.
    """
    pairs = []
    for part in query.split("&"):
        if not part.strip():
            continue
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise NcbiError(
                f"'{part.strip()[:40]}' is no name=value; write & inside a value as %26", CALL_REJECTED, param="url"
            )
        pairs.append((_decode(name).strip(), _decode(value)))
    return pairs


def _decode(text: str) -> str:
    try:
        return unquote_to_bytes(text.replace("+", " ")).decode("utf-8")
    except UnicodeError as error:
        raise NcbiError("percent-encoded bytes must be UTF-8", CALL_REJECTED, param="url") from error


def _checked_params(endpoint: Endpoint, written: list[tuple[str, str]]) -> dict[str, str]:
    params: dict[str, str] = {}
    for name, value in written:
        canonical = name.upper() if endpoint.startswith("blast_") else name.lower()
        if canonical.lower() in table.DROPPED or canonical == "CMD":
            continue
        value = _check_value(_param(endpoint, canonical), value)
        if canonical == "id":
            value = _normalise_ids(value, params.get("id", ""))
        elif params.get(canonical, value) != value:
            raise NcbiError(f"{canonical} is given twice", CALL_REJECTED, param=canonical)
        params[canonical] = value
    for param in table.CALLS[endpoint]:
        if param.required and param.name not in params:
            raise NcbiError(f"{param.name} is missing: {param.what}", CALL_REJECTED, param=param.name)
    if params.get("dbfrom", params.get("db")) == "snp" and "id" in params:
        params["id"] = _without_rs(params["id"])
    return _checked_form(params) if endpoint == "efetch" else params


def _checked_form(params: dict[str, str]) -> dict[str, str]:
    """Return the parameters of an efetch whose reply is read, without the spellings of "the whole record".

    Where the whole record has no form that is read, as the ASN.1 of a sequence, the first form of its database is
    asked for.

    Raises:
        CALL_REJECTED: no reader knows this form; the message has the forms of the database.
    """
    if params.get("rettype") in table.WHOLE_RETTYPES:
        whole = {"retmode": "xml"} if params["rettype"] == "xml" else {}
        params = {name: value for name, value in params.items() if name != "rettype"} | whole
    db, retmode = params["db"], params.get("retmode", "")
    forms = table.EFETCH_FORMS[db]
    if "rettype" not in params and "" not in forms:
        params = {**params, "rettype": next(iter(forms))}
    rettype = params.get("rettype", "")
    if rettype not in forms:
        names = " or ".join(f"rettype={name}" for name in forms if name)
        raise NcbiError(
            f"efetch of {db}: rettype={rettype} is not read; write {names}, or none", CALL_REJECTED, param="rettype"
        )
    if retmode not in forms[rettype]:
        names = " or ".join(f"retmode={name}" for name in forms[rettype] if name)
        of = f" with rettype={rettype}" if rettype else ""
        raise NcbiError(f"efetch of {db}{of}: write {names}, or no retmode", CALL_REJECTED, param="retmode")
    return params


def _param(endpoint: Endpoint, name: str) -> Param:
    for param in table.CALLS[endpoint]:
        if param.name == name:
            return param
    known = ", ".join(param.name for param in table.CALLS[endpoint])
    raise NcbiError(f"{endpoint} has no parameter '{name[:40]}'; it takes {known}", CALL_REJECTED, param=name[:40])


def _check_value(param: Param, value: str) -> str:
    """Return the value as it will be sent.

    Raises:
        CALL_REJECTED: the value is not permitted.
    """
    value = "".join(value.split()) if param.no_spaces else re.sub(r"[ \t]+", " ", value).strip()
    if param.choices:
        for choice in param.choices:
            if value.lower() == choice.lower():
                return table.DB_ALIASES.get(choice, choice)
        raise NcbiError(f"{param.name} must be {param.what}", CALL_REJECTED, param=param.name)
    if param.name in ("term", "ENTREZ_QUERY"):
        value = entrez_spelling(value)
    if param.name == "term" and value.count("[") == value.count("]") + 1:
        value += "]"  # `term=X[sym]->` lacks one bracket; what is meant is clear
    if param.name in ("term", "ENTREZ_QUERY") and _BASES.search(value):
        raise NcbiError(f"{param.name} holds a sequence; search it with BLAST CMD=Put", CALL_REJECTED, param=param.name)
    if re.fullmatch(param.accepts, value) is None:
        raise NcbiError(f"{param.name} must be {param.what}", CALL_REJECTED, param=param.name)
    return value


def _normalise_ids(value: str, before: str) -> str:
    ids = ([*before.split(",")] if before else []) + value.split(",")
    if len(ids) > table.MAX_IDS:
        raise NcbiError(f"id must be at most {table.MAX_IDS} ids", CALL_REJECTED, param="id")
    return ",".join(ids)


def _without_rs(ids: str) -> str:
    return re.sub(r"(^|,)rs([0-9])", r"\1\2", ids, flags=re.IGNORECASE)


# --- writing ---------------------------------------------------------------------------------------------------------


def _literal(text: str) -> str:
    return text.replace(".", r"\.").replace("+", r"\+").replace("?", r"\?")


def _fields(params: Sequence[Param]) -> str:
    """Return ``&name=value`` for each parameter, in order, optional if the parameter is; the first is required."""
    out = []
    for position, param in enumerate(params):
        field = f"{'&' if position else ''}{param.name}={param.written}"
        out.append(field if param.required else f"({field})?")
    return "".join(out)


def _term_regex(searched: Searched) -> str:
    """Return the expression of the terms that may be searched for, of ``_MAX_IN_A_ROW`` words at most; "" for any."""
    text = entrez_spelling(searched.text)
    words = [found[0].rstrip(".,:'/-") for found in _WHOLE_WORD.finditer(text)]
    if not 0 < len(words) <= _MAX_SEARCHED_WORDS:
        return ""
    if searched.whole and " ".join(words) == text:
        return table.WRITTEN_SPACE.join(map(_literal, words))
    rows = []
    for start in range(len(words)):
        row = ""
        for word in reversed(words[start : start + _MAX_IN_A_ROW]):
            row = _literal(word) + (f"({table.WRITTEN_SPACE}{row})?" if row else "")
        rows.append(row)
    return f"({'|'.join(dict.fromkeys(rows))})"


def _eutils_regex(endpoint: Endpoint, searched: Searched) -> str:
    params = [p for p in table.CALLS[endpoint] if p.written]
    if endpoint == "esearch":
        written = {"term": _term_regex(searched), "db": searched.db}
        params = [replace(p, written=written.get(p.name) or p.written) for p in params]
    start = rf"{endpoint}\.fcgi\?"
    if endpoint == "einfo":
        mode = _param("einfo", "retmode").written
        return rf"{start}(db={_param('einfo', 'db').written}(&retmode={mode})?|retmode={mode})"
    if endpoint == "efetch":
        return start + _efetch_regex()
    if not any(p.name == "id" for p in params):
        return start + _fields(params)
    # Databases differ in the format of their ids, so there is one alternative per format.
    by_ids: dict[str, list[str]] = {}
    for db, ids in table.DATABASES.items():
        by_ids.setdefault(ids, []).append(db)
    source = "dbfrom" if endpoint == "elink" else "db"
    return start + "(" + "|".join(_fields(_with_ids(params, source, dbs, ids)) for ids, dbs in by_ids.items()) + ")"


def _efetch_regex() -> str:
    """Return one alternative for each format of ids, within it one for each set of databases with the same forms."""
    retmax = f"(&retmax={_param('efetch', 'retmax').written})?"
    dbs_of: dict[str, dict[str, list[str]]] = {}
    for db, ids in table.DATABASES.items():
        dbs_of.setdefault(ids, {}).setdefault(_form_regex(db), []).append(db)
    alternatives = []
    for ids, of_ids in dbs_of.items():
        choices = "|".join(f"db=({'|'.join(dbs)}){retmax}{form}" for form, dbs in of_ids.items())
        alternatives.append(f"({choices})&id={ids}")
    return f"({'|'.join(alternatives)})"


def _form_regex(db: str) -> str:
    """Return ``&retmode=…&rettype=…`` for the forms of a database that the grammar writes."""
    rettypes_of: dict[tuple[str, ...], list[str]] = {}
    forms = {name: modes for name, modes in table.EFETCH_FORMS[db].items() if name in table.WRITTEN_RETTYPES}
    for name, modes in forms.items():
        rettypes_of.setdefault(modes if name else (), []).append(name)
    alternatives = [
        f"{_modes_regex(modes)}&rettype=({'|'.join(names)})" for modes, names in rettypes_of.items() if modes
    ]
    if "" in forms:
        alternatives.append(_modes_regex(forms[""]))
    return f"({'|'.join(alternatives)})"


def _modes_regex(modes: Sequence[str]) -> str:
    return f"(&retmode=({'|'.join(filter(None, modes))}))?"


def _with_ids(params: Sequence[Param], source: str, dbs: Sequence[str], ids: str) -> list[Param]:
    written = {source: f"({'|'.join(dbs)})", "id": ids}
    return [
        Param(name=p.name, accepts="", what="", written=written.get(p.name, p.written), required=p.required)
        for p in params
    ]


def _blast_regex(endpoint: Endpoint, sequences: Sequence[str]) -> str:
    params = [p for p in table.CALLS[endpoint] if p.written]
    if endpoint == "blast_get":
        return "CMD=Get(&FORMAT_TYPE=(XML|Text))?&RID=" + _param("blast_get", "RID").written
    if sequences:
        choice = f"({'|'.join(dict.fromkeys(sequences))})"
        params = [
            Param(name=p.name, accepts="", what="", written=choice if p.name == "QUERY" else p.written,
                  required=p.required)
            for p in params
        ]  # fmt: skip
    return "CMD=Put&" + _fields(params)


# Well below the 414 that NCBI gives somewhere above 2,500 characters of ids.
MAX_GET_CHARS: Final = 1500
# Punctuation that NCBI takes unescaped and that is easier to read unescaped.
_SAFE: Final = ",:*/()'[]"
_JSON_BY_DEFAULT: Final = frozenset({"esearch", "esummary", "elink", "einfo"})


@dataclass(frozen=True, slots=True, kw_only=True)
class NcbiSite:
    """Define the destination of calls and the identity of the caller.

    ``eutils_url`` is the folder of ``esearch.fcgi``. E-mail and key are excluded from repr.
    """

    eutils_url: str = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils"
    blast_url: str = "https://blast.ncbi.nlm.nih.gov/blast/Blast.cgi"
    tool: str = "arrowhead"
    email: str = field(default="", repr=False)
    api_key: str = field(default="", repr=False)

    def base_of(self, call: NcbiCall) -> str:
        """Return the URL without parameters."""
        if call.endpoint in ("blast_put", "blast_get"):
            return self.blast_url
        return f"{self.eutils_url.rstrip('/')}/{call.endpoint}.fcgi"


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """Hold one request, ready to send; ``body`` is empty for GET.

    It contains the key: display ``public_url`` instead. ``bearer`` is sent as a bearer token, "" for none.
    """

    method: Literal["GET", "POST"]
    url: str = field(repr=False)
    body: bytes = field(default=b"", repr=False)
    content_type: str = "application/x-www-form-urlencoded"
    bearer: str = field(default="", repr=False)


def build_request(call: NcbiCall, site: NcbiSite) -> OutgoingRequest:
    params = sent_params(call)
    params.update({name: value for name, value in (("tool", site.tool), ("email", site.email)) if value})
    if site.api_key and call.endpoint not in ("blast_put", "blast_get"):
        params["api_key"] = site.api_key
    base, encoded = site.base_of(call), _encode(params)
    if len(base) + len(encoded) > MAX_GET_CHARS:
        return OutgoingRequest("POST", base, encoded.encode("ascii"))
    return OutgoingRequest("GET", f"{base}?{encoded}")


def public_url(call: NcbiCall, site: NcbiSite) -> str:
    """Return the URL without tool, e-mail and key: for traces, never for logs (it contains the question)."""
    return f"{site.base_of(call)}?{_encode(sent_params(call))}"


def cache_key(call: NcbiCall, site: NcbiSite) -> str:
    """Return a key that is equal for calls with the same reply.

    Parameter order, identity and the default ``retmode`` do not count. Case of terms and order of ids do, because
    NCBI's reply follows them.
    """
    parts = [site.base_of(call), sorted(sent_params(call).items())]
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).hexdigest()


def sent_params(call: NcbiCall) -> dict[str, str]:
    """Return the parameters without identity, in the order of the call."""
    if call.endpoint in ("blast_put", "blast_get"):
        return {"CMD": "Put" if call.endpoint == "blast_put" else "Get", **call.params}
    params = dict(call.params)
    if call.endpoint in _JSON_BY_DEFAULT:
        params.setdefault("retmode", "json")
    return params


def is_loopback_url(url: str) -> bool:
    """Return whether the host is this machine by its name alone, without a DNS lookup."""
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _encode(params: dict[str, str]) -> str:
    return "&".join(f"{quote(n, safe='')}={quote(v, safe=_SAFE + ' ').replace(' ', '+')}" for n, v in params.items())
