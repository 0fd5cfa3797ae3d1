"""The vectors of articles are those of the built-in gateway's store, made by a command or at the first question."""

from __future__ import annotations

from pathlib import Path

import pytest
from clinfo_bench import article
from ncbi_files import pubmed_set, saved

from retrieval.formats.items import ReadOptions
from retrieval.gateway.importing.registry import KINDS
from retrieval.gateway.importing.run import import_file
from server.cli.main import main
from server.evidence.encoders import EncoderPool
from server.settings.egress import EgressSettings, GatewaySettings, NcbiSettings
from server.settings.retrieval import RetrievalSettings
from server.settings.schema import Settings
from server.wiring.articles import article_finder

HASHING = RetrievalSettings(encoders=("hashing",))


async def test_another_gateway_on_this_machine_has_no_vectors_here(tmp_path: Path) -> None:
    pool = EncoderPool(HASHING)
    elsewhere = Settings(
        gateway=GatewaySettings(data_dir=tmp_path),
        ncbi=NcbiSettings(eutils_url="http://127.0.0.1:9/entrez/eutils"),
        egress=EgressSettings(mode="off"),
        retrieval=HASHING,
    )
    assert article_finder(elsewhere, pool) is None
    finder = article_finder(Settings(gateway=GatewaySettings(data_dir=tmp_path), retrieval=HASHING), pool)
    assert finder is not None and len((await finder.nearest("migraine", 3)).pmids) == 3
    await finder.close()
    await pool.close()


@pytest.mark.weights
def test_the_command_makes_what_is_new(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And leaves token vectors out where it is told to."""
    take = ["gateway", "vectors", "--data", str(tmp_path)]
    for number, records in enumerate((("1", "2"), ("2", "3"))):
        body = pubmed_set(*(article(pmid, f"Title {pmid}.", ("", "Text.")) for pmid in records))
        import_file(tmp_path, KINDS["pubmed"], saved(tmp_path / f"{number}.xml", body), ReadOptions(), lambda _: None)
        assert main([*take, "--no-tokens"] if number else take) == 0
    shown = capsys.readouterr().out
    assert "vectors made: 2, removed: 0; articles that have one: 2" in shown
    assert "vectors made: 1, removed: 0; articles that have one: 3" in shown
    assert list(tmp_path.glob("vectors/*/codes.sqlite"))
