"""Parse the flags of the ``arrowhead`` command, load the settings and call one function per verb.

Exit status: 0 done, 1 failed, 2 the command or the settings are wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from models.errors import ArrowheadError
from models.torch_runtime.openmp import limit_spin_count
from server.cli.gateway import add_gateway
from server.cli.graph import add_graph
from server.cli.keys import add_key
from server.cli.namespaces import add_index, add_namespace
from server.cli.search import add_search
from server.settings.loading import SettingsInvalid, load_settings

# Flag -> setting, for serve and ask. Every other setting has its variable and its line in the TOML file.
_FLAGS: dict[str, tuple[str, str, str]] = {
    "--host": ("server", "host", "address to listen on (127.0.0.1)"),
    "--port": ("server", "port", "port to listen on (8000)"),
    "--model": ("model", "name", "directory or hub id; default: the embedded model"),
    "--served-name": ("model", "served_name", "name clients use"),
    "--engine": ("model", "engine", "auto, transformers, vllm or scripted"),
    "--script": ("model", "script", "script of the scripted engine"),
    "--prompt-form": ("model", "prompt_form", "base or chat"),
    "--dtype": ("model", "dtype", "auto, float32, bfloat16 or float16"),
    "--device": ("model", "device", "auto, cpu, cuda or cuda:N"),
    "--max-model-len": ("model", "max_model_len", "tokens of prompt and answer together"),
    "--max-num-seqs": ("model", "max_num_seqs", "sequences decoded together"),
    "--kv-cache-gib": ("model", "kv_cache_gib", "memory for cached prefixes"),
    "--egress": ("egress", "mode", "off (nothing leaves this machine), local-first or ncbi"),
    "--audit-log": ("audit", "path", "audit log of what leaves"),
    "--email": ("ncbi", "email", "contact address for NCBI"),
    "--eutils-url": ("ncbi", "eutils_url", "E-utilities address"),
    "--blast-url": ("ncbi", "blast_url", "BLAST address"),
    "--gateway-data": ("gateway", "data_dir", "store of the built-in gateway"),
    "--max-calls": ("loop", "max_calls", "calls of one answer"),
    "--trace-dir": ("traces", "dir", "folder for traces on disk"),
    "--log-level": ("log", "level", "DEBUG, INFO, WARNING or ERROR"),
    "--log-format": ("log", "format", "text or json"),
}
_NOT_FOR_ASK = frozenset({"--host", "--port", "--trace-dir", "--model"})


def main(argv: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    run: Callable[[argparse.Namespace], int] = args.run
    limit_spin_count()
    try:
        return run(args)
    except SettingsInvalid as error:
        return _fail(error, 2)
    except ArrowheadError as error:
        return _fail(error, 1)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output closed the pipe (`arrowhead models | head -1`).
        sys.stderr.close()
        return 0


def _fail(error: ArrowheadError, status: int) -> int:
    lines = [f"arrowhead: {line}" for line in error.message.splitlines()]
    print("\n".join([*lines, *([f"hint: {error.hint}"] if error.hint else [])]), file=sys.stderr)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="arrowhead", description="Biomedical questions, answered with sources.")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    serve = verbs.add_parser("serve", help="serve the OpenAI API")
    _add_settings(serve, _FLAGS)
    serve.set_defaults(run=_serve)
    ask = verbs.add_parser("ask", help="answer one question")
    ask.add_argument("question")
    ask.add_argument("--model", "-m", metavar="MODEL[:METHOD]", help="default: the embedded model with genegpt")
    ask.add_argument("--json", action="store_true", help="print the whole trace")
    ask.add_argument("--url", help="ask the server at this address instead of loading a model here")
    ask.add_argument("--key", help="API key of that server")
    ask.add_argument("--option", "-o", action="append", default=[], metavar="KEY=VALUE", help="option of the method")
    _add_settings(ask, {flag: target for flag, target in _FLAGS.items() if flag not in _NOT_FOR_ASK})
    ask.set_defaults(run=_ask)
    models = verbs.add_parser("models", help="list the models and methods that can be served")
    _add_settings(models, {"--model": _FLAGS["--model"], "--served-name": _FLAGS["--served-name"]})
    models.set_defaults(run=_models)
    add_namespace(verbs.add_parser("namespace", help="corpora of one's own, and their indices"))
    add_index(verbs.add_parser("index", help="vector and word indices of namespaces"))
    add_search(verbs.add_parser("search", help="search namespaces"))
    add_graph(verbs.add_parser("graph", help="knowledge graphs"))
    add_key(verbs.add_parser("key", help="keys of clients: make, list, revoke"))
    add_gateway(verbs.add_parser("gateway", help="the local NCBI gateway"))
    _add_audit(verbs.add_parser("audit", help="the log of what left this machine"))
    doctor = verbs.add_parser("doctor", help="check this machine and the settings")
    _add_settings(doctor, _FLAGS)
    doctor.set_defaults(run=_doctor)
    return parser


def _add_settings(parser: argparse.ArgumentParser, flags: dict[str, tuple[str, str, str]]) -> None:
    parser.add_argument("--config", type=Path, help="settings file (TOML)")
    for flag, (group, field, text) in flags.items():
        parser.add_argument(flag, dest=f"{group}.{field}", metavar=field.upper(), help=text)


def _add_audit(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    for name, text, run in (
        ("verify", "check that no line was changed, moved or lost", _audit_verify),
        ("show", "print the lines", _audit_show),
    ):
        verb = verbs.add_parser(name, help=text)
        verb.add_argument("file", nargs="*", type=Path, help="default: the server's log with its older files")
        verb.add_argument("--config", type=Path, help="settings file (TOML)")
        verb.set_defaults(run=run)
        if name == "show":
            verb.add_argument("--since", metavar="TIME", help="2026-01-31 or 2026-01-31T08:00:00Z")
            verb.add_argument("--request-id", metavar="ID", help="an answer's id, e.g. chatcmpl-…")
            verb.add_argument("--json", action="store_true", help="the lines as they stand in the file")


def _settings(args: argparse.Namespace) -> Any:
    given: dict[str, dict[str, Any]] = {}
    for name, value in vars(args).items():
        group, dot, field = name.partition(".")
        if dot and value is not None:
            given.setdefault(group, {})[field] = value
    return load_settings(given, args.config)


# Each verb imports what it needs: `arrowhead models` must not wait for a server's libraries.


def _serve(args: argparse.Namespace) -> int:
    settings = _settings(args)
    from server.observability.logging_setup import setup_logging
    from server.serving.run import run_server

    setup_logging(settings.log)
    return run_server(settings)


def _ask(args: argparse.Namespace) -> int:
    settings = _settings(args)
    from server.cli.ask import Question, ask
    from server.observability.logging_setup import setup_logging
    from server.wiring.models import with_model

    if args.model and not args.url:
        settings, args.model = with_model(settings, args.model)

    setup_logging(
        settings.log.model_copy(update={"level": "WARNING"}) if settings.log.level == "INFO" else settings.log
    )
    options = dict(_option(text) for text in args.option)
    question = Question(
        text=args.question, model=args.model, as_json=args.json, url=args.url, key=args.key, options=options
    )
    ask(question, settings)
    return 0


def _option(text: str) -> tuple[str, Any]:
    import json

    key, equals, value = text.partition("=")
    if not equals:
        raise SettingsInvalid(f"--option {text}: write KEY=VALUE")
    try:
        # Text that is no JSON stays text, and so does a mask of digits.
        parsed = json.loads(value)
    except ValueError:
        return key, value
    return key, value if key == "mask" else parsed


def _models(args: argparse.Namespace) -> int:
    settings = _settings(args)
    from server.methods.registry import METHOD_NAMES
    from server.wiring.models import find_cards

    cards = find_cards(settings)
    for card in cards:
        facts = f"{card.prompt_form}, {card.context_length} tokens, {card.licence}"
        print(f"{card.name}\t{facts}\t{card.description or card.source}")
        for method in METHOD_NAMES:
            print(f"{card.name}:{method}")
    if not cards:
        print("no model is installed: name one with --model, or install the embedded model's files", file=sys.stderr)
    return 0 if cards else 1


def _audit_files(args: argparse.Namespace) -> list[Path]:
    from server.settings.paths import audit_path

    return args.file or [audit_path(load_settings(None, args.config))]


def _audit_verify(args: argparse.Namespace) -> int:
    from server.cli.audit import verify_log

    return verify_log(_audit_files(args))


def _audit_show(args: argparse.Namespace) -> int:
    from server.cli.audit import LineFilter, parse_since, show_log

    since = parse_since(args.since) if args.since else None
    return show_log(_audit_files(args), LineFilter(since=since, request_id=args.request_id, as_json=args.json))


def _doctor(args: argparse.Namespace) -> int:
    settings = _settings(args)
    from server.cli.doctor import examine, report

    findings = examine(settings)
    print(report(findings))
    return 1 if any(finding.status == "fail" for finding in findings) else 0
