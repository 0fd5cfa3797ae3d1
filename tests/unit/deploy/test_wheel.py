"""The wheel of the checkout: it is built, unpacked as an installer does, and every data file is opened from it."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from server.version import LICENCE

ROOT = Path(__file__).parents[3]
PACKAGES = ("server", "retrieval", "models")
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
# Reads each file the way the product's readers do: as a resource of the package that holds it.
OPEN = """
import hashlib, importlib.resources, json, sys
sys.path.insert(0, sys.argv[1])
found = {}
for name in json.load(sys.stdin):
    folders, _, file = name.rpartition("/")
    package, *inner = folders.split("/")
    path = importlib.resources.files(package).joinpath(*inner, file)
    found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
import retrieval
assert retrieval.__file__.startswith(sys.argv[1]), retrieval.__file__
json.dump(found, sys.stdout)
"""


def data_files() -> list[str]:
    """What the packages hold beside code; ``COMMIT`` is written by the build of the image alone."""
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file()]
    files = [path for path in files if path.suffix not in {".py", ".pyc"} and path.name != "COMMIT"]
    return sorted(path.relative_to(ROOT).as_posix() for path in files)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the content of the wheel; the build runs on a copy, as setuptools writes beside the sources."""
    source, wheels, site = (tmp_path_factory.mktemp(name) for name in ("source", "wheels", "site"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, source)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__", "COMMIT"))
    subprocess.run(
        [sys.executable, "-c", BUILD, str(wheels)], cwd=source, check=True, capture_output=True, text=True, timeout=200
    )
    (wheel,) = wheels.glob("arrowhead-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


@pytest.mark.server
def test_the_wheel_holds_every_module(installed: Path) -> None:
    """None is left behind by the search for packages."""
    modules = {path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*.py")}

    assert {path for path in modules if not (installed / path).exists()} == set()


@pytest.mark.server
def test_every_data_file_opens_from_the_wheel(installed: Path) -> None:
    """The globs under package-data cover each file, and its content is that of the checkout."""
    names = data_files()
    done = subprocess.run(
        [sys.executable, "-I", "-c", OPEN, str(installed)],
        input=json.dumps(names), capture_output=True, text=True, cwd=installed, timeout=100,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert names
    assert json.loads(done.stdout) == {name: _digest(ROOT / name) for name in names}


@pytest.mark.server
def test_the_wheel_has_the_licence_and_the_notices_of_others(installed: Path) -> None:
    """Its own licence is that of ``--version``; each file that NOTICE refers to is in the wheel too."""
    (folder,) = installed.glob("arrowhead-*.dist-info")
    about = (folder / "METADATA").read_text(encoding="utf-8")
    notice = (folder / "licenses" / "NOTICE").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:server|retrieval|models)/[\w./-]+\w", notice))

    assert f"License-Expression: {LICENCE}\n" in about
    assert "Private :: Do Not Upload" in about
    assert "Apache License" in (folder / "licenses" / "LICENSE").read_text(encoding="utf-8")
    assert {name for name in named if not (installed / name).exists()} == set()
    assert {"server/web/static/inter-LICENSE.txt"} <= {
        path.relative_to(folder / "licenses").as_posix() for path in (folder / "licenses").rglob("*")
    }


@pytest.mark.server
def test_the_wheel_has_the_command(installed: Path) -> None:
    """``arrowhead`` starts at the function that pyproject.toml names."""
    (entry,) = installed.glob("arrowhead-*.dist-info/entry_points.txt")

    assert "arrowhead = server.__main__:run" in entry.read_text()


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
