"""Implement ``arrowhead graph``: import, list, verify and show knowledge graphs on this machine."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from server.settings.loading import load_settings

if TYPE_CHECKING:
    from retrieval.graph.store.build import BuildResult
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


def add_graph(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    imports = verbs.add_parser("import", help="make a graph from downloaded files")
    imports.add_argument("kind", metavar="KIND", help="what the files are; 'list' shows all kinds")
    imports.add_argument("files", nargs="*", type=Path, metavar="FILE", help="all files of the graph at once")
    imports.add_argument("--name", default="", help="default: the kind")
    imports.add_argument("--release", default="", help="the graph's own word for its version; default: a digest")
    imports.add_argument("--encoder", default="", help="default: graph.encoder, else retrieval.encoder")
    imports.set_defaults(run=_import)
    status = verbs.add_parser("status", help="the graphs that are here")
    status.set_defaults(run=_status)
    verify = verbs.add_parser("verify", help="read all files and hold them against their digests")
    verify.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    verify.set_defaults(run=_verify)
    show = verbs.add_parser("show", help="what a graph says of a node")
    show.add_argument("node", metavar="NODE", help="a name, an identifier or an id (Disease::DOID:1612)")
    show.add_argument("--name", default="", help="graph; default: graph.name")
    show.add_argument("--edges", action="append", default=[], metavar="TYPE", help="only edges of this type")
    show.add_argument("--limit", type=int, default=50, help="statements to print (50)")
    show.set_defaults(run=_show)
    for verb in (imports, status, verify, show):
        verb.add_argument("--config", type=Path, help="settings file (TOML)")
        verb.add_argument("--data", type=Path, help="folder of the graphs; default: as the server's")


def _root(args: argparse.Namespace, settings: Settings) -> Path:
    from server.settings.paths import graphs_dir

    return Path(args.data) if args.data else graphs_dir(settings)


def _import(args: argparse.Namespace) -> int:
    from retrieval.graph.store.build import KINDS

    if args.kind == "list" and not args.files:
        for kind in KINDS.values():
            print(f"{kind.name}\t{kind.what}")
        return 0
    if args.kind not in KINDS:
        print(f"arrowhead: no kind of graph is called {args.kind!r}; known: {', '.join(KINDS)}", file=sys.stderr)
        return 2
    if not args.files:
        print("arrowhead: no FILE to import is named", file=sys.stderr)
        return 2
    from retrieval.graph.store.build import ImportRequest, build_graph, check_name
    from retrieval.graph.store.catalog import SAMPLE
    from server.wiring.graph import load_graph_encoder

    settings = load_settings(None, args.config)
    name = args.name or args.kind
    check_name(name)
    if name == SAMPLE:
        print(f"arrowhead: {SAMPLE!r} is the graph that comes with the program; choose another name", file=sys.stderr)
        return 2
    order = ImportRequest(kind=args.kind, files=tuple(args.files), name=name, release=args.release)
    with _watched(name) as report_progress:
        built = build_graph(_root(args, settings), order, load_graph_encoder(settings, args.encoder), report_progress)
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


def _status(args: argparse.Namespace) -> int:
    from retrieval.graph.errors import GraphDamaged
    from retrieval.graph.store.catalog import graph_names, unfinished
    from retrieval.graph.store.manifest import read_manifest

    root = _root(args, load_settings(None, args.config))
    names = graph_names(root)
    for name in names:
        try:
            found = read_manifest(root / name)
        except GraphDamaged as fault:
            print(f"{name}\tdamaged: {fault.message}")
            continue
        size = sum(fact.bytes for fact in found.files.values())
        print(
            f"{name}\t{found.kind}\trelease {found.release}\t{found.nodes:,} nodes\t{found.edges:,} edges\t"
            f"{size:,} bytes\tencoder {found.encoder_name}\tbuilt {found.built}\tfrom {', '.join(found.inputs)}"
        )
    for name in unfinished(root):
        print(f"{name}\tnot finished: going on, or killed; the same import goes on with it")
    if not names:
        print(f"{root}: no graph; `arrowhead graph import` makes one, and the sample is built at its first use")
    return 0


def _verify(args: argparse.Namespace) -> int:
    from retrieval.graph.store.build import check_name
    from retrieval.graph.store.catalog import graph_names, open_graph
    from retrieval.graph.store.manifest import verify

    root = _root(args, load_settings(None, args.config))
    whole = True
    for name in args.names or graph_names(root):
        check_name(name)
        if not (root / name).is_dir():
            open_graph(root, name)
        with _watched(name) as report_progress:
            found, faults = verify(root / name, lambda file: report_progress(f"reading {file}", 0))
        for fault in faults:
            print(f"{name}: {fault}")
        whole = whole and not faults
        facts = f", {found.nodes:,} nodes, {found.edges:,} edges, release {found.release}" if found else ""
        print(f"{name}: {'damaged' if faults else 'whole'}{facts}")
    return 0 if whole else 1


def _show(args: argparse.Namespace) -> int:
    settings = load_settings(None, args.config)
    graph = _opened(args, settings)
    try:
        nodes = graph.find(args.node)
        for node in nodes:
            also = f" ({', '.join(node.synonyms[:10])})" if node.synonyms else ""
            print(f"{node.node_id}\t{node.name}{also}")
        if len(nodes) != 1:
            hint = "name one of them by its id" if nodes else f"{graph.name} has no such node"
            print(f"arrowhead: {hint}", file=sys.stderr)
            return 1
        statements = graph.statements(nodes[0].node_id, frozenset(args.edges) or None)
        for statement in statements[: max(0, args.limit)]:
            print(_line(statement))
        if len(statements) > args.limit:
            print(f"{len(statements) - max(0, args.limit):,} more; --limit shows more", file=sys.stderr)
    finally:
        graph.close()
    return 0


def _opened(args: argparse.Namespace, settings: Settings) -> LocalGraph:
    from retrieval.graph.store.catalog import SAMPLE, open_graph, open_or_sample
    from server.wiring.graph import load_graph_encoder

    root, name = _root(args, settings), args.name or settings.graph.name
    if name == SAMPLE and not (root / name).is_dir():
        with _watched(name) as report_progress:
            return open_or_sample(root, name, load_graph_encoder(settings), report_progress)
    return open_graph(root, name)


def _line(statement: Statement) -> str:
    edge = statement.edge
    sources = ", ".join((*edge.provenance, *(f"PMID {pmid}" for pmid in edge.pmids[:5])))
    return "\t".join((statement.text, edge.kind, sources or "no source", edge.licence or "no licence"))


@contextmanager
def _watched(what: str) -> Iterator[ProgressCallback]:
    """Show progress on one line of the terminal.

    Ctrl-C ends at once; the same command then continues from there.
    """
    from rich.console import Console

    with Console(stderr=True).status(what) as status:

        def report_progress(step: str, count: int) -> None:
            status.update(f"{what}: {f'{count:,} ' if count else ''}{_STEPS.get(step, step)}")

        yield report_progress
