"""``arrowhead review`` against a running server: the first run tells all, the next only what is new."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import arrowhead

QUESTION = "Is lasmiditan effective for migraine attacks?"
pytestmark = [pytest.mark.server, pytest.mark.weights]


class Reader:
    """Somebody with a home of their own at the command line."""

    def __init__(self, home: Path) -> None:
        self._environment = {"HOME": str(home)}
        self.folder = home / ".local" / "share" / "arrowhead" / "reviews"

    def run(self, *words: str) -> tuple[int, str, str]:
        done = arrowhead(self._environment, "review", *words)
        return done.returncode, done.stdout, done.stderr


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(tmp_path)


@pytest.fixture(scope="module")
def gateway(host_with: Any) -> Iterator[Any]:
    """A server whose gateway is the built-in one with its sample."""
    shipped = (
        "ARROWHEAD_NCBI__EUTILS_URL",
        "ARROWHEAD_NCBI__BLAST_URL",
        "ARROWHEAD_RETRIEVAL__ENCODER",
        "ARROWHEAD_VERIFIER__MODEL",
    )
    with host_with(dict.fromkeys(shipped)) as server:
        yield server


def test_a_second_run_tells_nothing_that_the_first_one_told(reader: Reader, gateway: Any) -> None:
    status, _, err = reader.run(
        "save", "mig", QUESTION, "-o", "synthesis=extractive", "-o", 'sources=["gateway"]', "-o", "sentences=2"
    )
    assert status == 0, err
    status, first, err = reader.run("run", "mig", "--url", gateway.url)
    assert status == 0, err
    assert "at the first run" in first
    assert "30446595" in first
    status, second, _ = reader.run("run", "mig", "--url", gateway.url)
    assert status == 0
    assert "No new articles since" in second
    assert "30446595" not in second
    path = reader.folder / "mig.json"
    told = json.loads(path.read_text())
    told["known"].pop("30446595")
    path.write_text(json.dumps(told))
    status, third, _ = reader.run("run", "mig", "--url", gateway.url, "--json")
    assert [one["uid"] for one in json.loads(third)["new"]] == ["30446595"]
    status, listed, _ = reader.run("list")
    assert "3 runs" in listed and QUESTION in listed
    status, same, err = reader.run("diff", "mig", "--json")
    assert status == 0, err
    told = json.loads(same)
    assert (told["before"]["run"], told["after"]["run"]) == (2, 3)
    assert (told["new"], told["gone"], told["changed"]) == ([], [], [])
    assert told["same"] > 0
    kept = json.loads(path.read_text())
    rows = kept["stored"][1]["details"]["evidence_table"]
    rows[:] = [one for one in rows if one["uid"] != "30446595"]
    path.write_text(json.dumps(kept))
    status, shown, _ = reader.run("diff", "mig")
    assert "run 2" in shown and "  + " in shown and "30446595" in shown
    status, _, err = reader.run("diff", "mig", "--before", "7")
    assert status == 1 and "there are: 1, 2, 3" in err


def test_a_run_that_failed_changes_nothing(reader: Reader) -> None:
    reader.run("save", "mig", QUESTION)
    before = (reader.folder / "mig.json").read_bytes()
    status, out, err = reader.run("run", "mig", "--url", "http://127.0.0.1:9")
    assert (status, out) == (1, "")
    assert "127.0.0.1:9" in err
    assert (reader.folder / "mig.json").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("save", "x", "  "), "empty"),
        (("save", "x", "q", "-o", "nope=1"), "arrowhead.nope"),
        (("save", "x", "q", "-o", "nope"), "KEY=VALUE"),
        (("save", "x", "q", "-m", "m:genegpt"), "clinfo"),
        (("save", "../x", "q"), "no name"),
        (("run", "missing"), "no review 'missing'"),
        (("remove", "missing"), "no review 'missing'"),
    ],
)
def test_what_is_wrong_is_named(reader: Reader, words: tuple[str, ...], said: str) -> None:
    status, _, err = reader.run(*words)
    assert status in (1, 2)
    assert said in err
    assert "Traceback" not in err
