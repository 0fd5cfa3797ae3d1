"""Send requests that schemathesis generates from ``/openapi.json``, valid and invalid, to a server started for the run.

    python scripts/fuzz_api.py [--cases 100000] [--max-seconds 900] [--seed 1] [--path PATH] [--report FILE]

The server has the scripted engine and encoders without weights, so that only the server is tested. Exit status 1 where
a reply is a server error that the document does not list, or does not conform to the document; each failure is printed
with a request that reproduces it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
CHECKS: Final = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,"
    "response_headers_conformance"
)
# Busy, draining or without its model; a deadline; NCBI, or whoever stands for it, failed; the disk is full.
EXPECTED: Final = ("2xx", "3xx", "4xx", "502", "503", "504", "507")
_SCRIPT: Final = [{"regex": "(?s).", "text": " An answer."}]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """``cases``: of all operations together. ``path``: of the document, None for all. ``report`` is schemathesis' own,
    as JSON lines."""

    cases: int = 100_000
    max_seconds: int | None = None
    seed: int = 1
    path: str | None = None
    report: Path | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    status: int
    cases: int
    said: str


def server_environment(folder: Path) -> Mapping[str, str]:
    """Settings of a server that costs little and keeps everything in ``folder``."""
    script = folder / "script.json"
    script.write_text(json.dumps(_SCRIPT))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ARROWHEAD_")}
    return kept | {
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "ARROWHEAD_MODEL__ENGINE": "scripted",
        "ARROWHEAD_MODEL__SCRIPT": str(script),
        "ARROWHEAD_RETRIEVAL__ENCODER": "hashing",
        "ARROWHEAD_RETRIEVAL__CROSS_ENCODER": "overlap",
        "ARROWHEAD_SERVER__DRAIN_NOTICE_S": "0",
    }


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a server process that runs until the block ends."""
    command = [sys.executable, "-m", "server", "serve", "--port", "0"]
    process = subprocess.Popen(
        command, cwd=ROOT, env=dict(server_environment(folder)), stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if found := re.search(r"ready after [\d.]+ s: (http://\S+)/v1", line):
                threading.Thread(target=_told, args=(process.stderr,), daemon=True).start()
                yield found[1]
                return
        raise SystemExit(f"the server ended with {process.wait()}")
    finally:
        process.terminate()
        process.wait(30)


def _told(lines: Iterator[str]) -> None:
    """What went wrong in the server, with where; the rest of its log is taken, so that it does not stop for it."""
    is_trace = False
    for line in lines:
        is_trace = "unexpected" in line or (is_trace and line.startswith(" "))
        if is_trace:
            sys.stderr.write(line)


def fuzz(url: str, folder: Path, wishes: Wishes) -> Outcome:
    """Runs schemathesis in ``folder``."""
    document = json.loads(urllib.request.urlopen(f"{url}/openapi.json", timeout=30).read())
    operations = sum(len(path) for name, path in document["paths"].items() if wishes.path in (None, name))
    if not operations:
        raise SystemExit(f"--path: the document has no {wishes.path}")
    statuses = ", ".join(f'"{status}"' for status in EXPECTED)
    (folder / "schemathesis.toml").write_text(f"[checks.not_a_server_error]\nexpected-statuses = [{statuses}]\n")
    report = wishes.report or folder / "report.json"
    command = [
        *(sys.executable, "-m", "schemathesis.cli"),
        *("--config-file", str(folder / "schemathesis.toml"), "run", f"{url}/openapi.json"),
        *("--checks", CHECKS, "--max-examples", str(max(1, wishes.cases // operations)), "--seed", str(wishes.seed)),
        *("--report", "json", "--report-json-path", str(report), "--request-timeout", "60", "--no-color"),
        *("--generation-database", "none", "--warnings", "off", "--continue-on-failure"),
        # They are about the tool: one of them gave an operation with large bodies up.
        *("--suppress-health-check", "all"),
        *(() if wishes.path is None else ("--include-path", wishes.path)),
        *(() if wishes.max_seconds is None else ("--max-time", str(wishes.max_seconds))),
    ]
    ended = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    made = re.search(r"([\d,]+) generated", ended.stdout)
    return Outcome(ended.returncode, int(made[1].replace(",", "")) if made else 0, ended.stdout)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--max-seconds", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--path", help="this one of the document alone")
    parser.add_argument("--report", type=Path)
    given = parser.parse_args(words)
    wishes = Wishes(**vars(given))
    with tempfile.TemporaryDirectory(prefix="arrowhead-fuzz-") as name, served(Path(name)) as url:
        outcome = fuzz(url, Path(name), wishes)
    print(outcome.said)
    return outcome.status


if __name__ == "__main__":
    sys.exit(main())
