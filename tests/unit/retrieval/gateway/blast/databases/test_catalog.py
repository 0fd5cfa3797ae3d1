"""What is found in folders of BLAST databases."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from blast_data import bases, make_database, needs_blast

from retrieval.errors import GatewayDataError
from retrieval.gateway.blast.databases.catalog import discover_databases, is_unchanged, read_database

pytestmark = needs_blast


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one database, to be copied and damaged."""
    folder = tmp_path_factory.mktemp("made")
    make_database(folder / "genes", {"a": bases(300, 1), "b": bases(300, 2)})
    return folder


@pytest.mark.parametrize("lost", ["nsq", "nhr"])
def test_a_database_without_one_of_its_files_is_a_problem_and_no_crash(made: Path, tmp_path: Path, lost: str) -> None:
    """It is listed as what cannot be searched, with the reason."""
    shutil.copytree(made, tmp_path / "genes")
    (tmp_path / "genes" / f"genes.{lost}").unlink()
    found = discover_databases([tmp_path])
    assert not found.databases and found.problems["genes"].message == f"BLAST database genes: genes.{lost} is missing"


def test_databases_are_found_by_their_files(made: Path, tmp_path: Path) -> None:
    """In a root and in a folder of it, through an alias file, and with a volume missing."""
    for where, name in ((tmp_path, "UniVec"), (tmp_path / "more", "nt.00"), (tmp_path / "more", "nt.01")):
        where.mkdir(exist_ok=True)
        for path in made.glob("genes.n*"):
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


def test_a_new_build_is_told_from_the_old_one(made: Path, tmp_path: Path) -> None:
    """So that a result is never written from another database than was searched."""
    shutil.copytree(made, tmp_path / "genes")
    database = read_database(tmp_path / "genes", "genes", "nucl")
    assert is_unchanged(database)
    make_database(tmp_path / "genes" / "genes", {"a": bases(300, 3)})
    assert not is_unchanged(database)


def test_an_alias_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "nt.nal").write_text("TITLE Nucleotides\n")
    with pytest.raises(GatewayDataError, match=r"nt\.nal names no volumes"):
        read_database(tmp_path, "nt", "nucl")
