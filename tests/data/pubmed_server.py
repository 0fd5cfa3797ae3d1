"""A loopback PubMed of a few articles, for servers under test."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ncbi_files import pubmed_record, pubmed_set


class Pubmed(ThreadingHTTPServer):
    """``found``: the PMIDs of any term, the newest first."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.found = ["101", "102", "103"]
        self.ended = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    """SLOW is found when the test has ended, DOWN never."""

    server: Pubmed

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        if query.get("term") == "SLOW":
            self.server.ended.wait(60)
        if "efetch" in self.path:
            body = pubmed_set(*(pubmed_record(pmid, title=f"On quoll {pmid}.") for pmid in query["id"].split(",")))
        else:
            ids = self.server.found[: int(query["retmax"])]
            found = {"count": str(len(self.server.found)), "retmax": "9999", "retstart": "0", "idlist": ids}
            body = json.dumps({"header": {"type": "esearch", "version": "0.3"}, "esearchresult": found})
        with suppress(OSError):  # a client that was cancelled has gone
            self.send_response(503 if query.get("term") == "DOWN" else 200)
            self.send_header("Content-Length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())


@contextmanager
def serve_pubmed() -> Iterator[Pubmed]:
    server = Pubmed()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.ended.set()
        server.shutdown()
        server.server_close()
