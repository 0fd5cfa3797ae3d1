"""Ask every method of a server that is watched, and sign a statement of what left this machine meanwhile.

The server runs with the site's settings and models over data of its own, so that it meets no server that runs already.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import httpx
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from models.errors import ArrowheadError
from server.errors import PROOF_FAILED
from server.serving.egress_watch import EVERY_S, Watch, is_outside
from server.version import commit, installed_version

FORMAT: Final = 1
NOTHING: Final = "nothing left"
_READY_S: Final = 600.0
_ANSWER_S: Final = 600.0
_STOP_S: Final = 30.0
_EVERY_S: Final = 0.5
_LINES: Final = 20
# Each is answered from what comes with the package.
_QUESTIONS: Final[Mapping[str, str]] = {
    "genegpt": "What is the official gene symbol of LMP10?",
    "kg-rag": "Which compounds treat multiple sclerosis?",
    "clinfo": "Which kinases does gilteritinib inhibit?",
}
_QUESTION: Final = "Which drug reverses heparin?"
_WATCHERS: Final = (
    "each connection and look-up of a name by Python, in every process",
    f"the system's table of sockets of these processes, every {EVERY_S:g} s",
)


@dataclass(frozen=True, slots=True)
class Asked:
    """State how a model or method answered; ``outcome`` is an error's code where it did not."""

    model: str
    outcome: str
    seconds: float


def proof_failed(message: str) -> ArrowheadError:
    """Return the error for a server that could not be asked, or a statement that is not what was signed."""
    return ArrowheadError(message, PROOF_FAILED)


def prove(environment: Mapping[str, str], key_file: Path) -> dict[str, Any]:
    """Return the signed statement; ``environment`` has the settings as variables.

    Raises:
        ArrowheadError: ``PROOF_FAILED``, the server did not start, or ended.
    """
    with tempfile.TemporaryDirectory(prefix="arrowhead-proof-") as folder:
        watch = Watch(Path(folder))
        with _server(environment, Path(folder), watch) as client:
            about = _get(client, "/version")
            asked = [_ask(client, model) for model in _models(client)]
        contacts = watch.end()
    outside = [contact for contact in contacts if is_outside(contact)]
    statement = {
        "format": FORMAT,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "arrowhead": installed_version(),
        "commit": commit(),
        "model": about.get("model"),
        "engine": about.get("engine"),
        "egress": environment.get("ARROWHEAD_EGRESS__MODE", "off"),
        "asked": [asdict(one) for one in asked],
        "watched_by": list(_WATCHERS),
        "inside": len(contacts) - len(outside),
        "left": [contact._asdict() for contact in outside],
        "verdict": "something left" if outside else NOTHING,
    }
    return signed(statement, _key(key_file))


def signed(statement: Mapping[str, Any], key: Ed25519PrivateKey) -> dict[str, Any]:
    """Return a statement with its Ed25519 signature and the public key, both in base64."""
    whole = {**statement, "public_key": _base64(key.public_key().public_bytes_raw())}
    return {**whole, "signature": _base64(key.sign(_bytes_of(whole)))}


def check(statement: object, public_key: str | None = None) -> None:
    """Check that a statement is as it was signed, by ``public_key`` where one is given.

    Raises:
        ArrowheadError: ``PROOF_FAILED``, it is not.
    """
    if not isinstance(statement, dict) or statement.get("format") != FORMAT:
        raise proof_failed("this is no statement of arrowhead egress prove")
    whole = {name: value for name, value in statement.items() if name != "signature"}
    if public_key and public_key != whole.get("public_key"):
        raise proof_failed("the statement was signed by another key")
    try:
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(str(whole.get("public_key")), validate=True))
        key.verify(base64.b64decode(str(statement.get("signature")), validate=True), _bytes_of(whole))
    except (ValueError, InvalidSignature):
        raise proof_failed("the statement was changed after it was signed") from None


def _bytes_of(statement: Mapping[str, Any]) -> bytes:
    return json.dumps(statement, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _key(file: Path) -> Ed25519PrivateKey:
    """Return the machine's key, made at the first statement."""
    if file.is_file():
        try:
            return Ed25519PrivateKey.from_private_bytes(file.read_bytes())
        except ValueError:
            raise proof_failed(f"{file} is no key of 32 bytes; move it away to have a new one made") from None
    file.parent.mkdir(parents=True, exist_ok=True)
    key = Ed25519PrivateKey.generate()
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(key.private_bytes_raw())
    return key


@contextmanager
def _server(environment: Mapping[str, str], folder: Path, watch: Watch) -> Iterator[httpx.Client]:
    """Run ``arrowhead serve`` below the watch, and yield a client that holds a key of it."""
    key, port = secrets.token_urlsafe(24), _free_port()
    own = {
        "XDG_DATA_HOME": str(folder / "data"),
        "XDG_STATE_HOME": str(folder / "state"),
        # No state or passages that other servers share.
        "ARROWHEAD_STATE__URL": "",
        "ARROWHEAD_RETRIEVAL__STORAGE": "files",
        "ARROWHEAD_RETRIEVAL__DATA_DIR": str(folder / "namespaces"),
        "ARROWHEAD_AUDIT__PATH": str(folder / "audit.jsonl"),
        "ARROWHEAD_SERVER__KEYS_FILE": str(folder / "keys.json"),
        "ARROWHEAD_SERVER__API_KEYS": key,
        "ARROWHEAD_SERVER__HOST": "127.0.0.1",
        "ARROWHEAD_SERVER__PORT": str(port),
    }
    log = folder / "server.log"
    with log.open("wb") as written:
        process = subprocess.Popen(
            [sys.executable, "-m", "server", "serve"],
            env={**os.environ, **environment, **own, **watch.environment},
            stdout=written,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    watch.begin(process.pid)
    headers = {"Authorization": f"Bearer {key}"}
    try:
        with httpx.Client(
            base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=_ANSWER_S, trust_env=False
        ) as client:
            _wait(client, process, log)
            yield client
    finally:
        _stop(process)


def _wait(client: httpx.Client, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            if client.get("/ready").status_code == 200:
                return
        except httpx.TransportError:
            pass  # it does not listen yet
        time.sleep(_EVERY_S)
    last = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LINES:])
    raise proof_failed(f"the server did not become ready; the end of its log:\n{last}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _models(client: httpx.Client) -> Sequence[str]:
    """Return the ids that answer, without the second name of the same."""
    entries = _get(client, "/v1/models")["data"]
    ids = [one["id"] for one in entries if "/v1/chat/completions" in one.get("arrowhead", {}).get("routes", ())]
    return [one for one in ids if not one.endswith(":auto")]


def _ask(client: httpx.Client, model: str) -> Asked:
    question = _QUESTIONS.get(model.rpartition(":")[2], _QUESTION)
    body = {"model": model, "messages": [{"role": "user", "content": question}]}
    began = time.monotonic()
    try:
        reply = client.post("/v1/chat/completions", json=body)
        said = reply.json()
    except (httpx.TransportError, ValueError) as error:
        raise proof_failed(f"{model} did not answer: {error}") from None
    outcome = said["error"]["code"] if reply.is_error else _outcome(said["choices"][0]["message"])
    return Asked(model, outcome, round(time.monotonic() - began, 2))


def _outcome(message: Mapping[str, Any]) -> str:
    return str(message.get("arrowhead", {}).get("outcome", "answered"))


def _get(client: httpx.Client, path: str) -> Any:
    try:
        return client.get(path).raise_for_status().json()
    except (httpx.HTTPError, ValueError) as error:
        raise proof_failed(f"{path} did not answer: {error}") from None


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
