"""JSON from elsewhere has no half of a character after it was parsed, and is otherwise the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from retrieval.corpus.items import SkippedRecord
from retrieval.corpus.readers.registry import READERS
from retrieval.formats.json_stream import JsonStream
from retrieval.formats.sources import Source
from retrieval.formats.untrusted_input import whole_characters
from retrieval.graph.linking.model_extraction import parse
from retrieval.graph.loaders.reading import json_object

HALF = "x\ud800y\udc00"
_ANY = st.text(st.characters(), max_size=12) | st.sampled_from(["\\", "\\ud800", "\ud83d\udc00", "\\\\ud800", '"'])


@given(st.dictionaries(_ANY, st.lists(_ANY)), st.booleans())
def test_every_text_can_be_encoded_and_whole_ones_stay(value: dict[str, Any], ascii_only: bool) -> None:
    """With escapes, with the characters themselves, behind backslashes."""
    text = json.dumps(value, ensure_ascii=ascii_only)
    read = json.loads(whole_characters(text))

    json.dumps(read, ensure_ascii=False).encode()
    try:
        json.dumps(json.loads(text), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        assert "\ufffd" in json.dumps(read, ensure_ascii=False)
    else:
        assert read == json.loads(text)


def _is_whole(value: object) -> bool:
    return "\\ud" not in repr(value) and "\ufffd" in str(value)


def test_imported_documents_have_whole_characters(tmp_path: Path) -> None:
    """Titles, ids, sections and texts of both JSON forms, and reports of what was passed over."""
    row = {"id": f"a{HALF}", "title": HALF, "content": HALF, "section": HALF, "journal": HALF}
    (tmp_path / "m.jsonl").write_text(json.dumps(row) + "\n" + json.dumps({"id": HALF}) + "\n")
    (tmp_path / "p.json").write_text(json.dumps({"123": {"d": "2020", "t": HALF, "a": HALF, "m": HALF}}))

    assert all(_is_whole(item) for item in READERS["medrag"](tmp_path / "m.jsonl"))
    assert all(_is_whole(item) for item in READERS["pubmed-json"](tmp_path / "p.json"))
    assert _is_whole(SkippedRecord(f"f{HALF}", 1, HALF))


def test_graphs_and_written_json_have_whole_characters(tmp_path: Path) -> None:
    """Loaders' objects, streamed members over chunk borders, and entities that a model wrote."""
    path = tmp_path / "h.json"
    path.write_text(json.dumps({"nodes": [HALF * 50], HALF: HALF}))
    source = Source(path, chunk=64)

    assert _is_whole(json_object(path.read_text()))
    assert all(
        _is_whole((name, value)) or name == "nodes" for _, name, value in JsonStream(source, source.chunks()).members()
    )
    assert all("\\ud" not in repr(value) for _, _, value in JsonStream(source, source.chunks()).members())
    assert _is_whole(parse(json.dumps({"entities": [{"name": HALF, "kind": "Gene"}]}), ["Gene"]))
