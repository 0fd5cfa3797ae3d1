"""Build graphs from downloaded files, and look up those of a data folder by name.

A build is installed atomically; its work in progress is in ``.NAME.partial`` beside it. The next build of the same
files, options and encoder resumes a killed one: the tables are reused if reading had finished, and embeddings made so
far are reused. Any other build starts from the beginning. The graph that ships with the package has no vectors: its
statements are embedded when a question needs them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from models.encoders.base import Encoder, EncoderFingerprint
from models.files import parse_json
from retrieval.errors import GRAPH_BUSY, GRAPH_DAMAGED, GRAPH_INVALID, GraphError
from retrieval.graph.loaders.json_files import HetionetLoader, OpenEdgesLoader
from retrieval.graph.loaders.kgx import KgxLoader
from retrieval.graph.loaders.optimuskg import OptimuskgLoader
from retrieval.graph.loaders.reading import Report
from retrieval.graph.loaders.tables import PlainLoader, PrimekgLoader
from retrieval.graph.spoke.reply import SpokeLoader
from retrieval.graph.store.files import GRAPH_FILE, MANIFEST_FILE, SCHEMA_VERSION, Manifest, as_json, files_of
from retrieval.graph.store.reader import LocalGraph
from retrieval.graph.store.writer import PROGRESS_FILE, GraphWriter, embed_edges, write_lists
from retrieval.graph.types import GraphLoader
from retrieval.storage.files import (
    FOLDER_MODE,
    Disk,
    FileDigest,
    build_lock,
    digest_file,
    make_folder,
    recover,
    recover_all,
    replace_folder,
    sync,
)

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_PLAN_FILE: Final = "plan.json"
_READ_FILE: Final = "read.json"
ProgressCallback = Callable[[str, int], None]
SHIPPED: Final = "open"
SHIPPED_DIR: Final = Path(__file__).parent / "open"
SHIPPED_FILES: Final = (SHIPPED_DIR / "nodes.tsv.gz", SHIPPED_DIR / "edges.tsv.gz")
SHIPPED_RELEASE: Final = "2026-11"
_WAIT_S: Final = 120.0
_TRIES: Final = 5


class Kind(NamedTuple):
    """Describe a kind of file; ``what`` is a description for people."""

    name: str
    what: str
    open: Callable[[Sequence[Path], Report], GraphLoader]


_ALL: Final = (
    Kind("hetionet", "Hetionet v1.0 as JSON: hetionet-v1.0.json.bz2", HetionetLoader),
    Kind("primekg", "PrimeKG: kg.csv", PrimekgLoader),
    Kind("optimuskg", "OptimusKG: nodes.parquet and edges.parquet", OptimuskgLoader),
    Kind("kgx", "KGX nodes and edges (Monarch): .tsv, .csv, .jsonl or .json, or one .tar.gz of them", KgxLoader),
    Kind("spoke", "kept replies of SPOKE's /neighborhood: .json or .jsonl", SpokeLoader),
    Kind("tsv", "own tables of nodes and edges: see docs/graph.md", PlainLoader),
    Kind("open-edges", "edges of diseases with evidence and licence: .jsonl", OpenEdgesLoader),
)

KINDS: Final = MappingProxyType({kind.name: kind for kind in _ALL})


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRequest:
    """Describe an import.

    ``name`` of the graph and folder; ``release`` "" uses a digest of the files. ``wait_s``: seconds to wait for another
    build.
    """

    kind: str
    files: tuple[Path, ...]
    name: str
    release: str = ""
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True)
class BuildResult:
    """Report the result of a build.

    ``report`` is empty if an earlier, killed build read the files; ``manifest.passed`` counts the skipped records then
    too. ``already``: the same files were built before, and nothing was done.
    """

    manifest: Manifest
    report: Report = field(default_factory=Report)
    already: bool = False


def build_graph(
    root: Path, order: ImportRequest, encoder: Encoder | None, report_progress: ProgressCallback = lambda _, __: None
) -> BuildResult:
    """Build ``root/name``, replacing an older graph; open readers of the older one continue to read it.

    Without ``encoder`` the graph has no vectors. ``report_progress`` is called with each step and its number of
    finished records. On any error the older graph remains.

    Raises:
        GraphError: another process is building it; a file is not a graph of this kind; the name is invalid, or the disk
            is full.
        Exception: whatever the encoder raises.
    """
    check_name(order.name)
    if order.kind not in KINDS:
        raise GraphError(f"no kind of graph is called {order.kind!r}; known: {', '.join(KINDS)}", param="kind")
    target = root / order.name
    try:
        make_folder(root)
        with _sole(target, order.wait_s):
            recover(target)
            return _build(target, order, encoder, report_progress)
    except OSError as fault:
        raise GraphError(f"{target} cannot be written: {fault.strerror or fault}") from fault
    except sqlite3.Error as fault:
        raise GraphError(f"{target} cannot be written: {fault}") from fault


def check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise GraphError(f"{name[:80]!r} is no name of a graph: small letters, digits, - and _", param="name")


@contextmanager
def _sole(target: Path, wait_s: float) -> Iterator[None]:
    with ExitStack() as stack:
        try:
            stack.enter_context(build_lock(target, wait_s))
        except TimeoutError as fault:
            raise GraphError(str(fault), GRAPH_BUSY) from fault
        yield


def _build(
    target: Path, order: ImportRequest, encoder: Encoder | None, report_progress: ProgressCallback
) -> BuildResult:
    inputs = _inputs(order.files)
    release = order.release or _digest(inputs)
    fingerprint = as_json(encoder.fingerprint) if encoder else {}
    if (found := _standing(target)) and _same(found, order, release, inputs) and dict(found.encoder) == fingerprint:
        return BuildResult(found, already=True)
    plan = {
        "schema": SCHEMA_VERSION,
        "kind": order.kind,
        "release": release,
        "inputs": {name: asdict(fact) for name, fact in inputs.items()},
        "encoder": fingerprint,
    }
    draft = _draft(target, json.dumps(plan, sort_keys=True).encode())
    counts, report = _read_all(draft, order, release, report_progress)
    with closing(sqlite3.connect(f"{(draft / GRAPH_FILE).resolve().as_uri()}?mode=ro", uri=True)) as connection:
        if encoder:
            embed_edges(draft, connection, encoder, counts["edges"], report_progress)
        report_progress("lists", 0)
        write_lists(draft, connection, counts["nodes"])
    report_progress("digests", 0)
    manifest = Manifest(
        graph=order.name,
        release=release,
        kind=order.kind,
        **counts,
        built=datetime.now(UTC).date().isoformat(),
        encoder_name=encoder.name if encoder else "none",
        encoder=fingerprint,
        inputs=inputs,
        files={name: digest_file(draft / name) for name in files_of(bool(encoder))},
    )
    _put_in_place(draft, target, manifest)
    return BuildResult(manifest, report)


def _put_in_place(draft: Path, target: Path, manifest: Manifest) -> None:
    for name in (_PLAN_FILE, _READ_FILE, PROGRESS_FILE):
        (draft / name).unlink(missing_ok=True)
    Disk().replace(draft / MANIFEST_FILE, manifest.to_bytes())
    replace_folder(draft, target)


def _inputs(files: Sequence[Path]) -> dict[str, FileDigest]:
    if not files:
        raise GraphError("no file to import is named", GRAPH_INVALID, param="files")
    facts: dict[str, FileDigest] = {}
    for path in files:
        if path.name in facts:
            raise GraphError(f"{path}: two files have this name", GRAPH_INVALID, param="files")
        try:
            facts[path.name] = digest_file(path)
        except OSError as fault:
            raise GraphError(f"{path}: cannot be read: {fault.strerror}", GRAPH_INVALID, param="files") from fault
    return facts


def _digest(inputs: Mapping[str, FileDigest]) -> str:
    text = "".join(f"{fact.sha256} {name}\n" for name, fact in sorted(inputs.items()))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _standing(target: Path) -> Manifest | None:
    """Return the manifest of the present graph if it can be opened; a damaged graph is rebuilt."""
    try:
        with closing(LocalGraph(target)) as graph:
            return graph.manifest
    except GraphError:
        return None


def _same(found: Manifest, order: ImportRequest, release: str, inputs: Mapping[str, FileDigest]) -> bool:
    return (found.kind, found.release, dict(found.inputs)) == (order.kind, release, dict(inputs))


def _draft(target: Path, plan: bytes) -> Path:
    """Return the folder of a killed build of the same plan, or a new one."""
    draft = target.parent / f".{target.name}.partial"
    plan_file = draft / _PLAN_FILE
    if not (plan_file.is_file() and plan_file.read_bytes() == plan):
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=FOLDER_MODE)
        Disk().replace(plan_file, plan)
    return draft


def _read_all(
    draft: Path, order: ImportRequest, release: str, report_progress: ProgressCallback
) -> tuple[dict[str, int], Report]:
    """Return (counts of nodes, edges and skipped records; report of the records skipped by this build)."""
    mark, report = draft / _READ_FILE, Report()
    if mark.is_file():
        counts: dict[str, int] = parse_json(mark.read_bytes())
        return counts, report
    writer = GraphWriter(draft / GRAPH_FILE, report, report_progress)
    try:
        nodes, edges = writer.fill(KINDS[order.kind].open(order.files, report))
        writer.finish({"graph": order.name, "release": release, "kind": order.kind})
    except BaseException as fault:
        writer.close()
        if GRAPH_INVALID.is_of(fault):
            shutil.rmtree(draft, ignore_errors=True)
        raise
    sync(draft / GRAPH_FILE)
    counts = {"nodes": nodes, "edges": edges, "passed": report.passed}
    Disk().replace(mark, json.dumps(counts).encode())
    return counts, report


def graph_names(root: Path) -> tuple[str, ...]:
    """Return the names of the built graphs, complete or not.

    First repairs any replacement of a graph that a killed build left unfinished.
    """
    if not root.is_dir():
        return ()
    recover_all(root)
    return tuple(sorted(p.name for p in root.iterdir() if p.name[0] != "." and (p / MANIFEST_FILE).is_file()))


def open_graph(root: Path, name: str, expects: EncoderFingerprint | None = None) -> LocalGraph:
    """Open the graph of this name.

    Raises:
        GraphError: there is no graph of this name; it is incomplete, or of another encoder; it was replaced during
            every attempt.
    """
    check_name(name)
    if not (root / name).is_dir():
        there = ", ".join(graph_names(root)) or "none"
        raise GraphError(f"there is no graph {name!r} in {root}; there are: {there}", param="name")
    for _ in range(_TRIES):
        before = _manifest_bytes(root / name)
        try:
            graph = LocalGraph(root / name, expects)
        except GraphError as error:
            if not GRAPH_DAMAGED.is_of(error) or _manifest_bytes(root / name) == before:
                raise
            continue
        # Another build may have replaced the folder while its files were opened.
        if _manifest_bytes(root / name) == before:
            return graph
        graph.close()
    raise GraphError(f"{root / name} is replaced again and again", GRAPH_BUSY, param="name")


def _manifest_bytes(folder: Path) -> bytes:
    """Return the bytes of the manifest, which has the digest of every file; empty if there is none."""
    try:
        return (folder / MANIFEST_FILE).read_bytes()
    except OSError:
        return b""


def open_or_build(
    root: Path, name: str, encoder: Encoder, report_progress: ProgressCallback = lambda _, __: None
) -> LocalGraph:
    """Open the graph as ``open_graph`` does, building the one that ships with the package at its first use.

    That one is built once for each version of the package's files; a second process waits for the first.
    """
    if name != SHIPPED:
        return open_graph(root, name, encoder.fingerprint)
    # Write nothing if the graph is already built: the folder may be read-only.
    with contextlib.suppress(GraphError):
        graph = open_graph(root, name, encoder.fingerprint)
        if dict(graph.manifest.inputs) == {path.name: digest_file(path) for path in SHIPPED_FILES}:
            return graph
        graph.close()
    order = ImportRequest(kind="tsv", files=SHIPPED_FILES, name=SHIPPED, release=SHIPPED_RELEASE, wait_s=_WAIT_S)
    build_graph(root, order, None, report_progress)
    return open_graph(root, name, encoder.fingerprint)


def unfinished(root: Path) -> tuple[str, ...]:
    """Return the names of builds that were killed or are running; the same import resumes a killed one."""
    return tuple(sorted(path.name[1 : -len(".partial")] for path in root.glob(".*.partial")))
