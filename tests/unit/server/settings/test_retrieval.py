"""The folders that namespaces follow, as one line names them."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from server.settings.retrieval import RetrievalSettings


def test_names_and_folders_are_read_from_one_line() -> None:
    settings = RetrievalSettings.model_validate({"folders": "papers=/srv/my papers, notes=~/notes=1"})
    assert settings.followed == {"papers": Path("/srv/my papers"), "notes": Path("~/notes=1")}
    assert RetrievalSettings().followed == {}


@pytest.mark.parametrize(
    ("folders", "message"),
    [
        ("/srv/papers", "name=/path"),
        ("papers=srv", "name=/path"),
        ("My papers=/srv", "name=/path"),
        ("a=/srv,a=/var", "twice"),
        ("a=/srv,b=/srv", "twice"),
    ],
)
def test_what_names_no_folder_is_refused(folders: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        RetrievalSettings.model_validate({"folders": folders})
