"""Text that spells a control token stays text, and ordinary text gets the tokens that the tokenizer itself gives it."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

from models.engines.tokenizer import ControlTokenEncoder, HfTokenizer, TextMask
from models.errors import UnsupportedParam

FAMILIES = runpy.run_path(str(Path(__file__).parents[3] / "family_models.py"))
NAMES = tuple(FAMILIES["FAMILIES"])
Loaded = tuple[Any, HfTokenizer, frozenset[int]]


@pytest.fixture(scope="module", params=NAMES)
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """The tokenizer as transformers has it, ours, and the ids of all its control tokens."""
    family = FAMILIES["FAMILIES"][request.param]
    directory = tmp_path_factory.mktemp(request.param)
    fast = FAMILIES["build_tokenizer"](family, directory)
    words = [token for token in (*family.special, *family.added) if token.strip("▁\n") and "sup" not in token]
    return fast, HfTokenizer.load(str(directory)), frozenset(fast.convert_tokens_to_ids(words))


def chat(*texts: str) -> list[dict[str, str]]:
    roles = ("user", "assistant")
    return [{"role": roles[i % 2], "content": text} for i, text in enumerate(texts)]


def spelt(loaded: Loaded) -> list[str]:
    return [loaded[0].convert_ids_to_tokens(i) for i in sorted(loaded[2])]


def test_text_that_spells_a_control_token_never_has_its_id(loaded: Loaded) -> None:
    """Each of them, alone, in a row and beside text, marked special in the files or not (`<think>`, `<tool_call>`)."""
    _, tokenizer, control = loaded
    for text in (*spelt(loaded), "".join(spelt(loaded)), " a ".join(spelt(loaded))):
        ids = tokenizer.encode(text)

        assert control.isdisjoint(ids)
        assert control.isdisjoint(tokenizer.encode_start(text)[1:] if tokenizer.bos_token_id else [])
        assert tokenizer.decode(ids) == text


def test_messages_cannot_write_markup(loaded: Loaded) -> None:
    """A chat has the control tokens of its template, whatever its messages and system text spell, whole or in part."""
    _, tokenizer, control = loaded
    markup = [i for i in tokenizer.encode_chat(chat("a", "b", "c")) if i in control]
    for token in spelt(loaded):
        for text in (token, f"a{token}", f"{token}\nassistant\n{token}a", token[:-1], token[1:], token * 3):
            ids = tokenizer.encode_chat(chat(text, "b", text))

            assert [i for i in ids if i in control] == markup


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(texts=st.lists(st.text(alphabet="ab 16.\n\tegn'é基🧬-_=/", max_size=20), min_size=3, max_size=3))
def test_a_chat_of_ordinary_text_is_the_tokenizers_own(loaded: Loaded, texts: list[str]) -> None:
    """Ids are those of rendering and tokenising at once: prefix spaces, white space beside markup, one BOS."""
    fast, tokenizer, _ = loaded
    messages = chat(*texts)
    whole = fast.apply_chat_template(messages, tokenize=True, add_generation_prompt=True, return_dict=False)

    assert tokenizer.encode_chat(messages) == whole


@pytest.mark.parametrize(
    "text", ["What is LMP10?", " a", "\n\n\nb", "x" * 50, "a    b", "H<sub>2</sub>O x<sup>2</sup>"]
)
def test_a_text_that_begins_a_sequence_is_the_tokenizers_own(loaded: Loaded, text: str) -> None:
    """With BOS where the tokenizer puts one, once, and the space in front; runs of spaces and HTML stay one token."""
    fast, tokenizer, _ = loaded

    assert tokenizer.encode_start(text) == fast(text)["input_ids"]


def test_text_in_the_middle_has_no_space_in_front(loaded: Loaded) -> None:
    """Nothing is gained or lost where a reply is put into a sequence."""
    _, tokenizer, _ = loaded
    for more in ("gene", " gene", "\n\ngene", "\ngene"):
        assert tokenizer.decode([*tokenizer.encode("a"), *tokenizer.encode(more)]) == f"a{more}"


def merging(normalized: bool) -> Any:
    """A tokenizer whose merges spell `<s>`, and whose token for it is searched for in normalised text or not."""
    pieces = {piece: i for i, piece in enumerate(["<unk>", "<s>", "▁", "<", "s", ">", "s>", "a", "▁a"])}
    backend = Tokenizer(models.BPE(pieces, [("s", ">"), ("<", "s>"), ("▁", "a")], unk_token="<unk>"))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Strip(" ", 1, 0)])
    backend.add_tokens([AddedToken("<s>", special=True, normalized=normalized)])
    return backend


@pytest.mark.parametrize("normalized", [True, False])
def test_merges_cannot_spell_a_control_token(normalized: bool) -> None:
    """SentencePiece vocabularies hold their control tokens, and merges may lead to them."""
    encoder = ControlTokenEncoder(merging(normalized), "")
    ids = encoder.encode("a<s>")

    assert merging(normalized).model.token_to_id("<s>") == 1
    assert 1 not in ids
    assert ids[-2:] == [3, 6]


def test_templates_tokens_are_real_also_in_normalised_text() -> None:
    """A token that the tokenizer hides behind a space in front is found where the template wrote it."""
    for normalized in (True, False):
        encoder = ControlTokenEncoder(merging(normalized), "")
        mask = TextMask.of(encoder.characters, ["a<s>"])

        assert encoder.encode_rendered("a<s>" + mask.hide("a<s>"), mask).count(1) == 1


def test_a_mask_keeps_length_and_gives_back_every_text() -> None:
    """Also text that has private characters of its own; keys, lists and what is no text pass."""
    value = {"<a>": ["<b>", {"c": "\U00100000<"}], "n": 3, "none": None}
    mask = TextMask.of("<>", value)

    assert mask.hide(value)["n"] == 3
    assert len(mask.hide("<b>")) == 3
    assert "<" not in mask.hide("<b>")
    assert mask.show(mask.hide("\U00100000<")) == "\U00100000<"


def test_text_of_all_private_characters_is_refused() -> None:
    """There is nothing left to exchange for."""
    every = "".join(map(chr, (*range(0x100000, 0x10FFFE), *range(0xF0000, 0xFFFFE))))
    with pytest.raises(UnsupportedParam):
        TextMask.of("<", [every])
