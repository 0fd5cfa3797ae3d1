"""One server for each data folder, and the folder's name."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from server.settings.loading import SettingsInvalid
from server.wiring.data_folder import DataFolder

HOLD = """
import sys, time
from pathlib import Path
from server.wiring.data_folder import DataFolder
held = DataFolder(Path(sys.argv[1]))
print(held.name, flush=True)
time.sleep(60)
"""


def test_a_second_server_is_refused_with_the_way_out(tmp_path: Path) -> None:
    """The message names the process, the folder and the setting; the folder is free when the first one is closed."""
    first = DataFolder(tmp_path / "namespaces")
    with pytest.raises(SettingsInvalid, match=r"ARROWHEAD_RETRIEVAL__DATA_DIR.*process \d+.*namespaces.*its own"):
        DataFolder(tmp_path / "namespaces")
    first.close()
    again = DataFolder(tmp_path / "namespaces")
    assert again.name == first.name != ""
    again.close()


@pytest.mark.server
def test_a_killed_server_leaves_its_folder_free(tmp_path: Path) -> None:
    """kill -9 releases it at once, and the next server has the same name for it."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[4]
    )
    try:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        with pytest.raises(SettingsInvalid, match=str(process.pid)):
            DataFolder(tmp_path)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    folder = DataFolder(tmp_path)
    assert folder.name == name
    folder.close()


def test_a_copied_folder_has_a_name_of_its_own(tmp_path: Path) -> None:
    """Jobs of the one must not run in the other; where the disk is full it has none."""
    first = DataFolder(tmp_path / "a")
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    second = DataFolder(tmp_path / "b")
    assert first.name != second.name
    first.close()
    second.close()
    (tmp_path / ".server.lock").symlink_to("/dev/full")
    assert DataFolder(tmp_path).name == ""
