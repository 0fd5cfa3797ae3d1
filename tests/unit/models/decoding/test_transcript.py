"""Re-alignment keeps the model's own ids and joins text to them exactly, for byte-level and SentencePiece tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers

from models.decoding.transcript import (
    break_up_markers,
    count_covering,
    cut_reply,
    decode_continuation,
    encode_continuation,
    realign,
)
from models.decoding.types import CallSyntax
from models.engines.base import Tokenizer
from models.engines.scripted_engine import ByteTokenizer

ARROWS = ByteTokenizer(["]->", "]->[", "->{", "]-", ">\n", " -->", ">[", "re", "ply"])


class SentencePieceLike:
    """A Llama-2-style vocabulary: a space is put before every text, missing characters fall back to bytes."""

    def __init__(self) -> None:
        words = ["▁", "▁a", "[", "]", "->", "]->", "x", "y", "ab", "a", "b", "▁reply", "reply", "-", ">", "\n"]
        vocab = {"<unk>": 0} | {f"<0x{i:02X}>": i + 1 for i in range(256)}
        vocab |= {word: 257 + i for i, word in enumerate(words)}
        merges = [("-", ">"), ("]", "->"), ("▁", "a"), ("a", "b")]
        self._backend = Backend(models.BPE(vocab, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
        self._backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        self._backend.decoder = decoders.Sequence(
            [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        )
        self.vocab_size = len(vocab)
        self.eos_token_ids: frozenset[int] = frozenset()
        self.bos_token_id: int | None = None
        self.has_chat_template = False
        self.thinking = None

    def encode(self, text: str) -> list[int]:
        return list(self._backend.encode(text, add_special_tokens=False).ids)

    def encode_start(self, text: str) -> list[int]:
        return self.encode(text)

    def decode(self, token_ids: Sequence[int]) -> str:
        return str(self._backend.decode(list(token_ids)))

    def token_id(self, token: str) -> int | None:
        return self._backend.token_to_id(token)

    def encode_chat(self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool = True) -> list[int]:
        raise NotImplementedError


SENTENCEPIECE = SentencePieceLike()
TOKENIZERS = {"byte level": ARROWS, "sentencepiece": SENTENCEPIECE}


@pytest.mark.parametrize("tokenizer", TOKENIZERS.values(), ids=TOKENIZERS)
@given(
    st.lists(st.sampled_from(["a", "]->", "]", "[", " ", "α", "€", "\n", "reply", "x", "→"]), max_size=12).map("".join)
)
def test_a_continuation_is_joined_without_a_space(tokenizer: Tokenizer, text: str) -> None:
    """Ids encoded as a continuation decode to the text itself behind any other text."""
    ids = encode_continuation(text, tokenizer)

    assert decode_continuation(ids, tokenizer) == text
    assert tokenizer.decode([*tokenizer.encode("x]->"), *ids]) == "x]->" + text


def test_sentencepiece_alone_would_add_a_space() -> None:
    """The double really has the trap that the continuation functions avoid."""
    assert SENTENCEPIECE.decode([*SENTENCEPIECE.encode("x]->"), *SENTENCEPIECE.encode("[reply")]) != "x]->[reply"


@pytest.mark.parametrize(
    ("pieces", "text", "kept", "rest"),
    [
        (["a", "]->"], "a]->", 2, ""),
        (["a", "]->["], "a]->", 1, "]->"),
        (["a", "]", "->{"], "a]->", 2, "->"),
        (["a", "]-", ">\n"], "a]->", 2, ">"),
        (["a", "]-"], "a]->", 2, ">"),
        ([], "]->", 0, "]->"),
        (["a"], "", 0, ""),
    ],
)
def test_only_the_tail_is_tokenised_again(pieces: list[str], text: str, kept: int, rest: str) -> None:
    """The longest prefix of the model's ids that spells the text stays; the rest is text."""
    ids = [token for piece in pieces for token in ARROWS.encode(piece)]

    assert realign(ids, text, ARROWS) == (tuple(ids[:kept]), rest)


@pytest.mark.parametrize("tokenizer", TOKENIZERS.values(), ids=TOKENIZERS)
@given(st.text(alphabet="ab]->[ \n€", max_size=40), st.integers(0, 40))
def test_kept_ids_and_rest_always_spell_the_text(tokenizer: Tokenizer, whole: str, length: int) -> None:
    """Wherever text is cut out of what the ids spell, kept ids and rest give it back."""
    ids, text = encode_continuation(whole, tokenizer), whole[:length]
    kept, rest = realign(ids, text, tokenizer)

    assert decode_continuation(kept, tokenizer) + rest == text
    assert list(kept) == ids[: len(kept)]
    assert len(text) < len(whole) or list(kept) == ids


def test_a_model_that_tokenises_in_its_own_way_keeps_its_ids() -> None:
    """Ids that encode would never choose are kept as they are."""
    ids = list(b"re") + list(b"ply]->")

    assert ARROWS.encode("reply]->") != ids
    assert realign(ids, "reply]->", ARROWS) == (tuple(ids), "")


def test_an_end_token_behind_the_stop_is_not_kept() -> None:
    """Ids at the end that decode to nothing would tell the model that its turn is over."""
    ids = [*ARROWS.encode("a]->"), min(ARROWS.eos_token_ids)]

    assert realign(ids, "a]->", ARROWS).token_ids == tuple(ids[:-1])


def test_a_mismatch_deep_in_the_text_is_found() -> None:
    """Text that parts from the ids long before their end keeps the ids up to there."""
    ids = ARROWS.encode("x" * 50 + "y" * 500)

    assert realign(ids, "x" * 50 + "z", ARROWS) == (tuple(ids[:50]), "z")


def test_invalid_bytes_are_not_tokenised_again() -> None:
    """Bytes that are no UTF-8 may show as one or as several replacement characters and still stay."""
    ids = [ord("a"), 0xE2, 0x82, ord("b"), *ARROWS.encode("]->")]

    assert realign(ids, "a\ufffd\ufffdb]->", ARROWS) == (tuple(ids), "")
    assert realign(ids, "a\ufffdb]->", ARROWS) == (tuple(ids), "")


def test_a_character_cut_in_two_moves_to_the_rest() -> None:
    """Half a character is no prefix of the text: it is tokenised again as a whole."""
    ids = [ord("a"), *"€".encode()[:2]]

    assert realign(ids, "a€", ARROWS) == ((ord("a"),), "€")


def test_covering_ids_spell_all_of_the_text() -> None:
    """The token that the text ends inside of belongs to it; what only spells a stop string does not."""
    ids = ARROWS.encode("a]->[reply")

    assert count_covering(ids, "a]->", ARROWS) == 2
    assert count_covering(ids, "a", ARROWS) == 1
    assert count_covering([*ids, 257], "a]->[reply", ARROWS) == len(ids)


@pytest.mark.parametrize("tokenizer", TOKENIZERS.values(), ids=TOKENIZERS)
@given(st.integers(0, 60), st.text(alphabet="ab] x€", min_size=1, max_size=80))
def test_a_cut_reply_keeps_its_budget_and_its_bracket(tokenizer: Tokenizer, budget: int, body: str) -> None:
    """Long replies end in a mark and a bracket within the budget; short ones are untouched."""
    text = f"[{body}]"
    cut = cut_reply(text, "\n", budget, tokenizer)

    if len(encode_continuation(text + "\n", tokenizer)) <= budget:
        assert cut == text + "\n"
    else:
        assert cut.endswith("...(cut)]\n")
        smallest = encode_continuation("[ ...(cut)]\n", tokenizer)
        assert len(encode_continuation(cut, tokenizer)) <= max(budget, len(smallest))
        assert text.startswith(cut.removesuffix("...(cut)]\n").rstrip())


def test_a_reply_cannot_hold_a_call() -> None:
    """Openers and closers inside a reply are broken up."""
    syntax = CallSyntax("[https://", "]->", lambda _: True)
    harmless = break_up_markers("[a [https://ncbi/x]->[y]-> z]", syntax)

    assert "]->" not in harmless
    assert "[https://" not in harmless
