"""What holds for every kind of file: resuming, memory, refusing other files, guessing the kind."""

from __future__ import annotations

import contextlib
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ncbi_files import GENE_INFO_HEADER, VCF_HEADER, items, pubmed_record, pubmed_set, saved

from retrieval.errors import ImportFileError
from retrieval.formats.items import MAX_REASON, Bad, ReadOptions
from retrieval.formats.records import DATABASES
from retrieval.formats.sources import Source
from retrieval.gateway.importing.registry import KINDS, guess_kind
from scripts.samples import genes, phenotypes, pmc, pubmed, snps, taxonomy, variations
from scripts.samples.world import World

Writer = Callable[[Path, World], object]
WRITERS: Final[dict[str, tuple[str, Writer]]] = {
    "gene_info": ("gene_info.gz", genes.write_gene_info),
    "gene2pubmed": ("gene2pubmed.gz", genes.write_gene2pubmed),
    "mim2gene_medgen": ("mim2gene_medgen", genes.write_mim2gene_medgen),
    "medgen_names": ("NAMES.RRF.gz", phenotypes.write_names),
    "medgen_mappings": ("MedGenIDMappings.txt.gz", phenotypes.write_mappings),
    "medgen_definitions": ("MGDEF.RRF.gz", phenotypes.write_definitions),
    "mim_titles": ("mimTitles.txt", phenotypes.write_mim_titles),
    "genemap2": ("genemap2.txt", phenotypes.write_gene_map),
    "dbsnp_vcf": ("GCF_000001405.40.gz", snps.write_dbsnp_vcf),
    "clinvar": ("variant_summary.txt.gz", variations.write_variant_summary),
    "taxdump": ("taxdump.tar.gz", lambda path, world: taxonomy.write_taxdump(path, world, world.genes)),
    "pubmed": ("pubmed26n0001.xml.gz", lambda path, world: pubmed.write_articles(path, pubmed.articles(world))),
    "pmc": ("oa_comm_xml.tar.gz", lambda path, world: pmc.write_package(path, world, world.articles)),
}
SLOW: Final = frozenset(("pubmed", "pmc"))


def written(directory: Path, kind: str, rows: int) -> Path:
    name, write = WRITERS[kind]
    write(directory / name, World(2, rows, rows, rows))
    return directory / name


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    directory = tmp_path_factory.mktemp("samples")
    return {kind: written(directory, kind, 40) for kind in WRITERS}


def test_every_kind_has_a_generator_and_tells_what_it_is() -> None:
    """The table behind the command line's help is complete."""
    assert set(WRITERS) == set(KINDS)
    for kind in KINDS.values():
        assert kind.what and kind.file and kind.address.startswith("https://")
        assert set(kind.databases) <= set(DATABASES)


@pytest.mark.parametrize("kind", WRITERS)
def test_a_generated_file_is_read_without_a_malformed_record(samples: dict[str, Path], kind: str) -> None:
    """Generator and reader agree on the form."""
    found = items(kind, samples[kind])
    assert len(found) >= 20 or kind == "genemap2"
    assert [item for item in found if isinstance(item, Bad)] == []


@pytest.mark.parametrize("kind", WRITERS)
@given(skip=st.integers(0, 60))
@settings(max_examples=6, deadline=None)
def test_skipping_gives_the_items_that_would_have_followed(samples: dict[str, Path], kind: str, skip: int) -> None:
    """An import goes on after a stop as if there had been none."""
    assert items(kind, samples[kind], skip=skip) == items(kind, samples[kind])[skip:]


@pytest.mark.parametrize("kind", [kind for kind in WRITERS if kind != "pmc"])
def test_items_do_not_depend_on_the_size_of_the_chunks(samples: dict[str, Path], kind: str) -> None:
    """A record may lie across any border."""
    assert items(kind, samples[kind], chunk=101) == items(kind, samples[kind])


@pytest.mark.parametrize("kind", WRITERS)
@given(data=st.data())
@settings(max_examples=10, deadline=None)
def test_damage_gives_malformed_records_or_a_file_error_and_nothing_else(
    samples: dict[str, Path], tmp_path_factory: pytest.TempPathFactory, kind: str, data: st.DataObject
) -> None:
    """Bytes changed, lost or doubled anywhere in the unpacked content."""
    content = bytearray(b"".join(Source(samples[kind]).chunks()))
    for _ in range(data.draw(st.integers(1, 5))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    path = saved(tmp_path_factory.mktemp("damaged") / samples[kind].name, bytes(content))
    with contextlib.suppress(ImportFileError):
        items(kind, path)


@pytest.mark.parametrize("kind", WRITERS)
def test_an_empty_file_is_refused(tmp_path: Path, kind: str) -> None:
    """A download that failed leaves one behind."""
    with pytest.raises(ImportFileError):
        items(kind, saved(tmp_path / "empty", ""))


@pytest.mark.parametrize("kind", WRITERS)
def test_a_file_of_another_kind_is_refused_before_anything_is_yielded(samples: dict[str, Path], kind: str) -> None:
    """Every kind against every other file."""
    for other, path in samples.items():
        if other != kind:
            with pytest.raises(ImportFileError) as caught:
                next(iter(KINDS[kind].reader(Source(path), ReadOptions(), 0)))
            assert str(path) in str(caught.value)


@pytest.mark.parametrize("kind", WRITERS)
def test_a_web_page_is_refused(tmp_path: Path, kind: str) -> None:
    """What a proxy sends in place of the file."""
    with pytest.raises(ImportFileError):
        items(kind, saved(tmp_path / "page", "<!DOCTYPE html>\n<html><body>Access denied</body></html>\n"))


@pytest.mark.parametrize("kind", WRITERS)
def test_the_kind_is_guessed_from_the_file(samples: dict[str, Path], kind: str) -> None:
    """By name or content."""
    assert guess_kind(samples[kind]) == kind


@pytest.mark.parametrize("kind", WRITERS)
def test_the_kind_is_guessed_of_a_renamed_file(samples: dict[str, Path], tmp_path: Path, kind: str) -> None:
    """The content alone is enough."""
    renamed = tmp_path / "download"
    renamed.write_bytes(samples[kind].read_bytes())
    assert guess_kind(renamed) == kind


def test_no_kind_is_guessed_of_something_else(tmp_path: Path) -> None:
    """Nor of what is not there."""
    assert guess_kind(saved(tmp_path / "notes.txt", "hello\n")) is None
    assert guess_kind(saved(tmp_path / "empty", "")) is None
    assert guess_kind(tmp_path / "nothing") is None
    assert guess_kind(tmp_path) is None


def _peak(kind: str, path: Path) -> int:
    """Bytes at the highest point of reading the whole file, keeping nothing."""
    tracemalloc.start()
    try:
        for _ in KINDS[kind].reader(Source(path, chunk=4096), ReadOptions(), 0):
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", WRITERS)
def test_memory_does_not_grow_with_the_file(tmp_path: Path, kind: str) -> None:
    """Ten times the rows, about the same peak."""
    rows = 20 if kind in SLOW else 600
    (tmp_path / "small").mkdir()
    (tmp_path / "large").mkdir()
    small = _peak(kind, written(tmp_path / "small", kind, rows))
    large = _peak(kind, written(tmp_path / "large", kind, rows * 10))
    assert large < small * 1.5 + 100_000


def test_twenty_thousand_genes_take_the_memory_of_two_thousand(tmp_path: Path) -> None:
    """The same at size."""
    peaks = []
    for rows in (2000, 20_000):
        (tmp_path / str(rows)).mkdir()
        peaks.append(_peak("gene_info", written(tmp_path / str(rows), "gene_info", rows)))
    assert peaks[1] < peaks[0] * 1.2 + 100_000


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("gene_info", GENE_INFO_HEADER + "9606\t" + "x" * 9999 + "\n"),
        ("dbsnp_vcf", VCF_HEADER + "x" * 9999 + "\n"),
        ("pubmed", pubmed_set(pubmed_record("y" * 9999))),
        ("gene_info", GENE_INFO_HEADER + "line\tbreaks\r in\x1b it\n"),
    ],
)
def test_a_reason_is_one_short_line(tmp_path: Path, kind: str, text: str) -> None:
    """Whatever the record holds."""
    (item,) = items(kind, saved(tmp_path / "file", text))
    assert isinstance(item, Bad)
    assert len(item.reason) <= MAX_REASON
    assert item.reason.isprintable()


@pytest.mark.parametrize(
    ("kind", "header"), [("gene_info", GENE_INFO_HEADER), ("dbsnp_vcf", VCF_HEADER), ("pubmed", pubmed_set())]
)
def test_a_file_with_nothing_but_its_header_has_no_items(tmp_path: Path, kind: str, header: str) -> None:
    """That is a sound file."""
    assert items(kind, saved(tmp_path / "file", header)) == []
    assert items(kind, saved(tmp_path / "file.gz", header.rstrip("\n"))) == []
