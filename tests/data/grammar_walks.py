"""Walk through a Lark grammar token by token, as llguidance and as xgrammar read it, with random choices."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import llguidance
import pytest
import torch
import xgrammar as xgr

from models.engines.scripted_engine import ByteTokenizer

END = 257
TOKENIZER = ByteTokenizer((" [1]", "> The", "afe. I", " [2]\nAnswer:", " TP5", "53", "5 mg"))
PIECES = [TOKENIZER.decode([i]).encode() if i > 255 else bytes([i]) for i in range(TOKENIZER.vocab_size)]
# Steps through a grammar: the ids allowed next, or None where it has ended; and the choice of one of them.
Walk = tuple[Callable[[], list[int] | None], Callable[[int], None]]


class _Pieces:
    """What llguidance asks of a tokenizer of its own."""

    eos_token_id = END
    bos_token_id = None
    tokens = PIECES
    special_token_ids: tuple[int, ...] = (256, END, 258, 259, 260, 261)

    def __call__(self, text: Any) -> list[int]:
        return list(text if isinstance(text, bytes) else text.encode())


LARK_TOKENIZER = llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Pieces()))
XGRAMMAR = xgr.GrammarCompiler(
    xgr.TokenizerInfo(PIECES, vocab_type=xgr.VocabType.RAW, stop_token_ids=[END]), max_threads=1
)


def bits(row: torch.Tensor) -> list[int]:
    return [32 * at + bit for at, word in enumerate(row.tolist()) if word for bit in range(32) if word >> bit & 1]


def by_llguidance(spec: str) -> Walk:
    matcher = llguidance.LLMatcher(LARK_TOKENIZER, llguidance.LLMatcher.grammar_from_lark(spec))
    assert not matcher.is_error(), matcher.get_error()
    row = torch.zeros(1, -(-len(PIECES) // 32), dtype=torch.int32)

    def allowed() -> list[int] | None:
        if matcher.is_stopped():
            return None
        matcher.unsafe_compute_mask_ptr(row.data_ptr(), row.numel() * 4)
        return bits(row[0])

    def take(token: int) -> None:
        assert matcher.consume_token(token)

    return allowed, take


def by_xgrammar(spec: str) -> Walk:
    matcher = xgr.GrammarMatcher(XGRAMMAR.compile_lark(spec))
    row = xgr.allocate_token_bitmask(1, len(PIECES))

    def allowed() -> list[int] | None:
        if matcher.is_terminated():
            return None
        matcher.fill_next_token_bitmask(row)
        return bits(row[0])

    def take(token: int) -> None:
        assert matcher.accept_token(token)

    return allowed, take


BOTH = pytest.mark.parametrize("walk", [by_llguidance, by_xgrammar], ids=["llguidance", "xgrammar"])


def written(walk: Walk, chooser: random.Random, most: int = 10_000) -> str:
    """A text whose every token is drawn from the allowed ones; it ends as soon as it can, in half the cases.

    After ``most`` tokens it ends where it can.
    """
    allowed, take = walk
    ids: list[int] = []
    while (options := allowed()) is not None:
        assert options, f"no token may follow {TOKENIZER.decode(ids)!r}"
        ends = END in options and (chooser.random() < 0.5 if most == 10_000 else len(ids) >= most)
        token = END if ends else chooser.choice([one for one in options if one != END] or options)
        take(token)
        if token != END:
            ids.append(token)
    return b"".join(PIECES[i] for i in ids).decode()


def admits(walk: Walk, text: str) -> bool:
    """Whether a text, byte by byte, is a whole output."""
    allowed, take = walk
    for token in [*text.encode(), END]:
        options = allowed()
        if options is None or token not in options:
            # llguidance ends by itself where nothing can follow.
            return options is None and token == END
        take(token)
    return True
