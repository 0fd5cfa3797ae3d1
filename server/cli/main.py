"""Join the verbs to the ``arrowhead`` command, and turn their errors into one clear line and an exit status.

Only the verbs that serve are implemented here. Exit status: 0 done, 1 failed, 2 the command or the settings are wrong.
A verb's module imports at its top only what its options need, and the rest in the verb: ``arrowhead key list`` must not
wait for a server's libraries.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from typer.main import get_command

from models.errors import ArrowheadError
from models.torch_runtime.allocation import limit_kept_memory
from models.torch_runtime.openmp import limit_spin_count
from retrieval.storage.files import private_umask
from server.cli import ask, audit, collections, doctor, egress, gateway, graph, keys, models, namespaces, search, verify
from server.cli.options import CommandLineSettings, verbs, with_setting_flags
from server.printable import escaped_output


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line, that of the process by default, and return the exit status.

    Files that it creates are readable by their owner alone, and control characters of what it prints are escaped.
    """
    with private_umask(), escaped_output():
        return _run(argv)


def _run(argv: Sequence[str] | None) -> int:
    limit_spin_count()
    limit_kept_memory()
    command = get_command(_application())
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        # Not the command's own main(), which reports errors and closed pipes in its own way.
        with command.make_context("arrowhead", words) as context:
            status: int = command.invoke(context)
            return status
    except typer.Exit as ended:
        return ended.exit_code
    except typer.TyperException as error:
        return _refuse(error)
    except ArrowheadError as error:
        return _fail(error)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output closed the pipe (`arrowhead models | head -1`).
        sys.stderr.close()
        return 0


def _application() -> typer.Typer:
    app = verbs("Biomedical questions, answered with sources.")
    app.callback()(_arrowhead)
    app.command("serve", help="serve the OpenAI API")(serve)
    app.command("ask", help="answer one question")(ask.ask)
    app.command("replay", help="answer again from what a trace recorded, and tell what differs")(ask.replay)
    app.add_typer(models.app, name="models")
    app.add_typer(namespaces.app, name="namespace")
    app.add_typer(search.index_app, name="index")
    app.add_typer(collections.app, name="collections")
    app.command("search", help="search namespaces", cls=search.SearchCommand)(search.search)
    app.command("verify", help="hold each sentence of a text against evidence")(verify.verify)
    app.add_typer(graph.app, name="graph")
    app.add_typer(keys.app, name="key")
    app.add_typer(gateway.app, name="gateway")
    app.command("mcp", help="speak the Model Context Protocol on standard input and output")(mcp)
    app.add_typer(egress.app, name="egress")
    app.add_typer(audit.app, name="audit")
    app.command("doctor", help="check this machine and the settings")(doctor.doctor)
    return app


@with_setting_flags()
def serve(cli_settings: CommandLineSettings) -> int:
    settings = cli_settings.load()
    from server.observability.observer import setup_logging
    from server.serving.run import run_server

    setup_logging(settings.log)
    return run_server(settings)


@with_setting_flags()
def mcp(
    cli_settings: CommandLineSettings,
    url: Annotated[
        str | None, typer.Option(help="pass everything on to the server at this address instead of starting one here")
    ] = None,
    key: Annotated[str | None, typer.Option(envvar="ARROWHEAD_API_KEY", help="API key of that server")] = None,
) -> int:
    settings = cli_settings.load()
    from server.observability.observer import setup_logging
    from server.serving.mcp_stdio import run_stdio

    setup_logging(settings.log)
    return run_stdio(settings, url, key)


def _print_version(value: bool) -> None:
    if value:
        from server.version import LICENCE, commit, installed_version

        built_from = commit()
        print(f"arrowhead {installed_version()}" + (f" ({built_from[:12]})" if built_from else "") + f", {LICENCE}")
        raise typer.Exit


def _arrowhead(
    version: Annotated[
        bool,
        typer.Option("--version", help="print version, commit and licence", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Biomedical questions, answered with sources."""


def _refuse(error: typer.TyperException) -> int:
    """Print the usage of the verb and what is wrong with the command line."""
    context = getattr(error, "ctx", None)
    if context is not None:
        print(context.get_usage(), file=sys.stderr)
    command = context.command_path if context is not None else "arrowhead"
    print(f"{command}: error: {error.format_message()}", file=sys.stderr)
    return error.exit_code


def _fail(error: ArrowheadError) -> int:
    from server.settings.loading import SettingsInvalid

    lines = [f"arrowhead: {line}" for line in error.message.splitlines()]
    print("\n".join([*lines, *([f"hint: {error.hint}"] if error.hint else [])]), file=sys.stderr)
    return 2 if isinstance(error, SettingsInvalid) else 1
