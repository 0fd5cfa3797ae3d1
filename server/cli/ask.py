"""Implement ``arrowhead ask``: answer one question in this process or at a running server.

Prints the transcript or the trace.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from models.errors import ArrowheadError
from models.files import parse_json
from server.cli.options import ALL_FLAGS, CommandLineSettings, with_setting_flags
from server.errors import RequestError
from server.printable import for_json, for_log

if TYPE_CHECKING:
    from urllib.error import HTTPError

    from server.evidence.reviews.differences import Difference
    from server.methods.base import AnswerRequest
    from server.settings.schema import Settings
    from server.wiring.services import ServedModel, Services

_FLAGS: Final = ALL_FLAGS - {"--host", "--port", "--trace-dir", "--model"}
_TIMEOUT_S = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Hold one question and its destination.

    ``model`` None takes GeneGPT over the served model. ``url`` None answers in this process.
    """

    text: str
    model: str | None = None
    as_json: bool = False
    url: str | None = None
    key: str | None = None
    options: dict[str, Any]


@with_setting_flags(_FLAGS)
def ask(
    cli_settings: CommandLineSettings,
    question: str,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", metavar="MODEL[:METHOD]", help="default: the default model with genegpt"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print the whole trace")] = False,
    url: Annotated[
        str | None, typer.Option(help="ask the server at this address instead of loading a model here")
    ] = None,
    key: Annotated[str | None, typer.Option(help="API key of that server")] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", "-o", metavar="KEY=VALUE", help="option of the method")
    ] = None,
) -> int:
    settings = cli_settings.load()
    options = options_of(option or ())
    spec = Question(text=question, model=model, as_json=as_json, url=url, key=key, options=options)
    if url:
        _ask_server(spec)
    else:
        _ask_in_process(spec, settings)
    return 0


@with_setting_flags(_FLAGS)
def replay(
    cli_settings: CommandLineSettings,
    trace: Annotated[str, typer.Argument(help="file of a trace (or of ask --json), or the id of an answer")],
    url: Annotated[
        str | None, typer.Option(help="server that has the trace; unset: traces.dir of the settings")
    ] = None,
    key: Annotated[str | None, typer.Option(help="API key of that server")] = None,
    choice: Annotated[int, typer.Option(min=0, help="which of several choices")] = 0,
    model: Annotated[str | None, typer.Option("--model", "-m", help="another model than the recorded one")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print what differs as JSON")] = False,
) -> int:
    import asyncio

    from server.evidence.reviews.differences import answer_differences
    from server.settings.loading import SettingsInvalid

    settings = cli_settings.load()
    try:
        recorded = _recorded_trace(trace, url, key, settings)
        record = _choice_of(recorded, choice)
        asked = model or str(recorded.get("model") or "")
        question = Question(text=str(record.get("question", "")), model=asked or None, options={})
        question, settings = _prepared(question, settings)
        again, unrecorded = asyncio.run(_replayed(question, settings, record))
    except ArrowheadError as error:
        raise SettingsInvalid(f"{trace}: cannot be replayed: {error.message}", error.fault) from error
    found = answer_differences(record, again)
    if as_json:
        differs = {one.aspect: one.record for one in found}
        told = {"trace": recorded.get("id"), "recorded_model": recorded.get("model"), "model": question.model}
        _print_json({**told, "equal": not found, "differs": differs, "unrecorded": unrecorded, "answer": again})
    else:
        _print_differences(question, found, unrecorded)
    return 1 if found else 0


def _recorded_trace(trace: str, url: str | None, key: str | None, settings: Settings) -> dict[str, Any]:
    """Return a trace by its file, its id at a server, or its id in the folder of the settings."""
    import re
    from pathlib import Path
    from urllib.parse import quote

    from server.traces import FILE_NAME

    path = Path(trace)
    try:
        if url:
            base = url.rstrip("/").removesuffix("/v1")
            found = _call(f"{base}/v1/traces/{quote(trace, safe='')}", key)
        elif path.is_file():
            found = parse_json(path.read_text(encoding="utf-8"))
        elif settings.traces.dir is not None and re.fullmatch(r"[\w-]{1,80}", trace):
            with (settings.traces.dir / FILE_NAME).open(encoding="utf-8") as lines:
                found = next((json.loads(line) for line in lines if f'"id": "{trace}"' in line[:200]), None)
        else:
            found = None
    except (OSError, ValueError) as error:
        raise RequestError(str(error)) from error
    if not isinstance(found, dict):
        raise RequestError("there is no such file, nor such a trace in traces.dir; --url names a server that has it")
    return found


def _choice_of(trace: Mapping[str, Any], number: int) -> dict[str, Any]:
    choices = trace.get("choices", [trace])
    if not isinstance(choices, list) or not number < len(choices) or not isinstance(choices[number], dict):
        raise RequestError(f"the trace has no choice {number}")
    record: dict[str, Any] = choices[number]
    if not record.get("request") or not record.get("evidence"):
        raise RequestError(
            "the trace has no recorded evidence: it is of a request with tools or a grammar of its client, or of an "
            "answer that read more than is recorded"
        )
    return record


async def _replayed(
    question: Question, settings: Settings, record: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Answer a recorded request from its record; return the new record, and the look-ups that were not recorded."""
    from server.tape import ReplayingTape, use
    from server.traces import TraceRecorder, request_of

    try:
        tape = ReplayingTape.of(record["evidence"])
        request = request_of(record["request"], f"replay-{uuid.uuid4().hex}")
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise RequestError("the recorded evidence is damaged") from error
    async with _loaded(question, settings, request) as (_, served, _):
        recorder = TraceRecorder(request)
        use(tape)
        failure = None
        try:
            async with aclosing(served.method.answer(request)) as events:
                async for event in events:
                    recorder.feed(event)
        except ArrowheadError as error:
            failure = error.fault.code
        return recorder.record(failure), tape.unrecorded


def _print_differences(question: Question, found: Sequence[Difference], unrecorded: Sequence[str]) -> None:
    from server.evidence.reviews.differences import ASPECTS

    _print(f"> {question.text}")
    differing = {one.aspect: one for one in found}
    for aspect in ASPECTS:
        _print(f"{aspect}: {'differs' if aspect in differing else 'equal'}")
        if aspect in differing:
            for sign, lines in (("-", differing[aspect].gone), ("+", differing[aspect].new)):
                for line in lines:
                    _print(f"  {sign} {line}")
    for look_up in unrecorded:
        _print(f"not recorded: {look_up}")


def options_of(texts: Sequence[str]) -> dict[str, Any]:
    """Return the method options that KEY=VALUE texts give.

    Raises:
        SettingsInvalid: one is not of this form.
    """
    return dict(map(_option, texts))


def _option(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals:
        from server.settings.loading import SettingsInvalid

        raise SettingsInvalid(f"--option {text}: write KEY=VALUE")
    try:
        # Text that is no JSON stays text, and so does a mask of digits.
        parsed = json.loads(value)
    except ValueError:
        return key, value
    return key, value if key == "mask" else parsed


def _ask_in_process(question: Question, settings: Settings) -> None:
    """Print the answer of the engine and the method in this process.

    Raises:
        ArrowheadError: the engine or the method failed.
    """
    import asyncio

    question, settings = _prepared(question, settings)
    asyncio.run(_answer_here(question, settings))


def _prepared(question: Question, settings: Settings) -> tuple[Question, Settings]:
    """Return both with the model that the question names, and set up the log."""
    from server.observability.observer import setup_logging
    from server.wiring.models import with_model
    from server.wiring.services import AUTO_ID

    if question.model and question.model != AUTO_ID:
        settings, name = with_model(settings, question.model)
        question = replace(question, model=name)
    log = settings.log
    setup_logging(log.model_copy(update={"level": "WARNING"}) if log.level == "INFO" else log)
    return question, settings


async def _answer_here(question: Question, settings: Settings) -> None:
    async with _loaded(question, settings) as (services, served, request):
        await _answer(question, services, served, request)


@asynccontextmanager
async def _loaded(
    question: Question, settings: Settings, recorded: AnswerRequest | None = None
) -> AsyncIterator[tuple[Services, ServedModel, AnswerRequest]]:
    """Load the model of a question whose options are valid, or of a recorded request, and close all at the end."""
    from server.auth.authentication import ApiKeyLookup
    from server.wiring.bootstrap import Opened, build_services
    from server.wiring.state import open_database

    services = build_services(settings, Opened(ApiKeyLookup(()), open_database(settings)))
    try:
        # Before the model is loaded, which takes long: a misspelt option fails at once.
        served, request = _checked(question, services, recorded)
        began = time.monotonic()
        services.start()
        await services.loaded()
        if services.lifecycle.failure is not None:
            raise services.lifecycle.failure
        seconds = time.monotonic() - began
        sys.stderr.write(f"loaded {services.lifecycle.card.name} in {seconds:.1f} s\n")
        yield services, served, request
    finally:
        await services.close()


def _checked(
    question: Question, services: Services, recorded: AnswerRequest | None
) -> tuple[ServedModel, AnswerRequest]:
    from server.auth.authentication import OPERATOR
    from server.methods.base import AnswerRequest, Message, Sampling

    served = services.find(question.model or f"{services.lifecycle.card.name}:genegpt", OPERATOR)
    if recorded is not None:
        return served, recorded
    request = AnswerRequest(
        request_id=f"ask-{uuid.uuid4().hex}",
        messages=(Message("user", question.text),),
        sampling=Sampling(),
        options=question.options,
    )
    served.method.check(request)
    return served, request


async def _answer(question: Question, services: Services, served: ServedModel, request: AnswerRequest) -> None:
    from server.egress.policy import NOTHING_LEFT
    from server.methods.base import CallReplied, Done, Evidence, Step
    from server.methods.shared.call_lines import call_line
    from server.tape import use
    from server.traces import TraceRecorder

    recorder = TraceRecorder(request)
    use(recorder.tape)
    references: list[dict[str, Any]] = []
    if not question.as_json:
        _print(f"> {question.text}")
    async with aclosing(served.method.answer(request)) as events:
        async for event in events:
            recorder.feed(event)
            if question.as_json:
                continue
            if isinstance(event, CallReplied):
                _print("  " + call_line(event.url, event.summary))
            elif isinstance(event, Step):
                _print(f"  {event.text}")
            elif isinstance(event, Evidence):
                references = [asdict(reference) for reference in event.references]
            elif isinstance(event, Done):
                _print_answer(recorder.record(), references)
    if question.as_json:
        left = services.egress.departures_of(request.request_id) if services.egress else NOTHING_LEFT
        _print_json({"model": served.id, **recorder.record(left=left)})


def _ask_server(question: Question) -> None:
    """Print the answer of the server at ``question.url``.

    Raises:
        RequestError: it refused the request or could not be reached.
    """
    from server.methods.shared.call_lines import call_line

    model, choice = _record_there(question)
    if question.as_json:
        _print_json({"model": model, **choice})
        return
    _print(f"> {question.text}")
    for step in choice["steps"]:
        _print(f"  {step}")
    for call in choice["calls"]:
        _print("  " + call_line(call["url"], call["summary"]))
    _print_answer(choice, choice["references"])


def _record_there(question: Question) -> tuple[str, dict[str, Any]]:
    """Ask the server, and return the model that answered with the record of the answer."""
    base = (question.url or "").rstrip("/").removesuffix("/v1")
    model = question.model or _default_model(base, question)
    body: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": question.text}]}
    if question.options:
        body["arrowhead"] = question.options
    completion = _call(f"{base}/v1/chat/completions", question.key, body)
    trace = _call(f"{base}/v1/traces/{completion['id']}", question.key)
    choice: dict[str, Any] = trace["choices"][0]
    return model, choice


def _print_answer(choice: dict[str, Any], references: Sequence[dict[str, Any]]) -> None:
    """Print an answer as it is shown, with its notes and marks, and its sources on the error stream."""
    text = choice["content"]
    if references and references[0]["end"]:
        # The list of sources has a line of its own before it.
        text = text[: references[0]["start"]].rstrip().rpartition("\n")[0]
    _print(text.strip() or choice["answer"] or f"(no answer: {choice['finish_reason']})")
    _list(references)


def _default_model(base: str, question: Question) -> str:
    served: list[str] = [model["id"] for model in _call(f"{base}/v1/models", question.key)["data"]]
    return next((name for name in served if name.endswith(":genegpt")), served[0])


def _call(url: str, key: str | None, body: dict[str, Any] | None = None) -> Any:
    import urllib.error
    import urllib.request

    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    data = None if body is None else json.dumps(body).encode()
    try:
        request = urllib.request.Request(url, data=data, headers=headers)
        # No proxy: the question goes to the server that was named and nowhere else.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=_TIMEOUT_S) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        raise RequestError(f"{url}: {_message(error)}") from error
    except (OSError, ValueError) as error:
        raise RequestError(f"{url}: {error}") from error


def _message(error: HTTPError) -> str:
    try:
        return str(json.load(error)["error"]["message"])
    except (ValueError, KeyError, TypeError, ArrowheadError):
        return f"HTTP {error.code}"


def _list(references: Sequence[Mapping[str, Any]]) -> None:
    """Print the references to stderr, since the last line of the transcript on stdout is the answer."""
    for one in references:
        line = f"  [{one['number']}] {one['title']} {one['url']}".rstrip()
        sys.stderr.write(for_log(line, 1000) + "\n")


def _print_json(value: Mapping[str, Any]) -> None:
    _print(for_json(json.dumps(value, ensure_ascii=False, indent=2)))


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
