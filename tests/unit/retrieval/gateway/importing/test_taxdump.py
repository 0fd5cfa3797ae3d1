"""The taxonomy dump in its three packings, and archives in general."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest
from ncbi_files import entries, items, reasons, saved

from retrieval.errors import ImportFileError
from retrieval.formats.items import Good, ReadOptions
from retrieval.formats.records import Organism, Taxon
from retrieval.formats.sources import Source, tar_members
from retrieval.gateway.importing.registry import KINDS
from retrieval.gateway.store.writer import organism_of
from scripts.samples import taxonomy
from scripts.samples.world import World

NODE = "{}\t|\t{}\t|\tspecies\t|\tHS\t|\t5\t|\t1\t|\t1\t|\t1\t|\t2\t|\t1\t|\t1\t|\t0\t|\t\t|\n"
NAME = "{}\t|\t{}\t|\t\t|\t{}\t|\n"


def _dump(tmp_path: Path, nodes: str, names: str) -> Path:
    directory = tmp_path / "taxonomy"
    directory.mkdir(exist_ok=True)
    saved(directory / "nodes.dmp", nodes)
    saved(directory / "names.dmp", names)
    return directory


@pytest.mark.parametrize("name", ["taxdump.tar.gz", "taxdmp.zip", "directory"])
def test_the_three_packings_give_the_same_taxa(tmp_path: Path, name: str) -> None:
    """The whole of the file counts as consumed at the end, but for what else a zip holds."""
    world = World()
    count = taxonomy.write_taxdump(tmp_path / name, world, 60)
    taxonomy.write_taxdump(tmp_path / "other", world, 60)
    found = entries("taxdump", tmp_path / name)
    assert len(found) == count
    assert found == entries("taxdump", tmp_path / "other")
    source = Source(tmp_path / name)
    list(KINDS["taxdump"].reader(source, ReadOptions(), 0))
    assert 0.5 * source.total < source.consumed <= source.total


def test_a_taxon_has_the_names_and_codes_of_its_two_rows(tmp_path: Path) -> None:
    """The scientific name is apart from the others; the division is written out."""
    names = NAME.format(9606, "human", "genbank common name") + NAME.format(9606, "Homo sapiens", "scientific name")
    names += NAME.format(9606, "Homo sapiens Linnaeus, 1758", "authority") + NAME.format(9606, "man", "common name")
    (taxon,) = entries("taxdump", _dump(tmp_path, NODE.format(9606, 9605), names))
    assert taxon == Taxon(
        tax_id=9606,
        parent_id=9605,
        rank="species",
        scientific_name="Homo sapiens",
        names=(
            ("human", "genbank common name"), ("Homo sapiens Linnaeus, 1758", "authority"), ("man", "common name"),
        ),
        division="Primates",
        genetic_code=1,
    )  # fmt: skip
    assert isinstance(taxon, Taxon)
    assert organism_of(taxon) == Organism(9606, "Homo sapiens", "human", ("man",))


def test_rows_that_do_not_meet_are_told(tmp_path: Path) -> None:
    """A node without a scientific name, a name without a node, rows that are malformed."""
    nodes = NODE.format(2, 1) + NODE.format(3, 1) + NODE.format("x", 1) + NODE.format(5, "y") + "5\t|\n"
    names = NAME.format(1, "root", "scientific name") + NAME.format(2, "Bacteria", "scientific name")
    names += NAME.format(3, "germs", "common name") + "3\t|\tcut\n" + NAME.format(5, "five", "scientific name")
    names += NAME.format(7, "seven", "scientific name")
    path = _dump(tmp_path, nodes, names)
    assert reasons("taxdump", path) == [
        (1, "names.dmp: the name 'root' is of taxon 1, which nodes.dmp has not"),
        (4, "names.dmp: 2 columns, 4 expected"),
        (2, "nodes.dmp: taxon 3: names.dmp has no scientific name for it"),
        (3, "nodes.dmp: tax_id: a number was expected, not 'x'"),
        (4, "nodes.dmp: taxon 5: parent tax_id: a number was expected, not 'y'"),
        (5, "nodes.dmp: 1 columns, at least 7 expected"),
        (6, "names.dmp: the name 'seven' is of taxon 7, which nodes.dmp has not"),
    ]
    assert [item.line for item in items("taxdump", path) if isinstance(item, Good)] == [1]


def test_tables_out_of_order_are_refused(tmp_path: Path) -> None:
    """They are read side by side."""
    names = NAME.format(2, "b", "scientific name") + NAME.format(3, "c", "scientific name")
    with pytest.raises(ImportFileError, match=r"nodes\.dmp is not in the order of its ids: 2 comes after 3"):
        items("taxdump", _dump(tmp_path, NODE.format(3, 1) + NODE.format(2, 1), names))
    names = NAME.format(3, "c", "scientific name") + NAME.format(2, "b", "scientific name")
    with pytest.raises(ImportFileError, match=r"names\.dmp is not in the order"):
        items("taxdump", _dump(tmp_path, NODE.format(2, 1) + NODE.format(4, 1), names))


def test_a_directory_without_a_table_is_refused(tmp_path: Path) -> None:
    """The missing one is named."""
    (_dump(tmp_path, NODE.format(2, 1), "") / "names.dmp").unlink()
    with pytest.raises(ImportFileError, match=r"names\.dmp"):
        items("taxdump", tmp_path / "taxonomy")


def _tar(*members: tuple[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def _contents(path: Path) -> list[tuple[str, bytes]]:
    return [(member.name, b"".join(member.content)) for member in tar_members(Source(path))]


def test_an_archive_without_the_table_is_refused(tmp_path: Path) -> None:
    """By tar and by zip."""
    with pytest.raises(ImportFileError, match=r"holds no (names|nodes)\.dmp"):
        items("taxdump", saved(tmp_path / "taxdump.tar.gz", _tar(("readme.txt", b"x"))))


def test_members_have_long_names_and_paths_that_lead_nowhere(tmp_path: Path) -> None:
    """Only the last part of a name is used, so that none can point out of a folder."""
    long = "folder/" * 40 + "PMC1.xml"
    path = saved(tmp_path / "file.tar.gz", _tar((long, b"one"), ("../../etc/passwd", b"two"), ("empty", b"")))
    assert _contents(path) == [("PMC1.xml", b"one"), ("passwd", b"two"), ("empty", b"")]


def test_links_and_folders_are_no_members(tmp_path: Path) -> None:
    """They have no content of their own."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, kind in (("link", tarfile.SYMTYPE), ("folder", tarfile.DIRTYPE)):
            member = tarfile.TarInfo(name)
            member.type = kind
            member.linkname = "/etc/passwd"
            archive.addfile(member)
    assert _contents(saved(tmp_path / "file.tar", buffer.getvalue())) == []


@pytest.mark.parametrize("keep", [400, 512, 700, 1500, 2048, 2560])
def test_a_cut_tar_is_an_error(tmp_path: Path, keep: int) -> None:
    """In a header, in a content, between two members, before the end mark."""
    path = saved(tmp_path / "file.tar", _tar(("a", b"x" * 600), ("b", b"y" * 100))[:keep])
    with pytest.raises(ImportFileError, match="the tar archive is cut"):
        _contents(path)


def test_a_damaged_header_is_an_error_and_not_the_end(tmp_path: Path) -> None:
    """The standard library takes it for the end of the archive."""
    data = bytearray(_tar(("a", b"x" * 600), ("b", b"y" * 100), ("c", b"")))
    data[1536 + 100] ^= 7
    with pytest.raises(ImportFileError, match="damaged after 1 entries"):
        _contents(saved(tmp_path / "file.tar", bytes(data)))


def test_a_damaged_checksum_behind_the_archive_is_an_error(tmp_path: Path) -> None:
    """gzip's end is read though tar's came before it."""
    data = bytearray(gzip.compress(_tar(("a", b"x" * 600))))
    data[-6] ^= 1
    (tmp_path / "file.tgz").write_bytes(bytes(data))
    with pytest.raises(ImportFileError, match="damaged"):
        _contents(tmp_path / "file.tgz")


def test_a_damaged_zip_is_an_error(tmp_path: Path) -> None:
    """Its members have checksums."""
    path = tmp_path / "taxdmp.zip"
    taxonomy.write_taxdump(path, World(), 60)
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 255
    path.write_bytes(bytes(data))
    with pytest.raises(ImportFileError):
        items("taxdump", path)
