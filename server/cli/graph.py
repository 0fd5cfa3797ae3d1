"""Implement ``arrowhead graph``: import, list, verify and show knowledge graphs on this machine."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from server.cli.options import ConfigFile, verbs, wrong

if TYPE_CHECKING:
    from retrieval.graph.store.catalog import BuildResult
    from retrieval.graph.store.reader import LocalGraph
    from retrieval.graph.types import Statement
    from server.settings.schema import Settings

ProgressCallback = Callable[[str, int], None]
_STEPS = {
    "nodes": "nodes read",
    "edges": "edges read",
    "merged": "edges written",
    "embedded": "edges embedded",
    "lists": "writing the lists of neighbours",
    "digests": "computing digests",
}

app = verbs("knowledge graphs")
DataFolder = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="folder of the graphs; default: as the server's")
]


def _root(data: Path | None, settings: Settings) -> Path:
    from server.settings.loading import graphs_dir
    from server.wiring.data_folder import protect

    if data is not None:
        return data
    folder = graphs_dir(settings)
    protect(folder)
    return folder


def _settings(config: Path | None) -> Settings:
    from server.settings.loading import load_settings

    return load_settings(None, config)


@app.command("import", help="make a graph from downloaded files")
def import_files(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="what the files are; 'list' shows all kinds")],
    files: Annotated[list[Path] | None, typer.Argument(metavar="FILE", help="all files of the graph at once")] = None,
    name: Annotated[str, typer.Option(help="default: the kind", show_default=False)] = "",
    release: Annotated[
        str, typer.Option(help="the graph's own word for its version; default: a digest", show_default=False)
    ] = "",
    encoder: Annotated[str, typer.Option(help="default: the first of retrieval.encoders", show_default=False)] = "",
    config: ConfigFile = None,
    data: DataFolder = None,
) -> int:
    from retrieval.graph.store.catalog import KINDS

    if kind == "list" and not files:
        for one in KINDS.values():
            print(f"{one.name}\t{one.what}")
        return 0
    if kind not in KINDS:
        return wrong(f"no kind of graph is called {kind!r}; known: {', '.join(KINDS)}")
    if not files:
        return wrong("no FILE to import is named")
    from retrieval.graph.store.catalog import SHIPPED, ImportRequest, build_graph, check_name
    from server.evidence.encoders import load_graph_encoder

    settings = _settings(config)
    name = name or kind
    check_name(name)
    if name == SHIPPED:
        return wrong(f"{SHIPPED!r} is the graph that comes with the program; choose another name")
    order = ImportRequest(kind=kind, files=tuple(files), name=name, release=release)
    with _progress_status(name) as report_progress:
        built = build_graph(_root(data, settings), order, load_graph_encoder(settings, encoder), report_progress)
    _say(name, built)
    return 0


def _say(name: str, built: BuildResult) -> None:
    found = built.manifest
    if built.already:
        print(f"{name}: built from these files before, nothing to do")
        return
    print(
        f"{name}: {found.nodes:,} nodes, {found.edges:,} edges, release {found.release}, encoder {found.encoder_name}; "
        f"{found.passed:,} bad records passed over"
    )
    for place, reason in built.report.first:
        print(f"{place}: {reason}", file=sys.stderr)
    if found.passed > len(built.report.first):
        print(f"{name}: {found.passed - len(built.report.first):,} more bad records", file=sys.stderr)


@app.command(help="the graphs that are here")
def status(config: ConfigFile = None, data: DataFolder = None) -> int:
    from retrieval.errors import GraphError
    from retrieval.graph.store.catalog import graph_names, unfinished
    from retrieval.graph.store.files import read_manifest

    root = _root(data, _settings(config))
    names = graph_names(root)
    for name in names:
        try:
            manifest = read_manifest(root / name)
        except GraphError as fault:
            print(f"{name}\tdamaged: {fault.message}")
            continue
        size = sum(fact.bytes for fact in manifest.files.values())
        print(
            f"{name}\t{manifest.kind}\trelease {manifest.release}\t{manifest.nodes:,} nodes\t{manifest.edges:,} edges\t"
            f"{size:,} bytes\tencoder {manifest.encoder_name}\tbuilt {manifest.built}\t"
            f"from {', '.join(manifest.inputs)}"
        )
    for name in unfinished(root):
        print(f"{name}\tnot finished: going on, or killed; the same import goes on with it")
    if not names:
        print(f"{root}: no graph; `arrowhead graph import` makes one, and the one that ships is built at its first use")
    return 0


@app.command("verify", help="read all files and hold them against their digests")
def verify_graphs(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="default: all")] = None,
    config: ConfigFile = None,
    data: DataFolder = None,
) -> int:
    from retrieval.graph.store.catalog import check_name, graph_names, open_graph
    from retrieval.graph.store.files import verify

    root = _root(data, _settings(config))
    whole = True
    for name in names or graph_names(root):
        check_name(name)
        if not (root / name).is_dir():
            open_graph(root, name)
        with _progress_status(name) as report_progress:
            manifest, faults = verify(root / name, lambda file: report_progress(f"reading {file}", 0))
        for fault in faults:
            print(f"{name}: {fault}")
        whole = whole and not faults
        info = f", {manifest.nodes:,} nodes, {manifest.edges:,} edges, release {manifest.release}" if manifest else ""
        print(f"{name}: {'damaged' if faults else 'whole'}{info}")
    return 0 if whole else 1


@app.command(help="what a graph says of a node")
def show(
    node: Annotated[str, typer.Argument(metavar="NODE", help="a name, an identifier or an id (Disease::DOID:1612)")],
    name: Annotated[str, typer.Option(help="graph; default: graph.name", show_default=False)] = "",
    edges: Annotated[list[str] | None, typer.Option(metavar="TYPE", help="only edges of this type")] = None,
    limit: Annotated[int, typer.Option(help="statements to print")] = 50,
    config: ConfigFile = None,
    data: DataFolder = None,
) -> int:
    settings = _settings(config)
    with contextlib.closing(_opened(_root(data, settings), name or settings.graph.name, settings)) as graph:
        nodes = graph.find(node)
        for one in nodes:
            also = f" ({', '.join(one.synonyms[:10])})" if one.synonyms else ""
            print(f"{one.node_id}\t{one.name}{also}")
        if len(nodes) != 1:
            hint = "name one of them by its id" if nodes else f"{graph.name} has no such node"
            print(f"arrowhead: {hint}", file=sys.stderr)
            return 1
        statements = graph.statements(nodes[0].node_id, frozenset(edges or ()) or None)
        for statement in statements[: max(0, limit)]:
            print(_line(statement))
        if len(statements) > limit:
            print(f"{len(statements) - max(0, limit):,} more; --limit shows more", file=sys.stderr)
    return 0


def _opened(root: Path, name: str, settings: Settings) -> LocalGraph:
    from retrieval.graph.store.catalog import SHIPPED, open_graph, open_or_build
    from server.evidence.encoders import load_graph_encoder

    if name == SHIPPED and not (root / name).is_dir():
        with _progress_status(name) as report_progress:
            return open_or_build(root, name, load_graph_encoder(settings), report_progress)
    return open_graph(root, name)


def _line(statement: Statement) -> str:
    edge = statement.edge
    sources = ", ".join((*edge.provenance, *(f"PMID {pmid}" for pmid in edge.pmids[:5])))
    return "\t".join((statement.text, edge.kind, sources or "no source", edge.licence or "no licence"))


@contextlib.contextmanager
def _progress_status(what: str) -> Iterator[ProgressCallback]:
    """Show progress on one line of the terminal.

    Ctrl-C ends at once; the same command then continues from there.
    """
    from rich.console import Console

    from server.printable import for_log, unescaped

    what = for_log(what, 200)
    with Console(file=unescaped(sys.stderr)).status(what) as status:

        def report_progress(step: str, count: int) -> None:
            status.update(f"{what}: {f'{count:,} ' if count else ''}{_STEPS.get(step, step)}")

        yield report_progress
