"""A loopback GROBID that answers TEI for a PDF, or is busy, slow, broken or full of nonsense."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

TEI: Final = """<?xml version="1.0" encoding="UTF-8"?>
<TEI xmlns="http://www.tei-c.org/ns/1.0" xmlns:xlink="http://www.w3.org/1999/xlink">
<teiHeader><fileDesc><sourceDesc><biblStruct><analytic><title>The file itself</title></analytic><monogr/></biblStruct>
</sourceDesc></fileDesc></teiHeader><text><front/><body/><back><div type="references"><listBibl>
<biblStruct xml:id="b0"><analytic><title level="a" type="main">Protamine and
 heparin</title><author><persName><forename type="first">Ada</forename><forename type="middle">B</forename>
<surname>Quoll</surname></persName></author><author><persName><surname>Numbat</surname></persName></author>
<idno type="DOI">10.1000/x.1</idno><idno type="PMID">30446595</idno></analytic><monogr>
<title level="j">Neurology</title>
<imprint><biblScope unit="volume">91</biblScope><date type="published" when="2018-11-16">2018</date></imprint></monogr>
<note type="raw_reference">Quoll AB, Numbat. Protamine and heparin. Neurology 91 (2018).</note></biblStruct>
<biblStruct xml:id="b1"><monogr><title level="m">A book of wombats</title><author><persName><surname>Bilby</surname>
</persName></author><imprint><date>c. 1999</date></imprint></monogr></biblStruct>
<biblStruct xml:id="b2"><analytic/><monogr><title/></monogr></biblStruct>
</listBibl></div></back></text></TEI>"""


class GrobidServer(ThreadingHTTPServer):
    """``answers``: (status, body) in turn, the last for ever. ``asked`` has the path and the body of each request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[tuple[int, str]] = [(200, TEI)]
        self.asked: list[tuple[str, str, bytes]] = []
        self.ended = threading.Event()
        self.is_slow = False
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: GrobidServer

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.path, self.headers["Content-Type"], body))
        if self.server.is_slow:
            self.server.ended.wait(30)
        answers = self.server.answers
        status, text = answers.pop(0) if len(answers) > 1 else answers[0]
        with suppress(OSError):
            self.send_response(status)
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())


@contextmanager
def serve_grobid() -> Iterator[GrobidServer]:
    server = GrobidServer()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.ended.set()
        server.shutdown()
        server.server_close()
