"""FASTA into BLAST databases: identifiers, errors, kills; and what is found in folders."""

from __future__ import annotations

import gzip
import hashlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from blast_data import bases, needs_blast, residues, running_in, script, write_fasta
from hypothesis import example, given
from hypothesis import strategies as st

from retrieval.errors import BLAST_DATABASE, GatewayDataError
from retrieval.gateway.blast.databases.build import FastaTotals, build_blast_database, fasta_text, taxid_lines
from retrieval.gateway.blast.databases.catalog import BlastDatabase, discover_databases, is_unchanged, read_database
from retrieval.storage.files import build_lock, recover, recover_all, replace_folder


@pytest.fixture
def quick_path(tmp_path: Path) -> Iterator[Path]:
    """In memory where that can be had: a database is synced to the disk several times."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


def entries(folder: Path, name: str, form: str = "%a|%l|%T|%t") -> list[str]:
    """One line for each sequence, read with blastdbcmd."""
    command = ["blastdbcmd", "-db", name, "-entry", "all", "-outfmt", form]
    return subprocess.run(command, cwd=folder / name, check=True, capture_output=True, text=True).stdout.splitlines()


def build(fasta: Path, folder: Path, **more: object) -> BlastDatabase:
    given_ = {"name": "genes", "title": "Genes", "molecule": "nucl", **more}
    return build_blast_database([fasta], folder, **given_)  # type: ignore[arg-type]


def rewritten(text: bytes, folder: Path, *, numbered: bool = False, molecule: str = "nucl") -> tuple[str, FastaTotals]:
    path = folder / "x.fasta"
    path.write_bytes(text)
    totals = FastaTotals()
    pieces = fasta_text([path], molecule, totals, numbered=numbered)  # type: ignore[arg-type]
    return b"".join(pieces).decode("ascii"), totals


@needs_blast
def test_a_gzip_file_becomes_a_database_that_says_what_it_is(quick_path: Path) -> None:
    """Counts, source with its SHA-256, version and files are recorded, and found again."""
    fasta = quick_path / "genes.fa.gz"
    fasta.write_bytes(gzip.compress(f">NM_1.1 one\n{bases(90, 1)}\n>NM_2.1 two\n{bases(60, 2)}\n".encode()))
    made = build(fasta, quick_path / "blast", taxids=9606)
    assert (made.sequences, made.letters, made.taxids, made.numbered) == (2, 150, True, False)
    assert [(s.name, s.sha256) for s in made.sources] == [
        ("genes.fa.gz", hashlib.sha256(fasta.read_bytes()).hexdigest())
    ]
    assert made.made_with.startswith("2.") and made.made_at.endswith("+00:00")
    assert entries(quick_path / "blast", "genes") == ["NM_1.1|90|9606|one", "NM_2.1|60|9606|two"]
    found = discover_databases([quick_path / "blast"])
    assert dict(found.databases) == {"genes": made} and not found.problems


@needs_blast
def test_repeated_and_unusual_identifiers_are_no_obstacle(quick_path: Path) -> None:
    """A repeated one gives all of them numbers; the original stays in the title, and organisms follow."""
    text = f">ENST1.2|ENSG3|X| first\n{bases(30, 1)}\n>a,b(c) q\n{bases(31, 2)}\n>\n{bases(32, 3)}\n"
    odd = quick_path / "odd.fasta"
    odd.write_text(text)
    made = build(odd, quick_path / "blast", taxids={"ENST1.2|ENSG3|X|": 7, "a,b(c)": 8})
    assert not made.numbered
    assert entries(quick_path / "blast", "genes") == [
        "ENST1.2|30|7|ENST1.2|ENSG3|X| first", "a_b_c_|31|8|a,b(c) q", "sequence3|32|0|",
    ]  # fmt: skip
    odd.write_text(text + f">a,b(c) again\n{bases(33, 4)}\n")
    assert build(odd, quick_path / "blast", taxids={"a,b(c)": 8}).numbered
    assert entries(quick_path / "blast", "genes")[1::2] == ["a_b_c__2|31|8|a,b(c) q", "a_b_c__4|33|8|a,b(c) again"]


@needs_blast
def test_a_database_without_a_sequence_is_makeblastdbs_error(quick_path: Path) -> None:
    """Its own words, and the old database stays."""
    good = write_fasta(quick_path / "good.fasta", {"one": bases(50, 1)})
    build(good, quick_path / "blast")
    (quick_path / "empty.fasta").touch()
    with pytest.raises(GatewayDataError, match="makeblastdb failed: No sequences added", check=BLAST_DATABASE.is_of):
        build(quick_path / "empty.fasta", quick_path / "blast")
    assert entries(quick_path / "blast", "genes") == ["one|50|0|"]
    assert [path.name for path in (quick_path / "blast").glob(".*")] == [".genes.lock"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"ACGT\n", "x.fasta:1: no FASTA: sequence before the first title line"),
        (b">a\n>b\nACGT\n", "x.fasta:1: a sequence without letters"),
        (b">a\nACGT\n>b\n", "x.fasta:3: a sequence without letters"),
        (b">a\nACGT\nACGTMEEP\n", "x.fasta:3: 'E' is no letter of a nucleotide sequence"),
        (b">a\n" + b"ACGT" * 700_000 + b"!\n", "x.fasta:2: '!' is no letter"),
        (b">a\nAC\x00GT\n", "x.fasta:2: '\\x00' is no letter"),
        (b">" + b"t" * 1_100_000 + b"\nACGT\n", "x.fasta:1: the title is longer than"),
        (gzip.compress(b">a\nACGT\n" * 99, mtime=0)[:-9], "x.fasta: the gzip file is cut off or damaged"),
        (b"\x1f\x8bnot really", "x.fasta: the gzip file is cut off or damaged"),
    ],
)
def test_a_bad_file_is_named_with_its_line(tmp_path: Path, content: bytes, message: str) -> None:
    """makeblastdb would drop the letters it does not know with a note; here nothing is dropped."""
    with pytest.raises(GatewayDataError, check=BLAST_DATABASE.is_of) as wrong:
        rewritten(content, tmp_path)
    assert message in wrong.value.message


@pytest.mark.parametrize(
    ("defline", "expected"),
    [
        ("NM_000546.6 Homo sapiens", "NM_000546.6 Homo sapiens"),
        ("sp|P04637|P53_HUMAN Tumor", "sp|P04637|P53_HUMAN Tumor"),
        ("gi|12|ref|NM_1.1| x", "gi|12|ref|NM_1.1| x"),
        ("pdb|1TUP|A x", "pdb|1TUP|A x"),
        ("gnl|db|a x", "gnl|db|a x"),
        ("foo|bar|baz x", "lcl|foo foo|bar|baz x"),
        ("  spaced   out ", "spaced out"),
        ("naïve x", "lcl|na_ve na?ve x"),
        ("A" * 30 + " x", "lcl|" + "A" * 30 + "_37b9403c " + "A" * 30 + " x"),
        ("", "lcl|sequence1"),
        ("NM_1.1 x\x01NM_2.1 y", "NM_1.1 x\x01NM_2.1 y"),
    ],
)
def test_identifiers_are_kept_where_makeblastdb_takes_them(tmp_path: Path, defline: str, expected: str) -> None:
    """And rewritten where it would break off."""
    text, _ = rewritten(f">{defline}\r\nACGT\r\n".encode(), tmp_path)
    assert text == f">{expected}\nACGT\n"


def test_letters_are_counted_over_files_and_long_lines(tmp_path: Path) -> None:
    """A chromosome on one line is read in pieces."""
    text, totals = rewritten(b">a\n" + b"ACGTN" * 600_000 + b"\n\n>b\n ac gt \n", tmp_path)
    assert (totals.sequences, totals.letters) == (2, 3_000_004)
    assert text.replace("\n", "") == ">a" + "ACGTN" * 600_000 + ">bacgt"


@given(st.lists(st.tuples(st.text(max_size=80), st.text("ACGTN\n ", min_size=1)), max_size=5), st.booleans())
@example([("\x010", "A"), ("a b\x01\x01c", "A"), ("\x01", "A")], False)
def test_whatever_a_title_holds_the_text_stays_fasta(pairs: list[tuple[str, str]], numbered: bool) -> None:
    """One line for each title, with an identifier of at most 50 plain characters; no letter is lost."""
    kept = [(title.replace("\n", " ").replace("\r", " "), letters) for title, letters in pairs if letters.split()]
    with tempfile.TemporaryDirectory() as folder:
        source = "".join(f">{title}\n{letters}\n" for title, letters in kept)
        text, totals = rewritten(source.encode("utf-8", "replace"), Path(folder), numbered=numbered)
    lines = [line for line in text.splitlines() if line.startswith(">")]
    assert len(lines) == totals.sequences == len(kept)
    assert totals.letters == sum(len("".join(letters.split())) for _, letters in kept)
    for title in (title for line in lines for title in line[1:].split("\x01")):
        token = title.split(" ")[0]
        assert 0 < len(token.removeprefix("lcl|")) <= 100 and token.isprintable()


def test_uniprots_organisms_are_read_from_its_titles(tmp_path: Path) -> None:
    """OX= is the number; a sequence without it has none."""
    fasta = write_fasta(tmp_path / "p.fasta", {"sp|P1|A x OS=Homo sapiens OX=9606 GN=A": "ME", "tr|Q2|B y": "ME"})
    assert list(taxid_lines([fasta], "uniprot", numbered=False)) == ["P1 9606\n"]


@pytest.mark.parametrize("name", ["", "../evil", "a b", "Genes", ".x", "-x", "x" * 64, "genes\n"])
def test_a_name_that_is_no_plain_word_is_refused(tmp_path: Path, name: str) -> None:
    """Before anything is written."""
    with pytest.raises(GatewayDataError, match="a name is", check=BLAST_DATABASE.is_of):
        build(tmp_path / "x.fasta", tmp_path / "blast", name=name)
    assert not (tmp_path / "blast").exists()


def test_makeblastdb_has_a_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hanging one is killed with its children."""
    script(tmp_path, "makeblastdb", "/bin/sleep 60 & /bin/sleep 60")
    script(tmp_path, "blastdbcmd", "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path))
    fasta = write_fasta(tmp_path / "x.fasta", {f"s{n}": bases(9000, n) for n in range(50)})
    with pytest.raises(GatewayDataError, match=r"makeblastdb ran longer than 0.3 s", check=BLAST_DATABASE.is_of):
        build(fasta, tmp_path / "blast", timeout_s=0.3)
    assert not running_in(tmp_path)
    assert [path.name for path in (tmp_path / "blast").iterdir()] == [".genes.lock"]


def test_a_database_is_built_by_one_process_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one is told so."""
    for name in ("makeblastdb", "blastdbcmd"):
        script(tmp_path, name, "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("retrieval.gateway.blast.databases.build._LOCK_WAIT_S", 0.0)
    (tmp_path / "blast").mkdir()
    with (
        build_lock(tmp_path / "blast" / "genes", wait_s=0),
        pytest.raises(GatewayDataError, match="being built by another process", check=BLAST_DATABASE.is_of),
    ):
        build(write_fasta(tmp_path / "x.fasta", {"a": "ACGT"}), tmp_path / "blast")


def _rebuild_for_ever(fasta: list[Path], folder: Path) -> None:
    while True:
        for path in fasta:
            build(path, folder)


@pytest.mark.server
@needs_blast
def test_a_kill_at_any_moment_leaves_a_whole_database(quick_path: Path) -> None:
    """12 builders are killed with -9 at random moments; blastdbcmd reads the old or the new one every time."""
    folder = quick_path / "blast"
    fasta = [
        write_fasta(quick_path / f"v{count}.fasta", {f"v{count}s{n}": bases(2000, n) for n in range(count)})
        for count in (3, 40)
    ]
    versions = [[f"v{count}s{n}|2000|0|" for n in range(count)] for count in (3, 40)]
    build(fasta[0], folder)
    pause = random.Random(5)
    fork = multiprocessing.get_context("fork")
    for _ in range(12):
        builder = fork.Process(target=_rebuild_for_ever, args=(fasta, folder))
        builder.start()
        time.sleep(pause.uniform(0.0, 0.4))
        assert builder.pid is not None
        os.kill(builder.pid, signal.SIGKILL)
        builder.join()
        assert sorted(entries(folder, "genes")) in [sorted(version) for version in versions]
        assert read_database(folder / "genes").sequences in (3, 40)
    recover_all(folder)
    assert sorted(path.name for path in folder.iterdir()) == [".genes.lock", "genes"]


def test_a_target_that_was_moved_aside_is_put_back(tmp_path: Path) -> None:
    """Where two folders cannot be exchanged in one step, a kill between two steps is made good at the next start."""
    (tmp_path / ".genes.old-x").mkdir()
    (tmp_path / ".genes.old-x" / "old").touch()
    (tmp_path / ".genes.build-y").mkdir()
    (tmp_path / ".genes.lock").touch()
    recover_all(tmp_path)
    assert [path.name for path in (tmp_path / "genes").iterdir()] == ["old"]
    assert not list(tmp_path.glob(".genes.[bo]*"))


def test_what_no_builder_made_is_left_alone(tmp_path: Path) -> None:
    """A folder of databases is the site's: its own hidden copies are neither deleted nor renamed at a start."""
    for name in (".genes.old-20240101", ".genes.build-2", ".nt.old-1"):
        (tmp_path / name).mkdir()
    (tmp_path / "nt").mkdir()
    before = sorted(tmp_path.iterdir())
    recover_all(tmp_path)
    assert sorted(tmp_path.iterdir()) == before


def test_without_an_exchange_the_new_folder_still_takes_the_old_ones_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For file systems that do not know the call."""
    monkeypatch.setattr("retrieval.storage.files._exchanged", lambda *_: False)
    for name in ("draft", "genes"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    replace_folder(tmp_path / "draft", tmp_path / "genes")
    recover(tmp_path / "genes")
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")] == ["genes", "genes/draft"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one database, to be copied and damaged."""
    folder = tmp_path_factory.mktemp("made")
    build(write_fasta(folder / "x.fasta", {"a": bases(300, 1), "b": bases(300, 2)}), folder / "blast")
    return folder / "blast"


@needs_blast
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "genes.nsq").unlink(), "genes.nsq is missing or cut off"),
        (lambda f: (f / "genes.nin").write_bytes(b""), "genes.nin is missing or cut off"),
        (lambda f: (f / "database.json").write_text("{"), "database.json cannot be read"),
        (lambda f: (f / "database.json").write_text('{"files": [], "sources": []}'), "database.json cannot be read"),
        (lambda f: f.rename(f.parent / "other"), "describes another database"),
    ],
)
def test_a_damaged_database_is_a_problem_and_no_crash(made: Path, tmp_path: Path, damage: object, message: str) -> None:
    """It is listed as what cannot be searched, with the reason."""
    shutil.copytree(made / "genes", tmp_path / "genes")
    damage(tmp_path / "genes")  # type: ignore[operator]
    found = discover_databases([tmp_path])
    assert not found.databases and [message in problem.message for problem in found.problems.values()] == [True]


@needs_blast
def test_ncbis_preformatted_databases_are_found_by_their_files(made: Path, tmp_path: Path) -> None:
    """In a root and in a folder of it, through an alias file, and with a volume missing."""
    for where, name in ((tmp_path, "UniVec"), (tmp_path / "more", "nt.00"), (tmp_path / "more", "nt.01")):
        where.mkdir(exist_ok=True)
        for path in (made / "genes").glob("genes.n*"):
            shutil.copy(path, where / f"{name}{path.suffix}")
    (tmp_path / "more" / "nt.nal").write_text("TITLE Nucleotides\nDBLIST nt.00 nt.01\n")
    (tmp_path / "more" / "lost.nal").write_text("TITLE x\nDBLIST nt.00 nt.02\n")
    (tmp_path / "more" / "loop.nal").write_text("TITLE x\nDBLIST loop\n")
    (tmp_path / "more" / "structure.pdb").touch()
    found = discover_databases([tmp_path, tmp_path / "nowhere"])
    assert {key: database.name for key, database in found.databases.items()} == {"univec": "UniVec", "nt": "nt"}
    assert found.databases["nt"].folder == tmp_path / "more" and is_unchanged(found.databases["nt"])
    assert {key: problem.message.split(": ")[1] for key, problem in found.problems.items()} == {
        "lost": "nt.02.nin is missing",
        "loop": "its alias files go in circles",
    }


@needs_blast
def test_a_new_build_is_told_from_the_old_one(made: Path, tmp_path: Path) -> None:
    """So that a result is never written from another database than was searched."""
    shutil.copytree(made / "genes", tmp_path / "genes")
    database = read_database(tmp_path / "genes")
    assert is_unchanged(database)
    content = json.loads((tmp_path / "genes" / "database.json").read_text())
    (tmp_path / "genes" / "database.json").write_text(json.dumps({**content, "made_at": "later"}))
    assert not is_unchanged(database)


@needs_blast
def test_a_protein_database_is_made_from_protein_letters(quick_path: Path) -> None:
    """With stop codons and unusual residues."""
    fasta = write_fasta(quick_path / "p.fasta", {"sp|P1|A x": residues(40, 1) + "UOBZJX*"})
    assert build(fasta, quick_path / "blast", molecule="prot").letters == 47
