"""There is one object that opens connections, and nothing else in the server's code could."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
# The one way out; and the command that asks a running server, which its user names: no part of the server.
ALLOWED = {
    "retrieval/ncbi/client/transport.py": {"httpx"},
    "server/cli/ask.py": {"urllib.request"},
    # The command that asks the server which it started, on the loopback address.
    "server/serving/egress_proof.py": {"httpx"},
    # The site's own MCP servers, which the settings name: by the official SDK, after the egress policy.
    "server/evidence/site_tools/client.py": {"httpx2", "mcp"},
    # The command that speaks MCP for an agent on this machine, to the server that its user names.
    "server/serving/mcp_stdio.py": {"httpx2", "mcp"},
    # The database that the settings name, for state that servers share.
    "server/state/database.py": {"psycopg"},
}
CLIENTS = {
    "httpx", "httpx2", "mcp.client", "mcp.Client",
    "httpcore", "requests", "urllib3", "aiohttp", "urllib.request", "http.client", "ftplib", "smtplib",
    "telnetlib", "xmlrpc.client", "websockets", "websocket", "anyio", "paramiko", "huggingface_hub", "Bio.Entrez",
}  # fmt: skip
CALLS = {"create_connection", "connect", "connect_ex", "open_connection", "sendto", "getaddrinfo", "gethostbyname"}


@cache
def _sources() -> tuple[tuple[str, ast.Module], ...]:
    """Each module once, as six tests look at all of them."""
    return tuple(_parsed())


def _parsed() -> Iterator[tuple[str, ast.Module]]:
    for folder in ("server", "retrieval"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def _imported(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _connecting(tree: ast.Module) -> set[str]:
    """Calls named like those that open connections or look names up; a database's ``connect`` is none."""
    return {
        ast.unparse(node.func)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in CALLS
        and ast.unparse(node.func.value) != "sqlite3"
    }


def test_only_the_transport_can_reach_other_machines() -> None:
    """No other file of server and retrieval imports a client, or calls what connects."""
    found = {path: {n for n in _imported(tree) for c in CLIENTS if n == c or n.startswith(f"{c}.")} | _connecting(tree)
             for path, tree in _sources()}  # fmt: skip

    assert len(found) > 60
    assert {path: {name.split(".")[0] for name in names} for path, names in found.items() if names} == {
        path: {name.split(".")[0] for name in names} for path, names in ALLOWED.items()
    }


def test_one_sender_is_made_and_shared() -> None:
    """Built where everything is put together, but for the one that stays in the process."""
    made = {
        path: [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Call)
               and isinstance(node.func, ast.Name) and node.func.id == "HttpSender"]
        for path, tree in _sources()
    }  # fmt: skip

    assert {path: calls for path, calls in made.items() if calls} == {
        "retrieval/ncbi/client/client.py": ["HttpSender(config.limits)"],  # for a client on its own, as in tests
        "server/wiring/ncbi.py": [
            "HttpSender(SendLimits(), app)",
            "HttpSender(SendLimits())",
            "HttpSender(config.limits, connection=connection)",  # the institution's egress service, in NCBI's place
        ],
    }


@cache
def _called() -> dict[str, list[str]]:
    """What each file calls, as it is written there."""
    return {
        path: [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]
        for path, tree in _sources()
    }


def _calling(wanted: str) -> dict[str, int]:
    """Files that call what ends in ``wanted``, with the number of calls."""
    found = {path: sum(name.endswith(wanted) for name in names) for path, names in _called().items()}
    return {path: number for path, number in found.items() if number}


def test_calls_reach_ncbi_through_the_router_alone() -> None:
    """One file makes the clients, one asks them: methods, jobs, commands and sessions get the router's function."""
    assert _calling("NcbiClient") == {"server/wiring/ncbi.py": 1}
    assert _calling("ServiceClient") == {"server/wiring/ncbi.py": 1}
    assert _calling(".client.cached") == {"server/egress/router.py": 2}
    assert _calling(".client.fetch") == {"server/egress/router.py": 2}
    assert _calling(".fetch_for").keys() == {
        "server/evidence/literature.py",
        "server/evidence/ncbi.py",
        "server/jobs/corpus_changes.py",
        "server/wiring/ncbi.py",
    }


def test_the_sender_has_four_users() -> None:
    """Who sends: the clients of NCBI and of an egress service, behind the router; SPOKE; the exporter of spans.

    The router authorizes SPOKE's requests; spans have no values.
    """
    assert _calling("sender.send").keys() | _calling("_sender.send").keys() == {
        "retrieval/ncbi/client/client.py",
        "retrieval/ncbi/client/service.py",
        "retrieval/graph/spoke/source.py",
        "server/observability/tracing.py",
    }
    # SPOKE's requests, those to the site's MCP servers, which the SDK sends, and those of files of collections.
    assert _calling("authorize_request").keys() == {
        "server/evidence/graph.py",
        "server/evidence/site_tools/look_ups.py",
        "server/wiring/collection_imports.py",
    }
