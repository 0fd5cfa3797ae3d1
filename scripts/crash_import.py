"""Kill imports at random moments and check that the store is unchanged or contains the whole file.

    python -m scripts.crash_import --kills 500

Each child imports the files of an invented site in sequence and is killed with SIGKILL at a random moment; the next
child continues in the same folder until everything is imported, then a new folder is started. After every kill the
store must be intact, each file must be imported completely or not at all, and a finished folder must have the content
of an import without kills.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from retrieval.formats.items import ReadOptions
from retrieval.gateway.importing.registry import KINDS
from retrieval.gateway.importing.run import import_file
from retrieval.gateway.store.open import STORE_NAME
from scripts.make_ncbi_sample import write_sample
from scripts.samples.world import World

FILES: Final = {
    "gene_info": ("gene", "gene_info.gz"),
    "dbsnp_vcf": ("snp", "GCF_000001405.40.gz"),
    "clinvar": ("clinvar", "variant_summary.txt.gz"),
    "pubmed": ("pubmed", "pubmed26n0001.xml.gz"),
}


@dataclass(slots=True)
class Tally:
    """``finished``: children that were done before their kill came; ``torn``: anything but the old or the new store."""

    kills: int = 0
    finished: int = 0
    torn: int = 0
    folders: int = 0


def run(files: Path, work: Path, kills: int, seed: int) -> Tally:
    draw, tally = random.Random(seed), Tally()
    whole, seconds = undisturbed(files, work / "whole")
    while tally.kills < kills:
        tally.folders += 1
        folder = work / f"{tally.folders}"
        while tally.kills < kills and _counts(folder) != whole:
            child = _start(files, folder)
            time.sleep(draw.uniform(0, seconds * 0.6))
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            tally.kills += os.WIFSIGNALED(status)
            tally.finished += os.WIFEXITED(status)
            tally.torn += not is_sound(folder, whole)
    return tally


def undisturbed(files: Path, folder: Path) -> tuple[dict[str, int], float]:
    started = time.monotonic()
    _import_all(files, folder)
    return _counts(folder), time.monotonic() - started


def _start(files: Path, folder: Path) -> int:
    """A process of its own; forked, since starting an interpreter would take longer than the import."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            _import_all(files, folder)
            os._exit(0)
        os._exit(1)
    return child


def _import_all(files: Path, folder: Path) -> None:
    for kind, (_, name) in FILES.items():
        import_file(folder, KINDS[kind], files / name, ReadOptions(), lambda _: None)


def _counts(folder: Path) -> dict[str, int]:
    """Rows of each kind that the store says is in it."""
    with _store(folder) as store:
        done = {kind for (kind,) in store.execute("SELECT kind FROM imported")} if store else set()
        return {
            kind: int(store.execute(f"SELECT count(*) FROM {db}").fetchone()[0])
            for kind, (db, _) in FILES.items()
            if store and kind in done
        }


def is_sound(folder: Path, whole: dict[str, int]) -> bool:
    with _store(folder) as store:
        if store is None:
            return True
        if store.execute("PRAGMA integrity_check").fetchone() != ("ok",):
            return False
        counts = _counts(folder)
        others = [db for kind, (db, _) in FILES.items() if kind not in counts]
        is_site = store.execute("SELECT value FROM meta WHERE key = 'kind'").fetchone() == ("site",)
        strays = [db for db in others if is_site and store.execute(f"SELECT count(*) FROM {db}").fetchone() != (0,)]
        return not strays and all(counts[kind] == whole[kind] for kind in counts)


@contextlib.contextmanager
def _store(folder: Path) -> Iterator[sqlite3.Connection | None]:
    path = folder / STORE_NAME
    if not path.exists():
        yield None
        return
    with contextlib.closing(sqlite3.connect(path)) as store:
        yield store


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "files").mkdir()
        write_sample(work / "files", World(args.seed, 400, 400, 400), lambda _: None)
        tally = run(work / "files", work, args.kills, args.seed)
    print(json.dumps(asdict(tally)))
    return 1 if tally.torn else 0


if __name__ == "__main__":
    sys.exit(main())
