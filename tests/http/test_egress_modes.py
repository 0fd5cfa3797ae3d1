"""What leaves a running server, and who says so: the mode of server, key and request, the record, /ready, the log."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import openai
import pytest
from command_line import arrowhead

from server.types import key_id

EUTILS = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils"
# Looked up as this machine, by the test run's network block; for the server it is another one.
HOST = "ncbi.example"
FIRST, SECOND = "first-key-0", "second-key-0"
SCRIPT = [
    {"suffix": "Question: known\n", "text": f"[{EUTILS}/esearch.fcgi?db=gene&term=LMP10]->"},
    {"suffix": "Question: unknown\n", "text": f"[{EUTILS}/esearch.fcgi?db=pubmed&term=MECL1]->"},
    {"suffix": "Question: unheard of\n", "text": f"[{EUTILS}/esearch.fcgi?db=gene&term=NOWHERE1]->"},
    {"suffix": "Question: prose\n", "text": f"[{EUTILS}/esearch.fcgi?db=gene&term=my+patient+coughs]->"},
    {"regex": r"Question: (What is|Her telephone is) (rs)?1555239700\?\n$",
     "text": f"[{EUTILS}/esummary.fcgi?db=snp&id=1555239700]->"},
    {"regex": r"\[1 snp record[^\]]*\]\n$", "text": "Answer: read\n\n"},
    {"regex": r"\[2 ids: 1,2\]\n$", "text": "Answer: found outside\n\n"},
    {"regex": r"\[\d ids?: [\d,]*5699[\d,]*\]\n$", "text": "Answer: found here\n\n"},
    {"regex": r"\[0 records[^\]]*\]\n$", "text": "Answer: nothing\n\n"},
    {"regex": r"\[0 ids\]\n$", "text": "Answer: not found\n\n"},
    {"regex": r"\[error: [^\]]*\]\n$", "text": "Answer: no\n\n"},
]  # fmt: skip
NOTHING = "no data left this machine"


@dataclass(frozen=True)
class Site:
    server: Any
    log: Path

    def ask(self, question: str, key: str = FIRST, **options: str) -> tuple[str, str, dict[str, Any]]:
        """The answer, the sentence of the response, the egress object of the trace's one call."""
        with self.server.client(key) as client:
            done = client.chat.completions.create(
                model="scripted:genegpt",
                messages=[{"role": "user", "content": question}],
                extra_body={"arrowhead": options} if options else {},
            )
            trace: Any = client.get(f"/traces/{done.id}", cast_to=object)
        said = done.choices[0].message.model_extra["arrowhead"]["egress"]
        (choice,) = trace["choices"]
        assert choice["egress"] == said
        return str(done.choices[0].message.content), said, choice["calls"][0]["record"]["egress"]

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@pytest.fixture(scope="module")
def site(
    ncbi: str, serve_with: Callable[..., AbstractContextManager[Any]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """Mode local-first for the first key, off for the second; NCBI is another machine."""
    folder = tmp_path_factory.mktemp("egress")
    (folder / "script.json").write_text(json.dumps(SCRIPT))
    address = ncbi.replace("127.0.0.1", HOST)
    settings = {
        "NETWORK_BLOCK_HOSTS": HOST,
        "XDG_CACHE_HOME": str(folder),
        "ARROWHEAD_MODEL__SCRIPT": str(folder / "script.json"),
        "ARROWHEAD_GATEWAY__DATA_DIR": str(folder / "gateway"),
        "ARROWHEAD_NCBI__EUTILS_URL": address,
        "ARROWHEAD_NCBI__BLAST_URL": address,
        "ARROWHEAD_NCBI__EMAIL": "someone@example.org",
        "ARROWHEAD_EGRESS__MODE": "local-first",
        "ARROWHEAD_EGRESS__KEY_MODES": f"{key_id(SECOND)}=off",
        "ARROWHEAD_SERVER__API_KEYS": f"{FIRST},{SECOND}",
        "ARROWHEAD_AUDIT__PATH": str(folder / "audit.jsonl"),
    }
    with serve_with(settings) as server:
        yield Site(server, folder / "audit.jsonl")


def test_what_the_gateway_knows_stays(site: Site) -> None:
    """The answer says so, in words and in the record of its call."""
    answer, said, egress = site.ask("known")

    assert (answer, said) == ("found here", NOTHING)
    assert egress == {"mode": "local-first", "went_to": "gateway", "classes": ["symbol"], "left": False,
                      "withheld": [], "note": ""}  # fmt: skip


def _ready(site: Site, key: str) -> Any:
    asked = urllib.request.Request(f"{site.server.url}/ready", headers={"Authorization": f"Bearer {key}"})
    with urllib.request.urlopen(asked, timeout=120) as reply:
        return json.load(reply)


def test_what_the_gateway_lacks_goes_out(site: Site) -> None:
    """The answer, its trace, the key's /ready and the audit log name host and class; another key sees its own."""
    answer, said, egress = site.ask("unknown")
    ready, others = (_ready(site, key) for key in (FIRST, SECOND))

    assert (answer, said) == ("found outside", f"left this machine: symbol to {HOST}")
    assert (egress["went_to"], egress["left"], egress["classes"]) == (HOST, True, ["symbol"])
    assert (ready["egress"], ready["egress_profile"]) == ("local-first", "hospital")
    assert ready["egress_allows"] == ["id", "symbol", "term"] and f"symbol to {HOST}" in ready["left"]
    assert (others["egress"], others["left"]) == ("off", NOTHING)
    sent = [line for line in site.lines() if line["event"] == "send"]
    assert {(line["key_id"], line["where"]) for line in sent} == {(key_id(FIRST), HOST)}
    assert "MECL1" not in site.log.read_text()


def test_free_text_is_withheld(site: Site) -> None:
    """The gateway's empty answer stays, and the reader is told why."""
    answer, said, egress = site.ask("prose")

    assert answer.startswith("not found")
    assert said == f"{NOTHING}; withheld: free_text"
    assert (egress["left"], egress["withheld"]) == (False, ["free_text"])
    assert [line["where"] for line in site.lines() if line["event"] == "withheld"] == [HOST]


@pytest.mark.parametrize(
    ("question", "left"), [("What is rs1555239700?", True), ("Her telephone is 1555239700?", False)]
)
def test_a_number_leaves_only_as_the_identifier_that_it_is(site: Site, question: str, left: bool) -> None:
    """The model writes the same call; in one question the number names a variant, in the other a telephone."""
    _, said, egress = site.ask(question)

    assert said == (f"left this machine: id to {HOST}" if left else f"{NOTHING}; withheld: id")
    assert (egress["left"], egress["withheld"]) == (left, [] if left else ["id"])
    assert "1555239700" not in site.log.read_text()


@pytest.mark.parametrize(("key", "options"), [(FIRST, {"egress": "off"}), (SECOND, {}), (SECOND, {"egress": "off"})])
def test_a_request_or_its_key_can_lower_the_mode(site: Site, key: str, options: dict[str, str]) -> None:
    """Then the gateway alone is asked."""
    answer, said, egress = site.ask("unheard of", key, **options)

    assert answer.startswith("not found")
    assert said == NOTHING
    assert (egress["mode"], egress["went_to"], egress["withheld"]) == ("off", "gateway", [])


@pytest.mark.parametrize(("key", "asked"), [(FIRST, "ncbi"), (SECOND, "local-first"), (SECOND, "ncbi")])
@pytest.mark.parametrize("stream", [False, True])
def test_a_request_cannot_raise_it(site: Site, key: str, asked: str, stream: bool) -> None:
    """403 before anything is written, with the field; the audit log has the try."""
    with site.server.client(key) as client, pytest.raises(openai.PermissionDeniedError) as refused:
        client.chat.completions.create(
            model="scripted:genegpt",
            messages=[{"role": "user", "content": "unknown"}],
            stream=stream,
            extra_body={"arrowhead": {"egress": asked}},
        )

    assert (refused.value.param, refused.value.code) == ("arrowhead.egress", "egress_not_allowed")
    assert asked in refused.value.message


def test_a_wrong_mode_is_named(site: Site) -> None:
    """422, like every wrong option."""
    with site.server.client(FIRST) as client, pytest.raises(openai.UnprocessableEntityError) as refused:
        client.chat.completions.create(
            model="scripted:genegpt",
            messages=[{"role": "user", "content": "unknown"}],
            extra_body={"arrowhead": {"egress": "on"}},
        )

    assert (refused.value.param, refused.value.code) == ("arrowhead.egress", "invalid_option")


def test_streams_and_completions_say_it_too(site: Site) -> None:
    """In the last chunk; in the choice."""
    with site.server.client(FIRST) as client:
        chunks = list(
            client.chat.completions.create(
                model="scripted:genegpt", messages=[{"role": "user", "content": "known"}], stream=True
            )
        )
        plain = client.completions.create(model="scripted:genegpt", prompt="known")

    last = chunks[-1].choices[0].delta.model_extra or {}
    assert last["arrowhead"]["egress"] == NOTHING
    assert (plain.choices[0].model_extra or {})["arrowhead"]["egress"] == NOTHING


def test_the_start_says_what_may_leave_and_names_the_keys(site: Site) -> None:
    """On stderr by their ids, and as the first event of the audit log; the keys themselves nowhere."""
    said = site.server.log()
    start = next(line for line in site.lines() if line["event"] == "start")

    assert "egress local-first" in said and "may leave (hospital): id, symbol, term" in said
    assert f"keys: {key_id(FIRST)} local-first, {key_id(SECOND)} off" in said
    assert start["detail"]["keys"] == {key_id(FIRST): "local-first", key_id(SECOND): "off"}
    assert FIRST not in said + site.log.read_text() and SECOND not in said + site.log.read_text()


def test_the_log_is_whole_while_the_server_writes(site: Site) -> None:
    """By the command; refused requests are in it."""
    site.ask("unheard of", FIRST)
    done = arrowhead({}, "audit", "verify", str(site.log))

    assert done.returncode == 0 and done.stdout.startswith("whole: "), done.stdout + done.stderr


def test_the_network_block_sees_the_servers_way_out(
    serve_with: Callable[..., AbstractContextManager[Any]], tmp_path: Path
) -> None:
    """With egress on and no host to stand for NCBI, the look-up is blocked and noted: its silence elsewhere counts."""
    (tmp_path / "script.json").write_text(json.dumps(SCRIPT))
    own = {
        "NETWORK_BLOCK_LOG": str(tmp_path / "attempts"),
        "XDG_CACHE_HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path),
        "ARROWHEAD_MODEL__SCRIPT": str(tmp_path / "script.json"),
        "ARROWHEAD_NCBI__EUTILS_URL": "https://eutils.ncbi.nlm.nih.gov",
        "ARROWHEAD_NCBI__BLAST_URL": "https://blast.ncbi.nlm.nih.gov",
        "ARROWHEAD_NCBI__EMAIL": "someone@example.org",
        "ARROWHEAD_GATEWAY__DATA_DIR": str(tmp_path / "gateway"),
        "ARROWHEAD_EGRESS__MODE": "ncbi",
    }
    with serve_with(own) as server:
        answer, said, egress = Site(server, tmp_path).ask("unknown", "none")
        assert not (tmp_path / "gateway").exists()
        lowered = Site(server, tmp_path).ask("known", "none", egress="off")

    assert answer.startswith("no\n\n(The look-up failed (error: NCBI cannot be reached)")
    assert said == "left this machine: symbol to eutils.ncbi.nlm.nih.gov"
    assert egress["left"] is True
    assert "eutils.ncbi.nlm.nih.gov" in (tmp_path / "attempts").read_text()
    assert lowered[:2] == ("found here", NOTHING)
    log = (tmp_path / "arrowhead" / "audit.jsonl").read_text().splitlines()
    events = [json.loads(line)["event"] for line in log]
    assert events == ["open", "start", "send", "reply", "stop"]
