"""Implement ``arrowhead collections``: what a site can add to its literature, with licence, command and time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from server.cli.options import ConfigFile, verbs

_UNITS = (("days", 86_400), ("h", 3_600), ("min", 60), ("s", 1))

app = verbs("literature that can be added")


@app.callback(invoke_without_command=True)
def collections(
    context: typer.Context,
    time: Annotated[bool, typer.Option("--time", help="measure this machine for some seconds first")] = False,
    config: ConfigFile = None,
) -> int:
    if context.invoked_subcommand is not None:
        return 0
    from server.evidence import collections as listed
    from server.evidence.encoders import load_graph_encoder
    from server.settings.loading import load_settings

    pace = listed.measured_pace(load_graph_encoder(load_settings(None, config))) if time else None
    for one in listed.collections():
        print(f"{one.name}: {one.what}\n  size     {one.size}\n  licence  {one.licence}\n  from     {one.address}")
        for command in one.commands:
            print(f"  command  {command}")
        print(f"  resume   {one.resume}")
        if pace is not None and (seconds := pace.seconds(one)):
            print(f"  time     {duration(seconds)} on this machine")
        print()
    if pace is not None:
        print(
            f"Measured now: {pace.articles:,.0f} articles a second into the gateway's store, shorter than PubMed's own,"
        )
        print(f"and {pace.tokens:,.0f} tokens a second into vectors, which take most of a namespace's time.")
    return 0


@app.command(help="take in files of one; the same command goes on after a stop")
def add(
    name: Annotated[str, typer.Argument(metavar="COLLECTION")],
    files: Annotated[list[Path], typer.Argument(metavar="FILE")],
    config: ConfigFile = None,
) -> int:
    from server.cli import gateway, graph, namespaces
    from server.evidence import collections as listed

    known = {one.name: one for one in listed.collections()}
    if name not in known:
        raise typer.BadParameter(f"there is no {name[:40]!r}; there are {', '.join(known)}", param_hint="COLLECTION")
    if known[name].into == "gateway":
        return gateway.import_files(known[name].reader, files)
    if known[name].into == "graph":
        return graph.import_files(known[name].reader, files, name=name, config=config)
    with namespaces.opened(config) as (_, retrieval):
        is_new = name not in retrieval.namespaces.names()
    if is_new:
        namespaces.create(name, config=config)
    return namespaces.add(name, files, kind=known[name].reader, config=config)


def duration(seconds: float) -> str:
    """Return a time in its largest unit of which it has at least two, or in seconds."""
    unit, size = next(((unit, size) for unit, size in _UNITS if seconds >= 2 * size), _UNITS[-1])
    return f"{seconds / size:,.0f} {unit}"
