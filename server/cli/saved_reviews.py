"""Keep questions whose literature is reviewed again and again, each with the articles that are known: a file each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from retrieval.storage.files import Disk, FileLock, make_folder
from server.errors import RequestError
from server.methods.shared.evidence_table import EvidenceRow, Review

FORMAT: Final = "arrowhead-review/1"
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?", re.ASCII)
_MAX_BYTES: Final = 32 * 2**20


class ReviewRefused(RequestError):
    """Signal that a saved review is missing, exists already, is being run or cannot be read or written."""


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


@dataclass(frozen=True, slots=True)
class News:
    """Hold what one run found that earlier ones did not: new articles, and known ones that are retracted by now."""

    new: tuple[EvidenceRow, ...]
    retracted: tuple[tuple[str, str], ...]


def news_of(saved: SavedReview, review: Review) -> News:
    """Return what is new in a review; a retracted article that was never evidence is no news."""
    now_retracted = {row.uid: row.title for row in review.rows if "retracted" in row.notices}
    now_retracted |= {one.uid: one.title for one in review.excluded if "retracted" in f"{one.stage} {one.reason}"}
    told = tuple(
        (uid, title)
        for uid, title in now_retracted.items()
        if uid in saved.known and not saved.known[uid].get("retracted")
    )
    return News(tuple(row for row in review.rows if row.uid not in saved.known), told)


def with_run(saved: SavedReview, news: News, moment: str) -> SavedReview:
    """Return the saved review after a run at ``moment``; articles stay known, also those not found again."""
    known = {uid: dict(one) for uid, one in saved.known.items()}
    known |= {row.uid: {"title": row.title, "since": moment[:10], "retracted": False} for row in news.new}
    for uid, _ in news.retracted:
        known[uid]["retracted"] = True
    return replace(saved, known=known, last_run=moment, runs=saved.runs + 1)


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
            ReviewRefused: there is one of this name, or it cannot be written.
        """
        with self.held(saved.name):
            if self._path(saved.name).exists():
                raise ReviewRefused(f"there is a review {saved.name!r} already; remove it, or take another name")
            self.write(saved)

    def read(self, name: str) -> SavedReview:
        """Return one.

        Raises:
            ReviewRefused: there is none, or its file is damaged.
        """
        path = self._path(name)
        try:
            if path.stat().st_size > _MAX_BYTES:
                raise ReviewRefused(f"{path}: longer than a saved review can be")
            told = json.loads(path.read_text(encoding="utf-8"))
            if told.pop("format") != FORMAT:
                raise ReviewRefused(f"{path}: no saved review of this version")
            return SavedReview(**told)
        except FileNotFoundError:
            there = ", ".join(self.names()) or "none"
            raise ReviewRefused(f"there is no review {name!r}; there are: {there}") from None
        except OSError as error:
            raise ReviewRefused(f"{path}: cannot be read: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ReviewRefused(f"{path}: damaged; remove it and save the question again") from error

    def write(self, saved: SavedReview) -> None:
        """Store one in place of its earlier state.

        Raises:
            ReviewRefused: it cannot be written; the earlier state stays.
        """
        text = json.dumps({"format": FORMAT, **asdict(saved)}, ensure_ascii=False, indent=1)
        try:
            make_folder(self._folder)
            self._disk.replace(self._path(saved.name), text.encode())
        except OSError as error:
            raise ReviewRefused(f"{self._folder}: cannot be written: {error.strerror}") from error

    def remove(self, name: str) -> None:
        """Forget one.

        Raises:
            ReviewRefused: there is none, or it is being run.
        """
        self.read_path(name)
        with self.held(name):
            self._disk.remove([self._path(name)])

    def read_path(self, name: str) -> Path:
        """Return the path of an existing one; raises ReviewRefused where there is none."""
        path = self._path(name)
        if not path.exists():
            there = ", ".join(self.names()) or "none"
            raise ReviewRefused(f"there is no review {name!r}; there are: {there}")
        return path

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        """Keep others from running or changing it meanwhile.

        Raises:
            ReviewRefused: somebody else does.
        """
        path = self._path(name)
        try:
            make_folder(self._folder)
            lock = FileLock(path.with_name(f".{name}.lock"))
        except BlockingIOError:
            raise ReviewRefused(f"review {name!r} is being run or changed by another process") from None
        except OSError as error:
            raise ReviewRefused(f"{self._folder}: cannot be written: {error.strerror}") from error
        try:
            yield
        finally:
            lock.close()

    def _path(self, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise ReviewRefused(
                f"{name[:80]!r} is no name for a review: small letters, digits, dots, dashes and underscores, "
                "64 at most, beginning and ending with a letter or digit"
            )
        return self._folder / f"{name}.json"
