"""The command that trains the default model's adapter, on a tiny random model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors.torch import load_file

from scripts.train_default_adapter import main, parse
from tests.family_models import FAMILIES, build_model

QUICK = ["--steps", "1", "--rank", "4", "--device", "cpu"]
# One short context a step.
FEW = ["--without", "bioasq", "statements", "genegpt", "multiple_choice", "general", "dialogue"]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    family = next(one for one in FAMILIES.values() if "<|im_end|>" in one.special)
    return build_model(family, tmp_path_factory.mktemp("base"))


def test_a_run_writes_an_adapter_from_which_another_begins(base: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    main(["--base", str(base), "--run", str(tmp_path / "a"), "--out", str(first), *QUICK, *FEW])
    main(["--base", str(base), "--run", str(tmp_path / "b"), "--out", str(second), "--from", str(first), *QUICK, *FEW])
    facts = json.loads((first / "arrowhead.json").read_text())
    weights = load_file(first / "adapter_model.safetensors")

    assert set(facts["weights_sha256"]) == {"adapter_model.safetensors"}
    assert (first / "loss.svg").read_text().startswith("<?xml")
    assert any(bool(tensor.any()) for name, tensor in weights.items() if "lora_B" in name)
    assert json.loads((tmp_path / "b" / "state.json").read_text())["plans"][0]["from"] == "first"


def test_prepared_samples_give_the_adapter_that_drawn_ones_give(base: Path, tmp_path: Path) -> None:
    steps, common = tmp_path / "steps.npz", ["--base", str(base), *QUICK, *FEW]
    main(["--prepare", str(steps), *common])
    for name, more in (("drawn", []), ("prepared", ["--prepared", str(steps)])):
        main(["--run", str(tmp_path / f"run-{name}"), "--out", str(tmp_path / name), *common, *more])
    drawn, prepared = (load_file(tmp_path / name / "adapter_model.safetensors") for name in ("drawn", "prepared"))

    assert all(bool((drawn[name] == prepared[name]).all()) for name in drawn)
    with pytest.raises(SystemExit, match="has 1 steps"):
        main(["--run", str(tmp_path / "long"), *common, "--prepared", str(steps), "--steps", "2"])


def test_contexts_are_drawn_in_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--contexts", "3"])
    assert "give an even number" in capsys.readouterr().err


def test_a_folder_with_a_checkpoint_is_not_overwritten(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "state.json").write_text("{}")

    with pytest.raises(SystemExit):
        parse(["--base", str(base), "--run", str(tmp_path), *QUICK])
    assert "give --resume, or another folder" in capsys.readouterr().err


def test_a_folder_without_questions_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--bioasq", str(tmp_path), *QUICK])
    assert "questions_dev.jsonl.gz" in capsys.readouterr().err
