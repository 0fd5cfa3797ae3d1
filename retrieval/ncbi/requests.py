"""Build requests from checked calls: the parameters sent, the cache key and the URL for display.

Pure. Requests are rebuilt from the call's parts, never copied as written. Knows nothing of sockets or retries.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import quote, urlsplit

from retrieval.types import NcbiCall

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

    It contains the key: display ``public_url`` instead.
    """

    method: Literal["GET", "POST"]
    url: str = field(repr=False)
    body: bytes = field(default=b"", repr=False)
    content_type: str = "application/x-www-form-urlencoded"


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
