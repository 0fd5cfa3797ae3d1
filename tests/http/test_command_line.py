"""The command as a user runs it: transcript, trace, remote server, built-in gateway, exit statuses."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import openai
import pytest
from command_line import arrowhead, arrowhead_process

QUESTION = "What is the official gene symbol of LMP10?"
EUTILS = "https://eutils.ncbi.nlm.nih.gov/entrez/eutils"
TRANSCRIPT = (
    f"> {QUESTION}\n"
    f"  [{EUTILS}/esearch.fcgi?db=gene&…&term=LMP10]-> 1 id\n"
    f"  [{EUTILS}/esummary.fcgi?db=gene&…&id=5699]-> 1 record\n"
    "PSMB10 [1]\n"
)
pytestmark = pytest.mark.server


def test_ask_prints_the_transcript(environment: dict[str, str]) -> None:
    """Question, one line a call, the bare answer; nothing else on stdout."""
    done = arrowhead_process(environment, "ask", QUESTION)

    assert (done.returncode, done.stdout) == (0, TRANSCRIPT)


def test_ask_json_prints_the_trace(environment: dict[str, str]) -> None:
    """With the spans, and options by key=value."""
    done = arrowhead(environment, "ask", QUESTION, "--json", "-o", "max_calls=3", "-o", "mask=000000")
    trace = json.loads(done.stdout)

    assert (trace["answer"], trace["options"]) == ("PSMB10", {"max_calls": 3, "mask": "000000"})
    assert [span["kind"] for span in trace["spans"]][:2] == ["sampled", "injected"]


def test_ask_at_a_running_server(environment: dict[str, str], running: Any) -> None:
    """The same transcript from --url, with and without /v1."""
    for url in (running.url, f"{running.url}/v1"):
        done = arrowhead({"HOME": environment["HOME"]}, "ask", QUESTION, "--url", url)
        assert (done.returncode, done.stdout) == (0, TRANSCRIPT)


def test_a_replay_answers_from_the_record_and_looks_nothing_up(environment: dict[str, str], tmp_path: Path) -> None:
    """With NCBI out of reach the answer is equal; with another record, what differs is told."""
    trace = json.loads(arrowhead(environment, "ask", QUESTION, "--json").stdout)
    (tmp_path / "trace.json").write_text(json.dumps(trace))
    cut_off = environment | {"ARROWHEAD_NCBI__EUTILS_URL": "http://127.0.0.1:9"}
    equal = arrowhead(cut_off, "replay", str(tmp_path / "trace.json"))
    assert (equal.returncode, equal.stdout.splitlines()[1:]) == (
        0,
        ["calls: equal", "evidence: equal", "answer: equal", "outcome: equal"],
    ), equal.stderr

    other = zlib.decompress(base64.b64decode(trace["evidence"])).decode().replace("PSMB10", "PSMB9")
    trace["evidence"] = base64.b64encode(zlib.compress(other.encode())).decode()
    (tmp_path / "trace.json").write_text(json.dumps(trace))
    differs = arrowhead(cut_off, "replay", str(tmp_path / "trace.json"), "--json")
    told = json.loads(differs.stdout)
    assert (differs.returncode, told["equal"], told["unrecorded"]) == (1, False, [])
    assert any("PSMB10" in line for line in told["differs"]["evidence"]["gone"])


def test_a_replay_of_an_answer_of_a_running_server(
    environment: dict[str, str], running: Any, client: openai.OpenAI
) -> None:
    messages: Any = [{"role": "user", "content": QUESTION}]
    done = client.chat.completions.create(model="scripted:genegpt", messages=messages)
    equal = arrowhead(environment, "replay", done.id, "--url", running.url)
    assert equal.returncode == 0, equal.stdout + equal.stderr
    missing = arrowhead(environment, "replay", "nothing")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "cannot be replayed" in missing.stderr and "lists the flags" not in missing.stderr


def test_ask_shows_control_characters_of_an_answer_escaped(environment: dict[str, str], tmp_path: Path) -> None:
    """A terminal must not obey what a model read somewhere; the JSON has the text as it is."""
    hostile = "PSMB10 \x1b]0;owned\x07\x9b2J\u202e."
    (tmp_path / "script.json").write_text(json.dumps([{"regex": "(?s).", "text": f"Answer: {hostile}\n\n"}]))
    own = environment | {"ARROWHEAD_MODEL__SCRIPT": str(tmp_path / "script.json")}
    shown, as_json = arrowhead(own, "ask", QUESTION), arrowhead(own, "ask", QUESTION, "--json")

    for done in (shown, as_json):
        assert done.returncode == 0
        assert not [sign for sign in done.stdout + done.stderr if sign in hostile and not sign.isprintable()]
    assert r"\x1b]0;owned\x07\x9b2J\u202e." in shown.stdout
    assert json.loads(as_json.stdout)["answer"] == hostile


def test_ask_uses_the_built_in_gateway_by_default(environment: dict[str, str], tmp_path: Path) -> None:
    """No address set and egress off: calls are answered in this process from the sample of facts."""
    script = [
        {
            "suffix": f"Question: {QUESTION}\n",
            "text": f"[{EUTILS}/esearch.fcgi?db=gene&retmax=20&sort=relevance&term=LMP10]->",
        },
        {"regex": r"\[3 ids: 5699[\d,]*\]\n$", "text": f"[{EUTILS}/esummary.fcgi?db=gene&id=5699]->"},
        {"regex": r"PSMB10 \(human\)[^\[]*\]\n$", "text": "Answer: PSMB10\n\n"},
    ]
    (tmp_path / "script.json").write_text(json.dumps(script))
    own = {name: value for name, value in environment.items() if "NCBI" not in name}
    own |= {"ARROWHEAD_MODEL__SCRIPT": str(tmp_path / "script.json"), "ARROWHEAD_GATEWAY__DATA_DIR": str(tmp_path)}
    done = arrowhead(own, "ask", QUESTION, "--json")
    trace = json.loads(done.stdout)

    assert trace["answer"] == "PSMB10"
    assert {call["record"]["url"].split("/")[2] for call in trace["calls"]} == {"gateway.invalid"}


@pytest.mark.parametrize(
    ("variables", "arguments", "status", "said"),
    [
        ({"ARROWHEAD_SERVER__PORT": "http"}, ["serve"], 2, "ARROWHEAD_SERVER__PORT (server.port)"),
        ({}, ["serve", "--port", "-1"], 2, "ARROWHEAD_SERVER__PORT (server.port)"),
        ({}, ["serve", "--egress", "ncbi", "--eutils-url", "https://example.org"], 2, "ARROWHEAD_NCBI__EMAIL"),
        ({}, ["serve", "--eutils-url", "https://example.org"], 2, "egress.mode is off"),
        ({}, ["ask", "x", "-o", "colour=1"], 1, "arrowhead.colour"),
        ({}, ["ask", "x", "-o", "colour"], 2, "--option colour"),
        ({}, ["ask", "x", "--url", "http://127.0.0.1:9"], 1, "http://127.0.0.1:9/v1/models"),
        ({"ARROWHEAD_MODEL__SCRIPT": "/nonexistent.json"}, ["ask", "x"], 1, "/nonexistent.json"),
        ({}, ["gateway", "serve", "--host", "0.0.0.0"], 1, "0.0.0.0"),
        ({}, ["audit", "verify", "/nonexistent/audit.jsonl"], 1, "/nonexistent/audit.jsonl"),
        ({}, ["audit", "show", "--since", "once"], 2, "--since once"),
        ({}, ["gateway", "import", "gene_info"], 2, "no FILE"),
        ({}, ["gateway", "import", "clinvar", "x.txt", "--tax-id", "9606"], 2, "--tax-id"),
        ({}, ["gateway", "import", "auto", "/nonexistent.gz"], 2, "/nonexistent.gz"),
        ({}, ["fly"], 2, "invalid choice"),
    ],
)
def test_a_mistake_is_one_clear_line(
    environment: dict[str, str], variables: dict[str, str], arguments: list[str], status: int, said: str
) -> None:
    """Exit status 2 for the command and settings, 1 for the rest; never a traceback."""
    done = arrowhead(environment | variables, *arguments)

    assert done.returncode == status, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"ARROWHEAD_MODEL__SCRIPT": "/nonexistent.json"}, "could not be loaded"),
        ({"ARROWHEAD_AUDIT__PATH": "/dev/null/audit.jsonl"}, "/dev/null/audit.jsonl"),
    ],
)
def test_a_server_that_cannot_start_ends_with_one_clear_line(
    environment: dict[str, str], variables: dict[str, str], said: str
) -> None:
    quick = {"ARROWHEAD_GATEWAY__HUMAN_GENES": "false"}
    done = arrowhead_process(environment | quick | variables, "serve", "--port", "0")

    assert done.returncode == 1, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_models_lists_what_can_be_asked_for(environment: dict[str, str]) -> None:
    """The model and its methods, one a line."""
    done = arrowhead(environment, "models")

    names = ("", ":genegpt", ":kg-rag", ":medrag", ":i-medrag", ":clinfo", ":weiseeule")
    assert [line.split("\t")[0] for line in done.stdout.splitlines()] == [f"scripted{name}" for name in names]


def test_doctor_reports_every_check(environment: dict[str, str]) -> None:
    """One line a check; what is missing but not needed is a warning, not a failure."""
    done = arrowhead(environment, "doctor")
    found = {line.split()[1]: line.split()[0] for line in done.stdout.splitlines()}

    assert set(found) == {
        "python", "packages", "cuda", "vllm", "model", "encoders", "indices", "namespaces", "blast", "gateway", "disk",
        "port", "egress", "keys", "audit",
    }  # fmt: skip
    needed = ("python", "model", "encoders", "indices", "namespaces", "egress", "keys", "audit")
    assert {found[name] for name in needed} == {"ok"}
    assert done.returncode == (1 if "fail" in found.values() else 0)
