"""Token ids of OpenAI's embedding models: the table is tiktoken's, and decodes to the text that was encoded."""

from __future__ import annotations

import base64
import hashlib

import pytest

from models.encoders.openai_tokens import MAX_TOKEN, _tokens, text_of

# Of cl100k_base.tiktoken, as tiktoken itself checks it (tiktoken_ext/openai_public.py).
PUBLISHED = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"


def test_the_table_is_the_published_one() -> None:
    """In the form in which OpenAI publishes it: a token and its rank in each line."""
    digest = hashlib.sha256()
    for rank, token in enumerate(_tokens()):
        digest.update(base64.b64encode(token) + f" {rank}\n".encode())
    assert digest.hexdigest() == PUBLISHED
    assert len(_tokens()) == MAX_TOKEN + 1


def test_ids_are_decoded() -> None:
    """ "LMP10 is a gene.", and a Greek letter of which the first token is half."""
    assert text_of([43, 5901, 605, 374, 264, 15207, 13]) == "LMP10 is a gene."
    halves = next((n for n, token in enumerate(_tokens()) if token == "β".encode()), None)
    assert halves is not None and text_of([halves]) == "β"
    lone = next(n for n, token in enumerate(_tokens()) if token == b"\xce")
    assert text_of([lone]) == "\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize("number", [-1, MAX_TOKEN + 1])
def test_other_ids_are_refused(number: int) -> None:
    """Special tokens stand for no text."""
    with pytest.raises(ValueError, match="cl100k_base"):
        text_of([1, number])
