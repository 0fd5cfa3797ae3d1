"""Keep a namespace of the evaluation's notes on the server while it runs."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from scripts.evals.harness.client import CONNECT_S, Target, is_local
from scripts.evals.harness.errors import EndpointGone, EndpointRefuses

JOB_S: Final = 60
_TIMEOUT: Final = httpx.Timeout(JOB_S + 30, connect=CONNECT_S)


def documents_in(folder: Path) -> list[dict[str, str]]:
    """The notes of a folder: a line ``# Title``, then the text. Raises ValueError for another form."""
    documents = []
    for path in sorted(folder.glob("*.md")):
        head, _, text = path.read_text().partition("\n")
        if not (head.startswith("# ") and text.strip()):
            raise ValueError(f"{path}: a line '# Title' and a text are wanted")
        documents.append({"id": path.stem, "title": head[2:].strip(), "text": text.strip()})
    return documents


@contextmanager
def temporary_namespace(target: Target, folder: Path, transport: httpx.BaseTransport | None = None) -> Iterator[str]:
    """The name of a new namespace with the notes; it is removed at the end, also after an interruption.

    Raises:
        EndpointGone, EndpointRefuses: it cannot be made; what was made is removed.
    """
    name = f"answers-eval-{secrets.token_hex(4)}"
    headers = {"Authorization": f"Bearer {target.api_key}"} if target.api_key else {}
    address = target.base_url.rstrip("/")
    uses_proxies = not is_local(httpx.URL(address).host)
    with httpx.Client(
        base_url=address, headers=headers, timeout=_TIMEOUT, transport=transport, trust_env=uses_proxies
    ) as http:
        _sent(http, "POST", "/namespaces", {"name": name})
        try:
            wanted = documents_in(folder)
            job = _sent(http, "POST", f"/namespaces/{name}/documents?wait={JOB_S}", {"documents": wanted})
            if job.get("state") != "done":
                raise EndpointRefuses(f"the notes were not indexed within {JOB_S} s: job {job.get('state')}")
            yield name
        finally:
            _removed(http, name)


def _sent(http: httpx.Client, verb: str, path: str, body: Any) -> dict[str, Any]:
    try:
        response = http.request(verb, path, json=body)
    except httpx.RequestError as error:
        raise EndpointGone(f"{http.base_url}: {type(error).__name__}: {error}") from error
    if response.status_code >= 300:
        raise EndpointRefuses(f"{verb} {path}: HTTP {response.status_code}: {response.text[:300]}")
    told: dict[str, Any] = response.json()
    return told


def _removed(http: httpx.Client, name: str) -> None:
    """Tells where it could not be removed, so that a person can; the results are not lost for it."""
    try:
        response = http.request("DELETE", f"/namespaces/{name}")
        failed = f"HTTP {response.status_code}" if response.status_code >= 300 else ""
    except httpx.RequestError as error:
        failed = type(error).__name__
    if failed:
        print(f"the namespace {name} could not be removed ({failed}): arrowhead namespace delete {name} --yes")
