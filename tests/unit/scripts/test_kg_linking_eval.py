"""The measurement of linking, over a table of four names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from models.encoders.hashing import HashingEncoder
from scripts.evals.kg.linking import TableStore, main, read_sets, report, slips

NAMES = 'disease_name,disease_id\npsoriasis,DOID:1\nvitiligo,DOID:2\nXeroderma,DOID:3\n"Xeroderma, group G",DOID:3\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "names.csv").write_text(NAMES)
    rows = [
        {"text": "PSORIASIS IS RARE", "node_hits": "psoriasis"},
        {"text": "xeroderma group g", "node_hits": "xeroderma"},
        {"text": "unknown", "node_hits": "no node"},
    ]
    (tmp_path / "texts_dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    both = {"disease_1": "psoriasis", "disease_2": "vitiligo", "text": "psoriasis and vitiligo"}
    (tmp_path / "pairs.jsonl").write_text(json.dumps(both) + "\n")
    return tmp_path


async def test_first_part_recall_and_precision_are_counted(folder: Path) -> None:
    """A subgroup named in full counts in the second column alone; gold without a node counts nowhere."""
    lines = await report(TableStore(folder / "names.csv"), read_sets(folder), None)

    (texts,) = [line for line in lines if line.startswith("| texts | dictionary | as given")]
    (pairs,) = [line for line in lines if line.startswith("| pairs | dictionary | upper")]
    assert texts.split(" | ")[3:8] == ["2", "0.500", "1.000", "0.500", "0.500"]
    assert pairs.split(" | ")[3:8] == ["1", "1.000", "1.000", "1.000", "1.000"]
    assert "| dictionary, whole name, lower | 4 / 4 |" in lines


async def test_slips_and_gaps_are_counted_with_an_encoder(folder: Path) -> None:
    """The index finds every name by itself, and no node stands in for one that was taken out."""
    lines = await report(TableStore(folder / "names.csv"), read_sets(folder), HashingEncoder(512))

    assert "| flat index, nearest name | 4 / 4 |" in lines
    assert "| node taken out, 3 names | 0 linked to another |" in lines


def test_the_report_is_printed_and_saved(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As Markdown."""
    saved = folder / "report.md"
    given = ["--names", str(folder / "names.csv"), "--questions", str(folder), "--save", str(saved)]

    assert main(given) == 0
    assert saved.read_text().strip() == capsys.readouterr().out.strip() != ""


async def test_misspelt_names_are_counted(folder: Path) -> None:
    """Each name with each kind of slip, and with its node taken out."""
    lines = await slips(TableStore(folder / "names.csv"), read_sets(folder), None)

    rows = [line for line in lines if "| all names |" in line]
    assert len(rows) == 4 and all(row.split(" | ")[2] == "4" for row in rows)
    assert rows[0].split(" | ")[3] == "4 (100.0%)"
    assert lines[-1].startswith("0 of 4 names, taken out one by one")
