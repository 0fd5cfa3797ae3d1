"""Folders that namespaces follow: looked at again and again, read as jobs, and what is told of them."""

from __future__ import annotations

import logging
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from corpus_doubles import WordEncoder, backends
from waiting import until

from retrieval.corpus.namespaces.registry import Namespaces
from server.jobs.followed_folders import FolderFollower, Followed, FollowedFolder, follows_object
from server.jobs.local_queue import LocalJobQueue
from server.jobs.queue import JobLimits

EVERY_S = 0.05
MAX = 1_000_000


class Site:
    """A folder, the namespaces, and what follows it; ``restart`` starts another follower on the same data."""

    def __init__(self, place: Path) -> None:
        self.root = place / "papers of all"
        self.root.mkdir()
        self.namespaces = Namespaces(place / "namespaces", backends(WordEncoder()))
        self.follower = self._follower()

    def _follower(self, every_s: float = EVERY_S) -> FolderFollower:
        followed = Followed(self.namespaces, LocalJobQueue(JobLimits()), "words", MAX)
        return FolderFollower({"papers": self.root}, followed, every_s, settled_s=EVERY_S)

    async def restart(self, every_s: float = EVERY_S) -> None:
        await self.follower.close()
        self.follower = self._follower(every_s)
        self.follower.start()

    @property
    def state(self) -> FollowedFolder:
        found = self.follower.state("papers")
        assert found is not None
        return found

    def titles(self) -> set[str]:
        if not self.namespaces.stores.exists("papers"):
            return set()
        with self.namespaces.using("papers") as namespace:
            return {one.document.title for one in namespace.store.documents((), 100)}


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    site = Site(tmp_path)
    yield site
    await site.follower.close()


async def test_a_folder_is_followed_and_after_a_restart_too(site: Site) -> None:
    """The namespace is made, with the folder's name as its title."""
    (site.root / "a.md").write_text("# One\nwords")
    site.follower.start()
    await until(lambda: site.titles() == {"One"})
    assert site.namespaces.describe("papers").title == "papers of all"
    (site.root / "b.md").write_text("# Two\nwords")
    await until(lambda: site.titles() == {"One", "Two"})
    await site.restart()
    (site.root / "a.md").unlink()
    await until(lambda: site.titles() == {"Two"})
    await until(lambda: site.state.files == 1 and site.state.waiting == 0)
    assert site.state.checked and not site.state.problem
    assert site.follower.state("other") is None


async def test_new_files_are_looked_at_again_soon(site: Site) -> None:
    """Not only at the next regular look, which may be an hour away."""
    (site.root / "a.md").write_text("# One\nwords")
    await site.restart(every_s=3600.0)
    await until(lambda: site.titles() == {"One"})


async def test_a_folder_that_is_gone_or_empty_takes_no_document_along(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """Its disk may not be mounted; the page and the log tell, the log without names."""
    (site.root / "a.md").write_text("# One\nwords")
    site.follower.start()
    await until(lambda: site.titles() == {"One"})
    with caplog.at_level(logging.WARNING):
        (site.root / "a.md").unlink()
        await until(lambda: "the folder is empty" in site.state.problem)
        shutil.rmtree(site.root)
        await until(lambda: "cannot be read" in site.state.problem)
    assert site.titles() == {"One"}
    assert "has a problem" in caplog.text and "papers" not in caplog.text
    site.root.mkdir()
    (site.root / "b.md").write_text("# Two\nwords")
    await until(lambda: site.titles() == {"Two"} and not site.state.problem)


async def test_a_job_that_fails_is_told_and_tried_again(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """Here another process changes the namespace."""
    site.follower.start()
    await until(lambda: site.state.checked)
    with caplog.at_level(logging.WARNING), site.namespaces.writer_lock("papers"):
        (site.root / "a.md").write_text("# One\nwords")
        await until(lambda: site.state.problem)
    assert "cause=CorpusError" in caplog.text
    await until(lambda: site.titles() == {"One"} and not site.state.problem)


def test_only_operators_are_told_the_whole_path() -> None:
    """Others know the folder's name."""
    state = FollowedFolder("/srv/papers", files=2, waiting=1)
    told = {"folder": "papers", "files": 2, "waiting": 1, "checked": None, "problem": None}
    assert follows_object(state, with_path=False) == told
    assert follows_object(state, with_path=True) == told | {"folder": "/srv/papers"}
