"""The head of the audit log: what a kill leaves is caught up with, anything else is recorded as a break for ever."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from server.audit.chain import GENESIS, AuditFailed, AuditRecord, decode, head_path
from server.audit.log import AuditLog, rotated_files
from server.audit.verification import Report, snapshot, verify
from server.cli.main import main

ROOT = Path(__file__).parents[4]
CALL = AuditRecord(event="send", request_id="chatcmpl-7f-0", mode="ncbi", decision="allowed")
# No line of it equals one of ``CALL`` that was written in the same millisecond.
OTHER_CALL = replace(CALL, request_id="chatcmpl-a2-0")


def _open(folder: Path, max_bytes: int = 10**6) -> AuditLog:
    return AuditLog(folder / "audit.jsonl", level="metadata", max_bytes=max_bytes)


def _written(folder: Path, number: int, max_bytes: int = 10**6, call: AuditRecord = CALL) -> Path:
    log = _open(folder, max_bytes)
    for _ in range(number):
        log.append(call)
    log.close()
    return log.path


def _check(path: Path) -> Report:
    return verify(snapshot([path]))


def _events(path: Path) -> list[str]:
    lines = map(decode, path.read_bytes().splitlines())
    return [line.event if line is not None else "?" for line in lines]


def _cut(path: Path, lines: int) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-lines]))


def _cut_mid_line(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-150])


def _replace(path: Path) -> None:
    """Put another log of the same length in its place, whose own chain is right."""
    path.write_bytes(_written(path.parent / "other", 4).read_bytes())


def _replace_by_longer(path: Path) -> None:
    path.write_bytes(_written(path.parent / "other", 9).read_bytes())


def _write_without_the_lock(path: Path) -> None:
    """As a writer on a mount without locks: it goes on from an earlier end of the log."""
    copy = path.parent / "other" / path.name
    copy.parent.mkdir()
    copy.write_bytes(path.read_bytes())
    head_path(copy).write_text(f"{4:020d} {json.loads(path.read_bytes().splitlines()[-1])['prev']}\n")
    _cut(copy, 1)
    _written(copy.parent, 3, call=OTHER_CALL)
    path.write_bytes(copy.read_bytes())


def _truncate_head(path: Path) -> None:
    head_path(path).write_bytes(b"")


def _garble_head(path: Path) -> None:
    head_path(path).write_bytes(b"\xff" * 40)


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "shortened": (lambda path: _cut(path, 2), "lines 4 to 5 were missing"),
    "shortened to one line": (lambda path: _cut(path, 4), "lines 2 to 5 were missing"),
    "shortened in mid-line": (_cut_mid_line, "lines 5 to 5 were missing"),
    "emptied": (lambda path: path.write_bytes(b""), "lines 1 to 5 were missing"),
    "emptied but for half a line": (lambda path: path.write_bytes(b'{"seq":1,'), "lines 1 to 5 were missing"),
    "deleted": (lambda path: path.unlink(), "lines 1 to 5 were missing"),
    "replaced": (_replace, "line 5 was not the one that was written last"),
    "replaced by a longer one": (_replace_by_longer, "the lines after line 5 did not follow from it"),
    "two writers": (_write_without_the_lock, "the lines after line 5 did not follow from it"),
    "head deleted": (lambda path: head_path(path).unlink(), "the head was missing or unreadable"),
    "head emptied": (_truncate_head, "the head was missing or unreadable"),
    "head garbled": (_garble_head, "the head was missing or unreadable"),
}  # fmt: skip


@pytest.mark.parametrize("by_the_same_process", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_a_break_is_recorded_for_ever(
    tmp_path: Path, change: str, by_the_same_process: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lines that follow do not heal it, whether the writer was restarted or was running all the time."""
    do, said = CHANGES[change]
    log = _open(tmp_path)
    for _ in range(4):
        log.append(CALL)
    if not by_the_same_process:
        log.close()
    do(log.path)
    again = log if by_the_same_process else _open(tmp_path)
    for _ in range(3):
        again.append(CALL)
    again.close()
    _written(tmp_path, 2)
    report = _check(log.path)

    assert len(report.breaks) == 1 and said in report.breaks[0]
    assert main(["audit", "verify", str(log.path)]) == 1
    assert said in capsys.readouterr().out
    assert _events(log.path)[-5:] == ["send"] * 5


def test_a_break_says_what_the_head_named_and_what_was_there(tmp_path: Path) -> None:
    """No number is used twice: the next one follows the lost lines."""
    path = _written(tmp_path, 4)
    named = head_path(path).read_text().split()
    _cut(path, 2)
    _written(tmp_path, 1)
    line = [json.loads(text) for text in path.read_bytes().splitlines()][-2]

    assert (line["event"], line["seq"]) == ("break", 6)
    assert line["detail"]["head"] == [5, named[1]] and line["detail"]["last"] == [3, line["prev"]]


def test_what_is_broken_after_a_recorded_break_is_found_too(tmp_path: Path) -> None:
    """A break hides no later one, and no changed line."""
    path = _written(tmp_path, 4)
    _cut(path, 1)
    _written(tmp_path, 3)
    _cut(path, 1)
    _written(tmp_path, 2)
    assert len(_check(path).breaks) == 2 and _check(path).problem == ""

    path.write_bytes(path.read_bytes().replace(b'"seq":11', b'"seq":12'))
    report = _check(path)
    assert len(report.breaks) == 2 and "is not as it was written" in report.problem


def test_all_files_gone_but_the_head_is_a_break(tmp_path: Path) -> None:
    """And so are the rotated files of a log whose current file and head are gone."""
    path = _written(tmp_path, 30, max_bytes=4096)
    for _, file in rotated_files(path):
        file.unlink()
    path.unlink()
    _written(tmp_path, 1)
    assert "lines 1 to 3" in _check(path).breaks[0]

    other = _written(tmp_path / "other", 30, max_bytes=4096)
    other.unlink()
    head_path(other).unlink()
    _written(other.parent, 1)
    assert "the head was missing" in _check(other).breaks[0]


def test_a_line_changed_in_place_while_the_server_runs_stops_the_writing(tmp_path: Path) -> None:
    """Same file, same length: noticed before the next line is written."""
    log = _open(tmp_path)
    for _ in range(3):
        log.append(CALL)
    content = log.path.read_bytes()
    log.path.write_bytes(content[:-200] + b"x" + content[-199:])

    with pytest.raises(AuditFailed, match="is not as it was written"):
        log.append(CALL)
    log.close()


@pytest.mark.parametrize("behind", [1, 2, 3, 4, 5])
def test_a_head_that_is_behind_is_no_break(tmp_path: Path, behind: int) -> None:
    """By any number of lines that chain on, as a kill or a power failure leaves it."""
    path = tmp_path / "audit.jsonl"
    heads = [f"{0:020d} {GENESIS}\n"]
    for _ in range(4):
        _written(tmp_path, 1)
        heads.append(head_path(path).read_text())
    heads.insert(1, f"{1:020d} {json.loads(path.read_bytes().splitlines()[1])['prev']}\n")
    head_path(path).write_text(heads[5 - behind])
    _written(tmp_path, 1)
    report = _check(path)

    assert (report.problem, report.breaks, report.notes) == ("", [], []) and _events(path) == ["open"] + ["send"] * 5


# Kills itself with signal 9 right before its n-th call of the kernel's file functions, for each n in turn, in a log
# that rotates; a line that was left unfinished is one of the cases. Prints the state that each kill left.
KILLED = """
import os, signal, sys
from pathlib import Path
from server.audit.chain import AuditRecord
from server.audit.log import AuditLog

CALLS = {"write", "pwrite", "fsync", "open", "rename", "ftruncate", "flock", "mkdir", "close"}

def run(folder, kill_at, torn):
    left = kill_at
    real = os.write
    def profile(frame, event, function):
        nonlocal left
        if event != "c_call" or function.__name__ not in CALLS or function.__module__ not in ("posix", "fcntl"):
            return
        left -= 1
        if left == 0:
            if torn and function.__name__ == "write":
                sys.setprofile(None)
                real(frame.f_locals["descriptor"], frame.f_locals["data"][:57])
            os.kill(os.getpid(), signal.SIGKILL)
    log = AuditLog(folder / "audit.jsonl", level="metadata", max_bytes=1200)
    sys.setprofile(profile)
    for _ in range(4):
        log.append(AuditRecord(event="send"))
    sys.setprofile(None)
    os._exit(0)

root, at = Path(sys.argv[1]), 0
while True:
    at += 1
    ended = set()
    for torn in (False, True):
        folder = root / f"{at}-{torn:d}"
        folder.mkdir()
        child = os.fork()
        if not child:
            run(folder, at, torn)
        ended.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    if ended == {0}:
        break
    assert ended == {-9}, ended
print(at - 1)
"""


@pytest.mark.server
def test_no_kill_looks_like_a_break(tmp_path: Path) -> None:
    """kill -9 before each single system call of four lines and a rotation, twice on the same log."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=250, check=True
    )
    states = sorted(tmp_path.iterdir())
    faults: dict[str, Any] = {}
    for folder in states:
        path = _written(folder, 2, max_bytes=1200)
        report = _check(path)
        if not report.is_whole:
            faults[folder.name] = (report.problem, report.breaks)

    assert int(done.stdout) > 30 and len(states) >= 2 * int(done.stdout)
    assert faults == {}


def test_a_kill_while_a_break_is_recorded_loses_it_not(tmp_path: Path) -> None:
    """The head keeps its claim until the line is there, and the line alone is enough for the next writer."""
    path = _written(tmp_path, 4)
    before = head_path(path).read_bytes()
    _cut(path, 2)
    _written(tmp_path, 1)
    head_path(path).write_bytes(before)  # killed between the line and the head
    _written(tmp_path, 1)

    assert len(_check(path).breaks) == 1 and _events(path)[-3:] == ["break", "send", "send"]
