"""Large JSON files are read value by value, each with its line, whatever the size of the chunks."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrieval.errors import ImportFileError
from retrieval.formats.json_stream import JsonStream
from retrieval.formats.sources import Source

HERE = Path(__file__)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def stream(text: str | bytes, size: int = 64, **options: Any) -> JsonStream:
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return JsonStream(Source(HERE), (data[at : at + size] for at in range(0, len(data), size)), **options)


@given(values=st.lists(VALUES, max_size=6), size=st.integers(1, 40), indent=st.sampled_from([None, 1]))
def test_elements_do_not_depend_on_the_size_of_the_chunks(values: list[Any], size: int, indent: int | None) -> None:
    """Numbers, escapes and characters of many bytes may be split anywhere; lines are those of the text."""
    text = json.dumps(values, ensure_ascii=indent is None, indent=indent).encode("utf-8", "replace")
    expected = json.loads(text)

    found = list(stream(text, size).elements())

    assert [value for _, value in found] == expected
    if indent is None:
        assert {line for line, _ in found} <= {1}
    elif all(not isinstance(value, list | dict) for value in expected):
        assert [line for line, _ in found] == list(range(2, len(expected) + 2))


@given(values=st.dictionaries(st.text(), VALUES, max_size=6), size=st.integers(1, 40))
def test_members_do_not_depend_on_the_size_of_the_chunks(values: dict[str, Any], size: int) -> None:
    """Names are read as values are; white space may stand anywhere between."""
    text = " ,\n".join(f"{json.dumps(name)} :\t{json.dumps(value)}" for name, value in values.items())

    found = list(stream(f" {{{text}}} ", size).members())

    assert {name: value for _, name, value in found} == values
    assert [line for line, _, _ in found] == list(range(1, len(values) + 1))


def test_members_of_a_large_object_are_read_across_chunks() -> None:
    """Strings with braces, escapes and characters of many bytes, over several megabytes."""
    members = {str(n): {"a": f'{"é" * 700}{{\\"}}\n{n}', "l": [1, {"x": None}]} for n in range(3_000)}
    text = json.dumps(members, ensure_ascii=False, indent=1)

    assert {name: value for _, name, value in stream(text, 65_536).members()} == members
    assert list(stream(" { } ").members()) == []


@pytest.mark.parametrize("text", ["[12.5]", "[1e-5]", "[12.5e+7,-0.25]", "[true,null]", "[ -1 ]"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_number_that_is_split_stays_whole(text: str, size: int) -> None:
    """What has been read of it so far may be a number, too."""
    assert [value for _, value in stream(text, size).elements()] == json.loads(text)


def test_one_array_of_an_object_is_read_and_the_other_members_skipped() -> None:
    """Each element comes with the line on which it begins."""
    text = '{"about": {"v": [1]},\n"edges": [5],\n"nodes": [\n{"id":\n1}, {"id": 2},\n3], "end": null}'

    assert list(stream(text).member_elements("nodes")) == [(4, {"id": 1}), (5, {"id": 2}), (6, 3)]
    with pytest.raises(ImportFileError, match="it has no array 'about'"):
        list(stream(text).member_elements("about"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "line 1: it is no JSON object"),
        ("[1]", "line 1: it is no JSON object"),
        ('{"a": 1}\n\n x', "line 3: something comes after the object"),
        ('{"a": 1}{"b": 2}', "line 1: something comes after the object"),
        ('{"a": 1,\n"b": {"c"', "line 2: it is cut or no JSON"),
        ('{"a": 1,\n"b": 2', "line 2: it is cut: it ends within the object"),
        ('{"a": 1\n"b": 2}', "line 2: a comma is missing"),
        ('{"a": 1,}', "line 1: it is cut or no JSON"),
        ('{"a"\n 1}', "line 2: a member has no name"),
        ("{1: 2}", "line 1: a member has no name"),
        ('{"a": \nnul}', "line 2: it is cut or no JSON"),
        ('{"a": ' + "[" * 100_000, "line 1: values are nested more than 500 deep"),
        ('{"a": ' + "[" * 501 + "]" * 501 + "}", "line 1: values are nested more than 500 deep"),
        ('{"a": 1' + "0" * 5_000 + "}", "line 1: it holds a number that is too long"),
        (b'{"a": "\xff"}', "line 1: it is no UTF-8"),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 1_000_000])
def test_what_is_no_object_is_refused_with_its_line(text: str | bytes, reason: str, size: int) -> None:
    """The message has the file, the line and the fault."""
    if size == 1 and len(text) > 1000:
        size = 1000
    with pytest.raises(ImportFileError) as fault:
        list(stream(text, size).members())

    assert str(fault.value).startswith(f"{HERE}: {reason}")


@pytest.mark.parametrize(
    ("text", "reason"), [("{}", "no JSON array"), ("[1", "ends within the array"), ("[1,]", "cut")]
)
def test_what_is_no_array_is_refused(text: str, reason: str) -> None:
    """As an object is."""
    with pytest.raises(ImportFileError, match=reason):
        list(stream(text).elements())


@pytest.mark.parametrize("begin", ['["', "[[", "[1e", '[{"a": '])
def test_a_value_without_end_does_not_fill_the_memory(begin: str) -> None:
    """One longer than the bound is refused, however much follows."""

    def chunks() -> Iterator[bytes]:
        yield begin.encode()
        for _ in range(10_000):
            yield b" " * 65_536

    tracemalloc.start()
    try:
        with pytest.raises(ImportFileError):
            list(JsonStream(Source(HERE), chunks(), max_value=1 << 20).elements())
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 8 << 20
