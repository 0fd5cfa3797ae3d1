"""Look up the graphs of a data folder by name, and build the small sample graph that ships with the package.

The sample graph holds facts only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from models.encoders.base import Encoder, EncoderFingerprint
from retrieval.graph.errors import GraphBusy, GraphDamaged, GraphError
from retrieval.graph.store.build import BuildResult, ImportRequest, build_graph, check_name
from retrieval.graph.store.reader import LocalGraph
from retrieval.graph.store.schema import MANIFEST_FILE
from retrieval.storage.files import digest_file, recover_all

SAMPLE: Final = "sample"
SAMPLE_DIR: Final = Path(__file__).parent / "sample"
SAMPLE_FILES: Final = (SAMPLE_DIR / "nodes.tsv", SAMPLE_DIR / "edges.tsv")
SAMPLE_RELEASE: Final = "1"
_WAIT_S: Final = 120.0
_TRIES: Final = 5
ProgressCallback = Callable[[str, int], None]


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
        GraphError: there is no graph of this name.
        GraphDamaged: it is incomplete, or of another encoder.
        GraphBusy: it was replaced during every attempt.
    """
    check_name(name)
    if not (root / name).is_dir():
        there = ", ".join(graph_names(root)) or "none"
        raise GraphError(f"there is no graph {name!r} in {root}; there are: {there}", param="name")
    for _ in range(_TRIES):
        before = _manifest_bytes(root / name)
        try:
            graph = LocalGraph(root / name, expects)
        except GraphDamaged:
            if _manifest_bytes(root / name) == before:
                raise
            continue
        # Another build may have replaced the folder while its files were opened.
        if _manifest_bytes(root / name) == before:
            return graph
        graph.close()
    raise GraphBusy(f"{root / name} is replaced again and again", param="name")


def _manifest_bytes(folder: Path) -> bytes:
    """Return the bytes of the manifest, which has the digest of every file; empty if there is none."""
    try:
        return (folder / MANIFEST_FILE).read_bytes()
    except OSError:
        return b""


def build_sample(root: Path, encoder: Encoder, report_progress: ProgressCallback = lambda _, __: None) -> BuildResult:
    """Build the sample graph once for each version of the package's files and encoder.

    A second process waits for the first.
    """
    order = ImportRequest(kind="tsv", files=SAMPLE_FILES, name=SAMPLE, release=SAMPLE_RELEASE, wait_s=_WAIT_S)
    return build_graph(root, order, encoder, report_progress)


def open_or_sample(
    root: Path, name: str, encoder: Encoder, report_progress: ProgressCallback = lambda _, __: None
) -> LocalGraph:
    """Open the graph as ``open_graph`` does, building the package's sample graph at its first use."""
    if name != SAMPLE:
        return open_graph(root, name, encoder.fingerprint)
    # Write nothing if the graph is already built: the folder may be read-only.
    with contextlib.suppress(GraphError):
        graph = open_graph(root, name, encoder.fingerprint)
        if dict(graph.manifest.inputs) == {path.name: digest_file(path) for path in SAMPLE_FILES}:
            return graph
        graph.close()
    build_sample(root, encoder, report_progress)
    return open_graph(root, name, encoder.fingerprint)


def unfinished(root: Path) -> tuple[str, ...]:
    """Return the names of builds that were killed or are running; the same import resumes a killed one."""
    return tuple(sorted(path.name[1 : -len(".partial")] for path in root.glob(".*.partial")))
