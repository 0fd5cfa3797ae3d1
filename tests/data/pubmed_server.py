"""A loopback PubMed and PMC of a few articles, for servers under test."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from corpus_files import jats
from ncbi_files import pubmed_record, pubmed_set

_NO_REVIEWS: Final = "NOT review[Publication Type]"
_REVIEW: Final = '<PublicationTypeList><PublicationType UI="D016454">Review</PublicationType></PublicationTypeList>'
_SECTIONS: Final = (
    "<sec><title>Methods</title><p>Quolls were counted.</p></sec><sec><title>Results</title><p>They thrive.</p></sec>"
)


class Pubmed(ThreadingHTTPServer):
    """A PubMed whose every term finds the same articles.

    ``found``: their PMIDs, the newest first; ``reviews`` are left out of a term that excludes reviews; ``free`` have a
    full text in PMC. ``held_after``: so many replies with records are sent, further ones when ``going`` is set.
    ``calls`` has the endpoint and the parameters of each request.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.found = ["101", "102", "103"]
        self.reviews: set[str] = set()
        self.free: set[str] = set()
        self.held_after = 10**6
        self.going = threading.Event()
        self.ended = threading.Event()
        self.calls: list[tuple[str, dict[str, str]]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"

    def records_sent(self) -> list[str]:
        """The PMIDs that were asked for, in their order."""
        return [
            pmid
            for endpoint, query in self.calls
            if endpoint == "efetch" and query["db"] == "pubmed"
            for pmid in query["id"].split(",")
        ]


class _Handler(BaseHTTPRequestHandler):
    """SLOW is found when the test has ended, DOWN never."""

    server: Pubmed

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode())

    def do_GET(self) -> None:
        self._answer(urlsplit(self.path).query)

    def _answer(self, fields: str) -> None:
        query = {name: values[0] for name, values in parse_qs(fields).items()}
        endpoint = urlsplit(self.path).path.rsplit("/", 1)[-1].removesuffix(".fcgi")
        self.server.calls.append((endpoint, query))
        if query.get("term") == "SLOW":
            self.server.ended.wait(60)
        body = {"efetch": self._records, "elink": self._links}.get(endpoint, self._search)(query).encode()
        with suppress(OSError):  # a client that was cancelled has gone
            self.send_response(503 if query.get("term") == "DOWN" else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def _search(self, query: dict[str, str]) -> str:
        left_out = self.server.reviews if _NO_REVIEWS in query["term"] else set()
        pmids = [pmid for pmid in self.server.found if pmid not in left_out]
        ids = pmids[: int(query["retmax"])] if query.get("datetype") != "mdat" else []
        count = len(pmids) if query.get("datetype") != "mdat" else 0
        found = {"count": str(count), "retmax": "9999", "retstart": "0", "idlist": ids}
        return json.dumps({"header": {"type": "esearch", "version": "0.3"}, "esearchresult": found})

    def _records(self, query: dict[str, str]) -> str:
        ids = query["id"].split(",")
        if query["db"] == "pmc":
            return f"<pmc-articleset>{''.join(jats(int(pmcid), _SECTIONS) for pmcid in ids)}</pmc-articleset>"
        if sum(endpoint == "efetch" for endpoint, _ in self.server.calls) > self.server.held_after:
            self.server.going.wait(60)
        return pubmed_set(
            *(
                pubmed_record(pmid, _REVIEW if pmid in self.server.reviews else "", title=f"On quoll {pmid}.")
                for pmid in ids
            )
        )

    def _links(self, query: dict[str, str]) -> str:
        """PMC's number is the PMID's with 9 in front."""
        ids = query["id"].split(",")
        links = [f"9{pmid}" for pmid in ids if pmid in self.server.free]
        sets = [{"dbto": "pmc", "linkname": "pubmed_pmc", "links": links}] if links else []
        return json.dumps({"linksets": [{"dbfrom": "pubmed", "ids": ids, "linksetdbs": sets}]})


@contextmanager
def serve_pubmed() -> Iterator[Pubmed]:
    server = Pubmed()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.going.set()
        server.ended.set()
        server.shutdown()
        server.server_close()
