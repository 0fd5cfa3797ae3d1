"""JSON in the three shapes that files have."""

from __future__ import annotations

from pathlib import Path

import pytest
from ncbi_files import saved

from retrieval.errors import DocumentUnreadable, ImportFileError
from retrieval.formats.json_values import json_values


@pytest.mark.parametrize("content", ['{"a": 1}\n\n{"a": 2}\n', '[{"a": 1},\n{"a": 2}]'])
def test_lines_and_arrays_give_their_values(tmp_path: Path, content: str) -> None:
    """A line that is no JSON is None."""
    assert [value for _, value in json_values(saved(tmp_path / "a", content))] == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("content", ["{", "[" * 100_000, '{"a":' * 10_000 + "1" + "}" * 10_000, ""])
def test_what_is_no_json_is_refused(tmp_path: Path, content: str) -> None:
    """Cut, or nested without end."""
    with pytest.raises((DocumentUnreadable, ImportFileError)):
        list(json_values(saved(tmp_path / "a", content)))
