"""The BLAST service around its searches: queue, limits, ends, kills, what is forgotten and what is never told."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from blast_data import bases, finished, get, put, running_in, script
from waiting import until

from retrieval.gateway.blast.process import RunLimits
from retrieval.gateway.blast.service import BlastEngine, BlastOptions, BlastService, SampleDatabase, open_blast
from retrieval.gateway.store.open import load_corpus

SLOW = RunLimits(wall_s=120.0, cpu_s=120)


async def test_without_blast_installed_the_search_fails_and_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine without ncbi-blast+ a Put ends as FAILED, with the package's name."""
    monkeypatch.setenv("PATH", str(tmp_path))
    service = open_blast(load_corpus().segments, tmp_path / "sample")
    page = await finished(service, await put(service, "ACGT" * 10))
    assert "Status=FAILED" in page and "install ncbi-blast+" in page


def _stand_in(
    folder: Path, monkeypatch: pytest.MonkeyPatch, blastn: str, options: BlastOptions | None = None
) -> tuple[BlastEngine, BlastOptions]:
    """An engine over one database that is files only, and a blastn that does as it is told."""
    for name in ("genes.nin", "genes.nsq", "genes.nhr"):
        path = folder / "site" / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
    script(folder, "blastn", blastn)
    script(folder, "blast_formatter", "exit 0")
    monkeypatch.setenv("PATH", str(folder))
    chosen = options or BlastOptions(limits=RunLimits(wall_s=0.5, cpu_s=1))
    return BlastEngine(SampleDatabase((), folder / "sample"), [folder / "site"], chosen), chosen


@pytest.mark.parametrize(
    ("blastn", "message"),
    [
        ("exec /bin/sleep 60", "ran longer than 0.5 s"),
        ("/bin/sleep 60 & /bin/sleep 60", "ran longer than 0.5 s"),
        ("echo boom >&2; exit 3", "blastn failed: boom"),
        ("kill -XCPU $$", "processor time"),
        ("/bin/cat /dev/zero", "more than the 33554432 bytes"),
    ],
)
async def test_a_hanging_failing_or_babbling_program_ends_as_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blastn: str, message: str
) -> None:
    """The time limit, the exit status and the output are all checked, and each failure is told apart."""
    engine, options = _stand_in(tmp_path, monkeypatch, blastn)
    if "zero" in blastn:
        options = replace(options, limits=RunLimits())
        engine, options = _stand_in(tmp_path, monkeypatch, blastn, options)
    service = BlastService(engine, options)
    page = await finished(service, await put(service, "ACGT" * 10, DATABASE="genes"))
    assert "Status=FAILED" in page and message in page


async def test_a_search_that_never_ends_is_stopped_by_its_processor_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit holds for the program itself, not for the clock on the wall."""
    limits = RunLimits(wall_s=200.0, cpu_s=1)
    engine, options = _stand_in(tmp_path, monkeypatch, "while :; do :; done", BlastOptions(limits=limits))
    service = BlastService(engine, options)
    page = await finished(service, await put(service, "ACGT" * 10, DATABASE="genes"))
    assert "Status=FAILED" in page and "more than 1 s of processor time" in page


@pytest.mark.parametrize("ending", ["delete", "close", "timeout"])
async def test_nothing_of_an_ended_search_runs_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    """Deleted, shut down or out of time: the program and its children are gone."""
    limits = RunLimits(wall_s=0.5 if ending == "timeout" else 60.0)
    blastn = "/bin/sleep 600 & /bin/sleep 600"
    engine, options = _stand_in(tmp_path, monkeypatch, blastn, BlastOptions(limits=limits))
    service = BlastService(engine, options)
    rid = await put(service, "ACGT" * 10, DATABASE="genes")
    await until(lambda: len(running_in(tmp_path)) == 3 or ending == "timeout")
    if ending == "delete":
        await service.answer({"CMD": "Delete", "RID": rid})
    elif ending == "close":
        await service.aclose()
    else:
        assert "ran longer than 0.5 s" in await finished(service, rid)
    await until(lambda: not running_in(tmp_path))


async def test_children_of_a_program_that_has_ended_are_killed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrapper around blast+ may be gone while what it started still holds the output open."""
    limits = RunLimits(wall_s=0.5)
    engine, options = _stand_in(tmp_path, monkeypatch, "/bin/sleep 600 & exit 0", BlastOptions(limits=limits))
    service = BlastService(engine, options)
    rid = await put(service, "ACGT" * 10, DATABASE="genes")
    assert "ran longer than 0.5 s" in await finished(service, rid)
    await until(lambda: not running_in(tmp_path))


@pytest.mark.server
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="util-linux is not installed")
async def test_a_killed_server_leaves_no_search_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """kill -9 of the gateway's process ends the programs it started."""
    _stand_in(tmp_path, monkeypatch, "exec /bin/sleep 600")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.defpath}")
    code = """
import asyncio, sys
from pathlib import Path
from retrieval.gateway.blast.service import open_blast
async def main(folder):
    service = open_blast((), folder / "sample")
    await service.answer({"CMD": "Put", "QUERY": "ACGT" * 10, "DATABASE": "genes"})
    await asyncio.sleep(60)
asyncio.run(main(Path(sys.argv[1])))
"""
    (tmp_path / "blast").symlink_to(tmp_path / "site")
    root = Path(__file__).parents[5]
    server = await asyncio.create_subprocess_exec(sys.executable, "-c", code, str(tmp_path), cwd=root)
    try:
        # Before it is sleep, it is setpriv, which has yet to ask for the signal.
        await until(lambda: [Path(f"/proc/{one}/comm").read_text() for one in running_in(tmp_path)] == ["sleep\n"])
    finally:
        server.kill()
        await server.wait()
    await until(lambda: not running_in(tmp_path))


async def test_a_search_is_run_again_when_its_database_is_replaced_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second run sees the new database whole; a result of a database that is gone is not written out."""
    replacing = (
        "[ -e seen ] || { : > seen; /bin/mv genes.new genes.nin; echo broken; exit 1; }; /bin/cat > /dev/null; echo ok"
    )
    engine, options = _stand_in(tmp_path, monkeypatch, replacing, BlastOptions(limits=SLOW))
    (tmp_path / "site" / "genes.new").touch()
    service = BlastService(engine, options)
    rid = await put(service, "ACGT" * 10, DATABASE="genes")
    assert "Status=READY" in await finished(service, rid)
    assert (await get(service, rid, "XML")).status == 200
    (tmp_path / "site" / "genes.next").touch()
    script(tmp_path, "blast_formatter", "/bin/cat > /dev/null; /bin/mv genes.next genes.nin; exit 1")
    assert "Status=UNKNOWN" in (await get(service, rid, "XML")).body
    page = (await get(service, rid, "XML")).body
    assert "Status=UNKNOWN" in page and "database genes was replaced since the search" in page


async def test_of_25_puts_at_once_20_are_taken_and_5_turned_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queue is bounded, whatever comes in the same moment; those turned away get 429 and no RID."""
    engine, options = _stand_in(tmp_path, monkeypatch, "exec /bin/sleep 60", BlastOptions())
    service = BlastService(engine, options)
    params = {"CMD": "Put", "PROGRAM": "blastn", "DATABASE": "genes", "QUERY": "ACGT" * 10}
    pages = await asyncio.gather(*(service.answer(params) for _ in range(25)))
    assert sorted(page.status for page in pages) == [200] * 20 + [429] * 5
    refused = next(page for page in pages if page.status == 429)
    assert "too many searches" in refused.body and re.search(r"RID = *\n", refused.body)
    await service.aclose()


async def test_old_results_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After its time a RID is unknown, and its search is ended."""
    engine, _ = _stand_in(tmp_path, monkeypatch, "exec /bin/sleep 60", BlastOptions())
    now = [0.0]
    service = BlastService(engine, BlastOptions(ttl_s=100.0), clock=lambda: now[0])
    rid = await put(service, "ACGT" * 10, DATABASE="genes")
    assert "Status=WAITING" in (await get(service, rid, "Text")).body
    now[0] = 101.0
    assert "Status=UNKNOWN" in (await get(service, rid, "Text")).body
    await service.aclose()


async def test_what_is_old_is_forgotten_though_nobody_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sequence may be a patient's: a quiet server must not keep it for the next call to clear away."""
    options = BlastOptions(ttl_s=0.3, limits=SLOW)
    engine, _ = _stand_in(tmp_path, monkeypatch, "exec /bin/sleep 60", options)
    service = BlastService(engine, options)
    await put(service, "ACGT" * 10, DATABASE="genes")
    await until(lambda: bool(running_in(tmp_path)))
    await until(lambda: not running_in(tmp_path))


@pytest.mark.parametrize("bound", [{"max_kept": 3}, {"max_kept_bytes": 3500}])
async def test_the_oldest_results_make_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: dict[str, int]
) -> None:
    """Results are bounded by number and by bytes; the last ones stay."""
    engine, options = _stand_in(tmp_path, monkeypatch, f"/bin/cat >/dev/null; echo '{'x' * 1000}'", BlastOptions())
    service = BlastService(engine, replace(options, **bound))  # type: ignore[arg-type]
    rids = []
    for _ in range(5):
        rids.append(await put(service, "ACGT" * 10, DATABASE="genes"))
        await finished(service, rids[-1])
    known = ["Status=READY" in await finished(service, rid) for rid in rids]
    assert known == [False, False, True, True, True]


async def test_no_sequence_and_no_title_reaches_the_log_or_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Even where the program repeats them in its complaint."""
    caplog.set_level(logging.DEBUG)
    engine, options = _stand_in(tmp_path, monkeypatch, "/bin/cat >&2; exit 1")
    service = BlastService(engine, options)
    secret = bases(60, 9)
    page = await finished(service, await put(service, f">Jane Doe\n{secret}", DATABASE="genes"))
    logged = " ".join(record.getMessage() for record in caplog.records if record.name.startswith("retrieval"))
    assert "Status=FAILED" in page and "blastn search in genes failed" in logged
    for text in (page, logged):
        assert "Jane" not in text and secret[:12] not in text
