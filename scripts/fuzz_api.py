"""Send requests that schemathesis generates from ``/openapi.json``, valid and invalid, to a server started for the run.

    python scripts/fuzz_api.py [--cases 100000] [--max-seconds 900] [--seed 1] [--path PATH] [--report FILE]

The server has the scripted engine and encoders without weights, so that only the server is tested. Exit status 1 where
a reply is a server error that the document does not list, or does not conform to the document; each failure is printed
with a request that reproduces it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from scripts.served import served

CHECKS: Final = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,"
    "response_headers_conformance"
)
# Busy, draining or without its model; a deadline; NCBI, or whoever stands for it, failed; the disk is full.
EXPECTED: Final = ("2xx", "3xx", "4xx", "502", "503", "504", "507")
# Its replies are JSON-RPC, written by the SDK, which OpenAPI cannot describe; tests/http/test_mcp.py sends it faults.
OTHER_PROTOCOL: Final = "/mcp"
_SETTINGS: Final = {
    "MODEL__ENGINE": "scripted",
    "RETRIEVAL__ENCODERS": "hashing",
    "RETRIEVAL__CROSS_ENCODER": "overlap",
    "SERVER__DRAIN_NOTICE_S": "0",
}


def fuzz(url: str, folder: Path, given: argparse.Namespace) -> int:
    """Run schemathesis in ``folder``, and return its exit status."""
    document = json.loads(urllib.request.urlopen(f"{url}/openapi.json", timeout=30).read())
    operations = sum(len(path) for name, path in document["paths"].items() if given.path in (None, name))
    if not operations:
        raise SystemExit(f"--path: the document has no {given.path}")
    statuses = ", ".join(f'"{status}"' for status in EXPECTED)
    (folder / "schemathesis.toml").write_text(f"[checks.not_a_server_error]\nexpected-statuses = [{statuses}]\n")
    report = given.report.resolve() if given.report else folder / "report.json"
    command = [
        *(sys.executable, "-m", "schemathesis.cli"),
        *("--config-file", str(folder / "schemathesis.toml"), "run", f"{url}/openapi.json"),
        *("--checks", CHECKS, "--max-examples", str(max(1, given.cases // operations)), "--seed", str(given.seed)),
        *("--report", "json", "--report-json-path", str(report), "--request-timeout", "240", "--no-color"),
        *("--generation-database", "none", "--warnings", "off", "--continue-on-failure"),
        # They are about the tool: one of them gave an operation with large bodies up.
        *("--suppress-health-check", "all"),
        *(("--exclude-path", OTHER_PROTOCOL) if given.path is None else ("--include-path", given.path)),
        *(() if given.max_seconds is None else ("--max-time", str(given.max_seconds))),
    ]
    return subprocess.run(command, cwd=folder, stderr=subprocess.STDOUT, check=False).returncode


def failures_in(log: Path) -> Iterator[str]:
    """What went wrong in the server, with where."""
    is_trace = False
    for line in log.read_text(errors="replace").splitlines():
        is_trace = "unexpected" in line or (is_trace and line.startswith(" "))
        if is_trace:
            yield line


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=100_000, help="of all operations together")
    parser.add_argument("--max-seconds", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--path", help="this one of the document alone")
    parser.add_argument("--report", type=Path, help="of schemathesis, as JSON lines")
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="arrowhead-fuzz-") as name:
        script = Path(name) / "script.json"
        script.write_text(json.dumps([{"regex": "(?s).", "text": " An answer."}]))
        with served(settings=_SETTINGS | {"MODEL__SCRIPT": str(script)}) as server:
            status = fuzz(server.url, Path(name), given)
            for line in failures_in(server.log):
                print(line, file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
