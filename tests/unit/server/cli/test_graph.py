"""``arrowhead graph``, its settings and the way out to SPOKE."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from graph_files import KGX_EDGES, KGX_NODES, SPOKE, write_kgx_archive, write_lines

from retrieval.graph.spoke.source import OutboundCall
from retrieval.ncbi.client.transport import HttpSender, SendLimits
from server.cli.main import main
from server.settings.loading import SettingsInvalid, graphs_dir, load_settings
from server.wiring.bootstrap import build_spoke

SPOKE_URL = "https://spoke.rbvi.ucsf.edu"


def _graph(tmp_path: Path, *words: str) -> int:
    return main(["graph", *words, "--data", str(tmp_path / "graphs")])


def test_an_imported_graph_is_listed_verified_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With what was passed over, and each statement with its sources."""
    nodes = write_lines(tmp_path / "n.tsv", *KGX_NODES)
    edges = write_lines(tmp_path / "e.tsv", *KGX_EDGES, "too\tshort")
    words = ("import", "kgx", str(nodes), str(edges), "--encoder", "hashing", "--release", "2025-09")
    assert _graph(tmp_path, *words) == 0
    said = capsys.readouterr()
    assert "kgx: 3 nodes, 3 edges, release 2025-09, encoder hashing; 1 bad records passed over" in said.out
    assert "e.tsv:5: predicate is missing" in said.err
    assert _graph(tmp_path, *words) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert _graph(tmp_path, "status") == 0
    assert "kgx\tkgx\trelease 2025-09\t3 nodes\t3 edges" in capsys.readouterr().out
    assert _graph(tmp_path, "show", "pd", "--name", "kgx") == 0
    assert "presents" not in (shown := capsys.readouterr().out)
    assert "has the phenotype Phenotypic Feature Tremor\thas_phenotype\thpo-annotations, hpoa, PMID 1" in shown
    assert _graph(tmp_path, "verify") == 0
    assert "kgx: whole, 3 nodes, 3 edges" in capsys.readouterr().out


def test_a_damaged_graph_is_said_to_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 1 and the file's name."""
    archive = write_kgx_archive(tmp_path / "m.tar.gz")
    assert _graph(tmp_path, "import", "kgx", str(archive), "--encoder", "hashing", "--name", "monarch") == 0
    path = tmp_path / "graphs" / "monarch" / "vectors.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\xff")
    assert _graph(tmp_path, "verify", "monarch") == 1
    assert "vectors.npy" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("import", "neo4j", "x"), 2, "no kind of graph"),
        (("import", "tsv"), 2, "no FILE"),
        (("import", "tsv", "missing.tsv", "--encoder", "hashing"), 1, "missing.tsv: cannot be read"),
        (("import", "tsv", "x", "--name", "open"), 2, "choose another name"),
        (("import", "tsv", "x", "--name", "../x"), 1, "no name of a graph"),
        (("verify", "nothing"), 1, "there is no graph"),
        (("show", "x", "--name", "nothing"), 1, "there is no graph"),
    ],
)
def test_a_mistake_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], status: int, says: str
) -> None:
    """No traceback, and nothing is made."""
    assert _graph(tmp_path, *words) == status
    assert says in capsys.readouterr().err
    assert not list((tmp_path / "graphs").glob("*/"))


def test_spoke_is_refused_where_nothing_may_leave() -> None:
    """With egress.mode off only an address on this machine is taken."""
    with pytest.raises(SettingsInvalid, match=r"graph\.spoke_url.*another machine"):
        load_settings({"graph": {"spoke_url": SPOKE_URL}})
    allowed = load_settings(
        {"graph": {"spoke_url": f"{SPOKE_URL}/api/v1/"}, "egress": {"mode": "ncbi"}, "ncbi": {"email": "a@b.org"}}
    )
    assert allowed.graph.spoke_url == SPOKE_URL
    assert load_settings({"graph": {"spoke_url": "http://127.0.0.1:8766"}}).graph.spoke_host == "127.0.0.1"
    for wrong in ("spoke.rbvi.ucsf.edu", "https://a:b@x.org", "https://x.org/?q=1"):
        with pytest.raises(SettingsInvalid, match=r"graph\.spoke_url"):
            load_settings({"graph": {"spoke_url": wrong}})


def test_graphs_have_their_own_folder(tmp_path: Path) -> None:
    settings = load_settings({"graph": {"data_dir": str(tmp_path)}})
    assert graphs_dir(settings) == tmp_path


def test_spoke_is_there_only_with_an_address() -> None:
    """The same sender as for everything else."""

    async def hear(_: OutboundCall) -> None:
        raise AssertionError(SPOKE)

    sender = HttpSender(SendLimits())
    assert build_spoke(load_settings({}), sender, hear) is None
    found = build_spoke(load_settings({"graph": {"spoke_url": "http://localhost:1"}}), sender, hear)
    assert found is not None
    assert found.name == "SPOKE"
    asyncio.run(sender.close())
