"""The audit log: its chain, its files, what breaks it, and what only looks as if it did."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.audit.chain import AuditFailed, AuditRecord, Level, digest_of, head_path
from server.audit.log import MAX_PENDING, AuditLog, AuditRecorder, rotated_files
from server.audit.verification import Report, snapshot, verify

ROOT = Path(__file__).parents[4]
CALL = AuditRecord(
    event="send", request_id="chatcmpl-7f-0", key_id="1a2b3c4d", mode="ncbi", decision="allowed",
    where="eutils.ncbi.nlm.nih.gov", endpoint="esearch", db="gene", classes=("symbol",), request_bytes=120,
    params={"db": "gene", "term": "LMP10"},
)  # fmt: skip
START = AuditRecord(event="start", mode="ncbi")


def _log(folder: Path, *, max_bytes: int = 10**6, level: Level = "metadata") -> AuditLog:
    moment = datetime(2026, 1, 31, 8, 0, 0, 123456, tzinfo=UTC)
    return AuditLog(folder / "audit.jsonl", level=level, max_bytes=max_bytes, now=lambda: moment)


def _written(folder: Path, number: int, **options: Any) -> Path:
    log = _log(folder, **options)
    for _ in range(number):
        log.append(CALL)
    log.close()
    return log.path


def _check(path: Path) -> Report:
    return verify(snapshot([path]))


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_a_line_says_what_went_where_and_not_what_was_asked(tmp_path: Path) -> None:
    """Number, time, who, what kind, how much; the values only as hashes that differ from file to file."""
    first, other = _written(tmp_path / "a", 2), _written(tmp_path / "b", 1)
    header, line, again = _lines(first)

    assert (header["seq"], header["event"], header["prev"]) == (1, "open", "0" * 64)
    assert (line["seq"], line["time"], line["key_id"]) == (2, "2026-01-31T08:00:00.123Z", "1a2b3c4d")
    assert (line["where"], line["classes"], line["request_bytes"]) == ("eutils.ncbi.nlm.nih.gov", ["symbol"], 120)
    assert line["prev"] == digest_of(first.read_bytes().splitlines()[0])
    assert b"LMP10" not in first.read_bytes() and "params" not in line
    assert line["values"]["term"] == again["values"]["term"] != _lines(other)[1]["values"]["term"]


def test_at_level_request_the_values_stand_in_clear(tmp_path: Path) -> None:
    """For a site that has to show what was asked."""
    assert _lines(_written(tmp_path, 1, level="request"))[1]["params"] == {"db": "gene", "term": "LMP10"}


def test_the_owner_alone_can_read(tmp_path: Path) -> None:
    """0600 for every file of it, also where an earlier one was open to others."""
    path = _written(tmp_path, 1)
    path.chmod(0o644)
    _written(tmp_path, 20, max_bytes=4096)

    files = [path, head_path(path), *(file for _, file in rotated_files(path))]
    assert len(files) > 2 and {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_a_whole_log_is_whole(tmp_path: Path) -> None:
    """Also after a restart, which goes on with the chain."""
    _written(tmp_path, 2)
    report = _check(_written(tmp_path, 2))

    assert (report.problem, report.notes, report.num_lines, report.next.seq) == ("", [], 5, 6)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of a log of five lines."""
    return _written(tmp_path_factory.mktemp("small"), 3, max_bytes=1500)


@given(data=st.data())
def test_a_changed_byte_is_found(small: Path, data: st.DataObject) -> None:
    """Anywhere in any file of the log, whatever it is changed to."""
    files = [file for _, file in rotated_files(small)] + [small]
    file = data.draw(st.sampled_from(files))
    content = file.read_bytes()
    at = data.draw(st.integers(0, len(content) - 1))
    new = data.draw(st.integers(0, 255).filter(lambda byte: byte != content[at]))
    try:
        file.write_bytes(content[:at] + bytes([new]) + content[at + 1 :])
        assert _check(small).problem
    finally:
        file.write_bytes(content)


def test_the_first_broken_line_is_named(tmp_path: Path) -> None:
    """By file and number, counted from 1."""
    path = _written(tmp_path, 4)
    path.write_bytes(path.read_bytes().replace(b'"seq":3', b'"seq":8'))

    assert _check(path).problem == f"{path}: line 3 is not as it was written"


@pytest.mark.parametrize("change", ["drop", "swap", "repeat"])
def test_lines_cannot_be_moved(tmp_path: Path, change: str) -> None:
    """Whole lines, each of them right by itself."""
    path = _written(tmp_path, 4)
    lines = path.read_bytes().splitlines(keepends=True)
    changed = {"drop": [*lines[:2], *lines[3:]], "swap": [*lines[:2], lines[3], lines[2], lines[4]],
               "repeat": [*lines[:3], lines[2], *lines[3:]]}[change]  # fmt: skip
    path.write_bytes(b"".join(changed))

    assert "line 3" in _check(path).problem or "line 4" in _check(path).problem


def test_lines_cut_off_at_the_end_are_missed(tmp_path: Path) -> None:
    """The chain still holds; the head knows how long it was."""
    path = _written(tmp_path, 4)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-2]))

    assert "the last 2 line(s) are missing (truncated tail)" in _check(path).problem


def test_a_log_without_its_head_is_whole_with_a_note(tmp_path: Path) -> None:
    """What cannot be known is said."""
    path = _written(tmp_path, 2)
    head_path(path).unlink()
    report = _check(path)

    assert report.problem == "" and "whether lines were cut off is not known" in report.notes[0]


def test_a_replaced_last_line_is_found(tmp_path: Path) -> None:
    """Another log's line, with a chain that fits: the head has another hash."""
    path = _written(tmp_path, 3)
    whole = path.read_bytes().splitlines(keepends=True)
    head = head_path(path).read_bytes()
    path.write_bytes(b"".join(whole[:-1]))
    head_path(path).unlink()
    log = _log(tmp_path)
    log.append(AuditRecord(event="stop"))
    log.close()
    head_path(path).write_bytes(head)

    assert "line 4 is not the line that was written last" in _check(path).problem


def test_files_are_put_aside_and_stay_one_chain(tmp_path: Path) -> None:
    """No file is longer than the limit; numbers go on; the first line of each follows the last of the one before."""
    path = _written(tmp_path, 30, max_bytes=4096)
    older = [file for _, file in rotated_files(path)]
    report = _check(path)

    assert len(older) >= 3 and max(file.stat().st_size for file in [*older, path]) <= 4096
    assert (report.problem, report.num_lines) == ("", 30 + len(older) + 1)
    assert _lines(older[1])[0]["prev"] == digest_of(older[0].read_bytes().splitlines()[-1])
    assert verify(snapshot([*older[1:], path])).problem == ""
    assert verify(snapshot([older[1]])).problem == ""


@pytest.mark.parametrize(("gone", "said"), [(1, ".1 is missing"), (2, ".2 is missing"), (0, "truncated tail")])
def test_a_missing_file_is_named(tmp_path: Path, gone: int, said: str) -> None:
    """The first, one in the middle, the present one."""
    path = _written(tmp_path, 30, max_bytes=4096)
    (path if gone == 0 else Path(f"{path}.{gone}")).unlink()

    assert said in _check(path).problem


def test_files_in_the_wrong_order_are_no_chain(tmp_path: Path) -> None:
    """Named one by one, they are read as they are named."""
    path = _written(tmp_path, 30, max_bytes=4096)
    older = [file for _, file in rotated_files(path)]

    assert "does not follow" in verify(snapshot([older[1], older[0]])).problem
    assert "should follow" in verify(snapshot([older[0], older[2]])).problem


def test_a_deleted_log_leaves_a_break(tmp_path: Path) -> None:
    """The next line goes on with the number the head remembers, and records what is lost."""
    path = _written(tmp_path, 3)
    path.unlink()
    _written(tmp_path, 1)
    report = _check(path)

    assert report.problem == "" and "lines 1 to 4 were missing" in report.breaks[0]
    assert [line["seq"] for line in _lines(path)] == [5, 6]


@pytest.mark.parametrize("length", [1, 40, 400])
def test_an_unfinished_line_is_closed_off_and_reported(tmp_path: Path, length: int) -> None:
    """A killed process left the beginning of a line: broken for now, then a note; the chain goes on."""
    path = _written(tmp_path, 2)
    torn = path.read_bytes().splitlines()[1][:length]
    path.write_bytes(path.read_bytes() + torn)

    assert "line 4 has no end (truncated tail)" in _check(path).problem
    _written(tmp_path, 1)
    report = _check(path)
    assert report.problem == "" and "line 4 was left unfinished" in report.notes[0]
    assert [line.get("event") for line in map(json.loads, path.read_bytes().splitlines()[4:])] == ["torn", "send"]


def test_a_closed_off_line_cannot_be_changed_later(tmp_path: Path) -> None:
    """The line behind it has its hash and its length."""
    path = _written(tmp_path, 2)
    path.write_bytes(path.read_bytes() + b'{"seq":4,"tim')
    _written(tmp_path, 1)
    path.write_bytes(path.read_bytes().replace(b'{"seq":4,"tim\n', b'{"seq":4,"tin\n'))

    assert "line 4 is not as it was written" in _check(path).problem


def test_a_line_that_only_lacks_its_end_gets_it(tmp_path: Path) -> None:
    """Nothing was lost."""
    path = _written(tmp_path, 2)
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))

    assert _check(_written(tmp_path, 1)).problem == "" and len(_lines(path)) == 4


def test_a_file_without_a_whole_line_begins_anew(tmp_path: Path) -> None:
    """The process died while it wrote the first line of all."""
    (tmp_path / "audit.jsonl").write_bytes(b'{"seq":1,"time"')
    path = _written(tmp_path, 1)

    assert _check(path).problem == "" and _lines(path)[0]["detail"]["torn_bytes"] == 15


def test_a_wrong_last_line_stops_the_writing(tmp_path: Path) -> None:
    """Going on would bury it; the message says what to do."""
    path = _written(tmp_path, 2)
    path.write_bytes(path.read_bytes().replace(b'"seq":3', b'"seq":4'))

    with pytest.raises(AuditFailed, match="move the log away"):
        _log(tmp_path).append(CALL)


def test_what_is_no_ordinary_file_is_not_written(tmp_path: Path) -> None:
    """A link could lead anywhere, a pipe keeps nothing."""
    (tmp_path / "else").write_text("")
    (tmp_path / "audit.jsonl").symlink_to(tmp_path / "else")
    os.mkfifo(tmp_path / "pipe")

    for log in (_log(tmp_path), AuditLog(tmp_path / "pipe", level="metadata", max_bytes=4096)):
        with pytest.raises(AuditFailed):
            log.append(CALL)
    assert (tmp_path / "else").read_text() == ""


WRITER = """
import resource, signal, sys
from pathlib import Path
from server.audit.log import AuditFailed, AuditLog
from server.audit.chain import AuditRecord
path, number, limit = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
if limit:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
log = AuditLog(path, level="metadata", max_bytes=3000 if not limit else 10**6)
failed = 0
for n in range(number):
    try:
        log.append(AuditRecord(event="send", request_id=f"{sys.argv[4]}-{n}"))
    except AuditFailed:
        failed += 1
    if n == 0:
        print("begun", flush=True)
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    log.append(AuditRecord(event="stop"))
print(failed)
"""


def _writer(path: Path, number: int, name: str, limit: int = 0) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), str(number), str(limit), name]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


@pytest.mark.server
def test_two_processes_write_one_chain(tmp_path: Path) -> None:
    """Line by line, through many files; every line of both is there once."""
    path = tmp_path / "audit.jsonl"
    writers = [_writer(path, 60, name) for name in "ab"]
    for writer in writers:
        assert writer.communicate(timeout=250)[0].split()[-1] == "0"
    files = [*(file for _, file in rotated_files(path)), path]
    written = [line["request_id"] for file in files for line in _lines(file) if line["event"] == "send"]

    assert _check(path).problem == "" and len(files) > 5
    assert sorted(written) == sorted(f"{name}-{n}" for name in "ab" for n in range(60))


@pytest.mark.server
def test_a_killed_process_leaves_a_log_that_goes_on(tmp_path: Path) -> None:
    """kill -9 in the middle of writing: at the next line the log is whole."""
    path = tmp_path / "audit.jsonl"
    writer = _writer(path, 100_000, "a")
    assert writer.stdout is not None and writer.stdout.readline() == "begun\n"
    time.sleep(0.05)
    writer.send_signal(signal.SIGKILL)
    writer.wait(60)
    writer.stdout.close()
    log = _log(tmp_path)
    log.append(AuditRecord(event="stop"))
    log.close()

    assert _check(path).problem == "" and _lines(path)[-1]["event"] == "stop"


@pytest.mark.server
def test_a_full_disk_takes_no_half_line(tmp_path: Path) -> None:
    """Writing ends in the middle of a line: it is taken back, counted as failed, and the log goes on later."""
    path = tmp_path / "audit.jsonl"
    writer = _writer(path, 20, "a", limit=2000)
    failed = int(writer.communicate(timeout=250)[0].split()[-1])
    report = _check(path)

    assert 0 < failed < 20
    assert (report.problem, report.notes, report.num_lines) == ("", [], 1 + 20 - failed + 1)


async def test_records_nobody_waits_for_are_written_in_turn(tmp_path: Path) -> None:
    """Before the last line, which says that the server stopped."""
    auditor = AuditRecorder(_log(tmp_path), "refuse")
    auditor.begin(START)
    for _ in range(20):
        auditor.note(AuditRecord(event="refused"))
    await auditor.record(CALL)
    await auditor.close()

    events = [line["event"] for line in _lines(tmp_path / "audit.jsonl")]
    assert events == ["open", "start", *["refused"] * 20, "send", "stop"]
    with pytest.raises(AuditFailed, match="is closed"):
        await auditor.record(CALL)


class CountingLog(AuditLog):
    """Count how often the disk is waited for."""

    batches: list[int]

    def append_all(self, records: Sequence[AuditRecord]) -> list[int]:
        self.batches.append(len(records))
        return super().append_all(records)


async def test_refusals_are_on_the_disk_once_they_were_waited_for(tmp_path: Path) -> None:
    """More than fit into one batch, in their order; many of them share a wait for the disk."""
    log = CountingLog(tmp_path / "audit.jsonl", level="metadata", max_bytes=20_000)
    log.batches = []
    auditor = AuditRecorder(log, "refuse")
    for number in range(2000):
        auditor.note(AuditRecord(event="refused", request_id=f"r{number}"))
    await auditor.written()
    files = [*(file for _, file in rotated_files(log.path)), log.path]
    lines = [line["request_id"] for file in files for line in _lines(file) if line["event"] == "refused"]

    assert lines == [f"r{number}" for number in range(2000)]
    assert len(log.batches) < 200 and sum(log.batches) == 2000
    assert len(files) > 5 and _check(log.path).is_whole
    await auditor.close()


async def test_what_finds_no_room_is_counted_and_told(tmp_path: Path) -> None:
    """A gap is a line of the log, and verify names it; nothing else is lost."""
    auditor = AuditRecorder(_log(tmp_path, max_bytes=10**8), "refuse")
    auditor.begin(START)
    hold = threading.Event()
    assert auditor._thread is not None
    auditor._thread.submit(hold.wait)
    for _ in range(MAX_PENDING + 15):
        auditor.note(AuditRecord(event="refused"))
    hold.set()
    await auditor.written()
    await auditor.record(CALL)
    await auditor.close()

    lines = _lines(tmp_path / "audit.jsonl")
    assert sum(line["event"] == "refused" for line in lines) == MAX_PENDING
    assert [line["detail"] for line in lines if line["event"] == "gap"] == [{"missing": 15}]
    report = _check(tmp_path / "audit.jsonl")
    assert not report.is_whole and report.problem == ""
    assert len(report.breaks) == 1 and "15 line(s) before it could not be written" in report.breaks[0]


FULL_DISK = """
import asyncio, os, resource, signal, sys
from pathlib import Path
from server.audit.chain import AuditRecord
from server.audit.log import MAX_PENDING, AuditLog, AuditRecorder
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

async def main():
    auditor = AuditRecorder(AuditLog(Path(sys.argv[1]), level="metadata", max_bytes=10**6), "refuse")
    auditor.begin(AuditRecord(event="start"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
    for _ in range(20):
        auditor.note(AuditRecord(event="refused"))
    await auditor.written()
    print("refused", flush=True)
    if sys.argv[2] == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await auditor.close()

asyncio.run(main())
"""


@pytest.mark.server
@pytest.mark.parametrize("then", ["dies", "lives"])
def test_what_a_full_disk_did_not_take_is_told(tmp_path: Path, then: str) -> None:
    """By the head, until a line can be written; kill -9 takes nothing of it away."""
    path = tmp_path / "audit.jsonl"
    command = [sys.executable, "-c", FULL_DISK, str(path), then]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=250, check=False)
    refused = sum(line["event"] == "refused" for line in _lines(path))
    report = _check(path)

    assert done.stdout == "refused\n" and 0 < refused < 20
    assert report.problem == "" and len(report.breaks) == 1
    assert f"{20 - refused} line(s)" in report.breaks[0]
    assert ("as the head counts" in report.breaks[0]) == (then == "dies")
    log = _log(tmp_path)
    log.append(AuditRecord(event="stop"))
    log.close()
    gaps = [line["detail"] for line in _lines(path) if line["event"] == "gap"]
    assert gaps == [{"missing": 20 - refused}] and len(_check(path).breaks) == 1


async def test_a_start_without_a_log_is_refused_or_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """By the operator's choice; with no log at all, every record is dropped."""
    (tmp_path / "file").write_text("")
    with pytest.raises(AuditFailed, match=r"audit\.jsonl: "):
        AuditRecorder(_log(tmp_path / "file"), "refuse").begin(START)
    AuditRecorder(_log(tmp_path / "file"), "continue").begin(START)
    assert "audit line not written: event=start" in caplog.text

    none = AuditRecorder(None, "refuse")
    none.begin(START)
    none.note(START)
    await none.record(START)
    await none.close()
