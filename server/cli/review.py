"""Implement ``arrowhead review``: save questions, and review their literature again to tell what is new since."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from retrieval.storage.files import Disk, FileLock, make_folder
from server.cli.ask import Question, options_of, record_of
from server.cli.options import ALL_FLAGS, CommandLineSettings, verbs, with_setting_flags
from server.errors import RequestError

if TYPE_CHECKING:
    from server.methods.shared.evidence_table import EvidenceRow, Review

FORMAT: Final = "arrowhead-review/1"
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?", re.ASCII)
_MAX_BYTES: Final = 32 * 2**20
_MAX_STORED: Final = 10

_FLAGS = ALL_FLAGS - {"--host", "--port", "--trace-dir", "--model"}
_ENDS: Final = ("before", "after")
_NOT_WHOLE = frozenset({"call_failed", "cut"})

app = verbs("questions whose literature is reviewed again: only what is new is told")

Name = Annotated[str, typer.Argument(help="name of the saved question")]
Options = Annotated[list[str] | None, typer.Option("--option", "-o", metavar="KEY=VALUE", help="option of the method")]
Model = Annotated[str | None, typer.Option("--model", "-m", metavar="MODEL:clinfo", help="default: the served model")]


@app.command(help="save a question under a name; nothing is searched yet")
def save(name: Name, question: str, option: Options = None, model: Model = None) -> int:
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
    cli_settings: CommandLineSettings,
    name: Name,
    url: Annotated[str | None, typer.Option(help="ask the server at this address")] = None,
    key: Annotated[str | None, typer.Option(help="API key of that server")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print what is new as JSON")] = False,
) -> int:
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
            raise RequestError(f"{name}: the literature could not be reviewed: {_reason(record)}; nothing is changed")
        news = news_of(saved, review)
        moment = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        store.write(with_run(saved, news, moment, review))
    if as_json:
        print(json.dumps(_as_dict(saved, news, record), ensure_ascii=False, indent=2))
    else:
        _show(saved, news, record, review)
    return 0


@app.command(help="tell which articles two runs have alone, and what changed in those of both")
def diff(
    name: Name,
    before: Annotated[
        int | None, typer.Option(metavar="RUN", help="the earlier run; default: the last but one")
    ] = None,
    after: Annotated[int | None, typer.Option(metavar="RUN", help="the later run; default: the last")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print it as JSON")] = False,
) -> int:
    from server.exports.differences import review_differences
    from server.methods.shared.evidence_table import Review, review_of

    store = _store()
    store.read_path(name)
    saved = store.read(name)
    last = saved.runs if after is None else after
    stored = {one["run"]: one for one in saved.stored}
    pair = [stored.get(run) for run in (last - 1 if before is None else before, last)]
    if pair[0] is None or pair[1] is None:
        there = ", ".join(map(str, stored)) or "none"
        raise RequestError(f"{name}: two stored runs are compared; there are: {there}; arrowhead review run {name}")
    reviews = [review_of(one["details"] if one else {}) or Review() for one in pair]
    found = review_differences(*reviews)
    if as_json:
        runs = {
            place: {key: one[key] for key in ("run", "moment")} for place, one in zip(_ENDS, pair, strict=True) if one
        }
        print(json.dumps(runs | found, ensure_ascii=False, indent=2))
    else:
        _show_differences(found, [f"run {one['run']} ({one['moment']})" for one in pair if one])
    return 0


def _show_differences(found: Mapping[str, Any], runs: Sequence[str]) -> None:
    print(f"{runs[0]} and {runs[1]}: {found['same']} articles are the same.")
    for sign, kind in (("+", "new"), ("-", "gone"), ("~", "changed")):
        for one in found[kind]:
            reason = f": {one['reason']}" if one.get("reason") else ""
            print(f"  {sign} {one['title']} ({one['uid']}){reason}")
            for change in one.get("changes", ()):
                print(f"      {change['what']}: {change['before'] or 'nothing'} -> {change['after'] or 'nothing'}")


@app.command("list", help="list the saved questions")
def list_reviews() -> int:

    store = _store()
    names, damaged = store.names(), 0
    for name in names:
        try:
            saved = store.read(name)
        except RequestError as error:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedReview:
    """Hold a question to review again.

    ``known`` are the articles of earlier runs by uid, with what was said of each: ``title``, ``since`` (day of the run
    that had it first) and ``retracted``. ``last_run`` is "" before the first run, else "2026-11-23 13:05 UTC".
    """

    name: str
    question: str
    options: Mapping[str, Any] = field(default_factory=dict)
    model: str | None = None
    created: str = ""
    last_run: str = ""
    runs: int = 0
    known: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    stored: Sequence[Mapping[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class News:
    """Hold what one run found that earlier ones did not: new articles, and known ones that are retracted by now."""

    new: tuple[EvidenceRow, ...]
    retracted: tuple[tuple[str, str], ...]


def news_of(saved: SavedReview, review: Review) -> News:
    """Return what is new in a review; a retracted article that was never evidence is no news."""
    now_retracted = {row.uid: row.title for row in review.rows if "retracted" in row.notices}
    now_retracted |= {one.uid: one.title for one in review.excluded if "retracted" in f"{one.stage} {one.reason}"}
    notices = tuple(
        (uid, title)
        for uid, title in now_retracted.items()
        if uid in saved.known and not saved.known[uid].get("retracted")
    )
    return News(tuple(row for row in review.rows if row.uid not in saved.known), notices)


def with_run(saved: SavedReview, news: News, moment: str, review: Review | None = None) -> SavedReview:
    """Return the saved review after a run at ``moment``; articles stay known, also those not found again."""
    known = {uid: dict(one) for uid, one in saved.known.items()}
    known |= {row.uid: {"title": row.title, "since": moment[:10], "retracted": False} for row in news.new}
    for uid, _ in news.retracted:
        known[uid]["retracted"] = True
    details = {} if review is None else review.details
    stored = [*saved.stored, {"run": saved.runs + 1, "moment": moment, "details": details}]
    return replace(saved, known=known, last_run=moment, runs=saved.runs + 1, stored=stored[-_MAX_STORED:])


def _store() -> SavedReviews:
    from server.settings.loading import reviews_dir

    return SavedReviews(reviews_dir())


def _reason(record: Mapping[str, Any]) -> str:
    return " ".join(str(record.get("answer") or record.get("error") or "the method returned no review").split())


def _gaps(record: Mapping[str, Any]) -> list[str]:
    """Return what kept a run from being whole, as the method told it."""
    faults = [str(one) for one in (record.get("details") or {}).get("faults") or ()]
    return faults or (["a limit ended the answer"] if record.get("outcome") in _NOT_WHOLE else [])


def _as_dict(saved: SavedReview, news: News, record: Mapping[str, Any]) -> dict[str, Any]:
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
    from retrieval.references.csl import reference_line

    print(f"> {saved.question}")
    since = f"since {saved.last_run}" if saved.runs else "at the first run"
    articles = "article" if len(news.new) == 1 else "articles"
    new = "new " if saved.runs else ""
    print(f"{len(news.new) or 'No'} {new}{articles} {since}.")
    if gaps := _gaps(record):
        print(f"Not all was searched or read, so articles may be missing: {'; '.join(gaps)}.")
    for row in news.new:
        reference = reference_line(row.item or {"title": row.title, "URL": row.url})
        kind = f" ({row.level})" if row.level else ""
        print(f"  + {reference}{kind}")
        if row.result.value:
            print(f"      {row.result.value}")
    for uid, title in news.retracted:
        print(f"  ! retracted since: {title} ({uid})")
    if not saved.runs and record.get("answer"):
        print(f"\n{str(record['answer']).strip()}")


class SavedReviews:
    """Store saved reviews in a folder, readable by its owner alone; a kill leaves the old or the new file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._disk = Disk()

    def names(self) -> list[str]:
        return sorted(path.stem for path in self._folder.glob("*.json") if _NAME.fullmatch(path.stem))

    def add(self, saved: SavedReview) -> None:
        """Store a new one.

        Raises:
            RequestError: there is one of this name, or it cannot be written.
        """
        with self.held(saved.name):
            if self._path(saved.name).exists():
                raise RequestError(f"there is a review {saved.name!r} already; remove it, or take another name")
            self.write(saved)

    def read(self, name: str) -> SavedReview:
        """Return one.

        Raises:
            RequestError: there is none, or its file is damaged.
        """
        path = self._path(name)
        try:
            if path.stat().st_size > _MAX_BYTES:
                raise RequestError(f"{path}: longer than a saved review can be")
            fields = json.loads(path.read_text(encoding="utf-8"))
            if fields.pop("format") != FORMAT:
                raise RequestError(f"{path}: no saved review of this version")
            return SavedReview(**fields)
        except FileNotFoundError:
            there = ", ".join(self.names()) or "none"
            raise RequestError(f"there is no review {name!r}; there are: {there}") from None
        except OSError as error:
            raise RequestError(f"{path}: cannot be read: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RequestError(f"{path}: damaged; remove it and save the question again") from error

    def write(self, saved: SavedReview) -> None:
        """Store one in place of its earlier state.

        Raises:
            RequestError: it cannot be written; the earlier state stays.
        """
        text = json.dumps({"format": FORMAT, **asdict(saved)}, ensure_ascii=False, indent=1)
        try:
            make_folder(self._folder)
            self._disk.replace(self._path(saved.name), text.encode())
        except OSError as error:
            raise RequestError(f"{self._folder}: cannot be written: {error.strerror}") from error

    def remove(self, name: str) -> None:
        """Forget one.

        Raises:
            RequestError: there is none, or it is being run.
        """
        self.read_path(name)
        with self.held(name):
            self._disk.remove([self._path(name)])

    def read_path(self, name: str) -> Path:
        """Return the path of an existing one; raises RequestError where there is none."""
        path = self._path(name)
        if not path.exists():
            there = ", ".join(self.names()) or "none"
            raise RequestError(f"there is no review {name!r}; there are: {there}")
        return path

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Keep others from running or changing it meanwhile.

        Raises:
            RequestError: somebody else does.
        """
        path = self._path(name)
        try:
            make_folder(self._folder)
            lock = FileLock(path.with_name(f".{name}.lock"))
        except BlockingIOError:
            raise RequestError(f"review {name!r} is being run or changed by another process") from None
        except OSError as error:
            raise RequestError(f"{self._folder}: cannot be written: {error.strerror}") from error
        try:
            yield
        finally:
            lock.close()

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise RequestError(
                f"{name[:80]!r} is no name for a review: small letters, digits, dots, dashes and underscores, "
                "64 at most, beginning and ending with a letter or digit"
            )
        return self._folder / f"{name}.json"
