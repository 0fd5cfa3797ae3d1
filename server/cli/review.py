"""Implement ``arrowhead review``: save questions, and review their literature again to tell what is new since."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from server.cli.ask import AskFailed, Question, options_of, record_of
from server.cli.options import ALL_FLAGS, GivenSettings, verbs, with_setting_flags

if TYPE_CHECKING:
    from collections.abc import Mapping

    from server.cli.saved_reviews import News, SavedReview, SavedReviews
    from server.methods.shared.evidence_table import Review

_FLAGS = ALL_FLAGS - {"--host", "--port", "--trace-dir", "--model"}
_NOT_WHOLE = frozenset({"call_failed", "cut"})

app = verbs("questions whose literature is reviewed again: only what is new is told")

Name = Annotated[str, typer.Argument(help="name of the saved question")]
Options = Annotated[list[str] | None, typer.Option("--option", "-o", metavar="KEY=VALUE", help="option of the method")]
Model = Annotated[str | None, typer.Option("--model", "-m", metavar="MODEL:clinfo", help="default: the served model")]


@app.command(help="save a question under a name; nothing is searched yet")
def save(name: Name, question: str, option: Options = None, model: Model = None) -> int:
    from server.cli.saved_reviews import SavedReview
    from server.methods.clinfo.options import parse_options
    from server.settings.loading import SettingsInvalid

    text = " ".join(question.split())
    if not text:
        raise SettingsInvalid("the question is empty")
    if model is not None and not model.endswith(":clinfo"):
        raise SettingsInvalid(f"--model {model}: only the method clinfo reviews literature; write MODEL:clinfo")
    options = options_of(option or ())
    parse_options(options)
    created = datetime.now(UTC).strftime("%Y-%m-%d")
    _store().add(SavedReview(name=name, question=text, options=options, model=model, created=created))
    print(f"saved {name}; arrowhead review run {name} reviews it")
    return 0


@app.command(help="review the literature again and tell what is new since the last time")
@with_setting_flags(_FLAGS)
def run(
    cli_settings: GivenSettings,
    name: Name,
    url: Annotated[str | None, typer.Option(help="ask the server at this address")] = None,
    key: Annotated[str | None, typer.Option(help="API key of that server")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print what is new as JSON")] = False,
) -> int:
    from server.cli.saved_reviews import news_of, with_run
    from server.methods.shared.evidence_table import review_of

    store = _store()
    store.read_path(name)
    with store.held(name):
        saved = store.read(name)
        spec = Question(
            text=saved.question,
            model=saved.model,
            as_json=True,
            url=url,
            key=key,
            options=dict(saved.options),
            method="clinfo",
        )
        record = record_of(spec, cli_settings.load())
        review = review_of(record.get("details") or {})
        if review is None or record.get("outcome") == "call_failed":
            raise AskFailed(f"{name}: the literature could not be reviewed: {_reason(record)}; nothing is changed")
        news = news_of(saved, review)
        moment = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        store.write(with_run(saved, news, moment))
    if as_json:
        print(json.dumps(_told(saved, news, record), ensure_ascii=False, indent=2))
    else:
        _show(saved, news, record, review)
    return 0


@app.command("list", help="list the saved questions")
def list_reviews() -> int:
    from server.cli.saved_reviews import ReviewRefused

    store = _store()
    names, damaged = store.names(), 0
    for name in names:
        try:
            saved = store.read(name)
        except ReviewRefused as error:
            print(error.message, file=sys.stderr)
            damaged += 1
            continue
        when = f"{saved.runs} runs, the last {saved.last_run}" if saved.runs else "not run yet"
        print(f"{saved.name}\t{len(saved.known)} articles\t{when}\t{saved.question}")
    if not names:
        print("no saved questions; arrowhead review save NAME QUESTION makes one", file=sys.stderr)
    return 1 if damaged else 0


@app.command(help="forget a saved question and what is known of it")
def remove(name: Name) -> int:
    _store().remove(name)
    print(f"removed {name}")
    return 0


def _store() -> SavedReviews:
    from server.cli.saved_reviews import SavedReviews
    from server.settings.paths import reviews_dir

    return SavedReviews(reviews_dir())


def _reason(record: Mapping[str, Any]) -> str:
    return " ".join(str(record.get("answer") or record.get("error") or "the method returned no review").split())


def _gaps(record: Mapping[str, Any]) -> list[str]:
    """Return what kept a run from being whole, as the method told it."""
    faults = [str(one) for one in (record.get("details") or {}).get("faults") or ()]
    return faults or (["a limit ended the answer"] if record.get("outcome") in _NOT_WHOLE else [])


def _told(saved: SavedReview, news: News, record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": saved.name,
        "question": saved.question,
        "since": saved.last_run,
        "new": [{"uid": row.uid, "title": row.title, "url": row.url, "item": dict(row.item)} for row in news.new],
        "retracted": [{"uid": uid, "title": title} for uid, title in news.retracted],
        "outcome": record.get("outcome"),
        "gaps": _gaps(record),
        "answer": record.get("answer"),
    }


def _show(saved: SavedReview, news: News, record: Mapping[str, Any], review: Review) -> None:
    """Print what is new with a reference each; the whole answer only at the first run."""
    from retrieval.references.styles import STYLES, ReferenceStyles, Style

    print(f"> {saved.question}")
    since = f"since {saved.last_run}" if saved.runs else "at the first run"
    articles = "article" if len(news.new) == 1 else "articles"
    new = "new " if saved.runs else ""
    print(f"{len(news.new) or 'No'} {new}{articles} {since}.")
    if gaps := _gaps(record):
        print(f"Not all was searched or read, so articles may be missing: {'; '.join(gaps)}.")
    styles = ReferenceStyles()
    style: Style = next((one for one in STYLES if one == review.style), "nlm")
    for row in news.new:
        reference = styles.text(row.item or {"title": row.title, "URL": row.url}, style)
        kind = f" ({row.level})" if row.level else ""
        print(f"  + {reference}{kind}")
        if row.result.value:
            print(f"      {row.result.value}")
    for uid, title in news.retracted:
        print(f"  ! retracted since: {title} ({uid})")
    if not saved.runs and record.get("answer"):
        print(f"\n{str(record['answer']).strip()}")
