"""What a model thinks before it answers is read apart from its answer."""

from __future__ import annotations

import pytest

from models.engines.base import ThinkingTokens, begins_thinking
from models.engines.scripted_engine import ByteTokenizer
from models.engines.text_stream import TextStream
from models.types import GenerateParams, Grammar

TOKENIZER = ByteTokenizer(thinks=True)
PARAMS = GenerateParams(max_tokens=99, stop=("\n\n",))
EOS = min(TOKENIZER.eos_token_ids)


def read(text: str, prompt: str = "", *, end: bool = True, params: GenerateParams = PARAMS) -> tuple[str, str, int]:
    """The answer, the thinking and how many tokens are thinking's."""
    stream = TextStream(TOKENIZER, params, TOKENIZER.encode(prompt))
    ids = [*TOKENIZER.encode(text), *([EOS] if end else [])]
    answer, thoughts, count = "", "", 0
    for position, token_id in enumerate(ids, start=1):
        is_eos = end and position == len(ids)
        piece, finish = stream.advance(token_id, is_eos=is_eos, is_last=position == len(ids))
        answer, thoughts, count = answer + piece, thoughts + stream.thought, count + stream.was_thought
        if finish is not None:
            break
    return answer, thoughts, count


@pytest.mark.parametrize(
    ("text", "prompt", "answer", "thoughts"),
    [
        ("<think>\nhm\n\nwell\n</think>\n\nPSMB10", "", "PSMB10", "hm\n\nwell\n"),
        ("hm</think>PSMB10", "<think>", "PSMB10", "hm"),
        ("<think>\n\n</think>\n\nPSMB10", "", "PSMB10", ""),
        ("PSMB10", "<think>x</think>", "PSMB10", ""),
        ("</think>PSMB10", "", "PSMB10", ""),
        ("PSMB10 <think>is it", "", "PSMB10 <think>is it", ""),
    ],
)
def test_thinking_is_no_part_of_the_answer(text: str, prompt: str, answer: str, thoughts: str) -> None:
    """Its stop strings do not count, the white space behind it is left out, and an answer may speak of `<think>`."""
    assert read(text, prompt)[:2] == (answer, thoughts)


@pytest.mark.parametrize("end", [True, False])
@pytest.mark.parametrize(("text", "prompt"), [("<think>so far", ""), ("so far", "<think>")])
def test_thinking_that_is_cut_is_no_answer(text: str, prompt: str, end: bool) -> None:
    """Whether the length or an end token cuts it."""
    assert read(text, prompt, end=end)[:2] == ("", "so far")


def test_the_tokens_of_thinking_are_counted() -> None:
    """Marks, text and the white space behind: what is left spells the answer."""
    text = "<think>ab</think>\n\nc"
    count = read(text, end=False)[2]

    assert TOKENIZER.decode(TOKENIZER.encode(text)[count:]) == "c"


def test_half_a_character_at_the_end_of_thinking_is_not_lost_to_the_answer() -> None:
    """Its bytes are shown as thinking."""
    stream = TextStream(TOKENIZER, PARAMS, TOKENIZER.encode("<think>"))
    stream.advance(0xE2, is_eos=False, is_last=False)
    assert TOKENIZER.thinking is not None
    stream.advance(TOKENIZER.thinking.end, is_eos=False, is_last=False)

    assert stream.thought == "\ufffd"


def test_a_grammar_of_the_whole_output_leaves_no_room_for_thinking() -> None:
    """Its text is the answer, although the template opened a thought."""
    tokens = TOKENIZER.thinking
    assert tokens is not None
    prompt = TOKENIZER.encode("<think>")

    assert begins_thinking(tokens, prompt, None)
    assert begins_thinking(tokens, prompt, Grammar("structural_tag", "{}"))
    assert not begins_thinking(tokens, prompt, Grammar("regex", "a"))
    assert not begins_thinking(None, prompt, None)


def test_a_vocabulary_with_half_a_pair_does_not_think() -> None:
    """Both tokens are needed."""
    assert ThinkingTokens.of({"<think>": 1}) is None
    assert ThinkingTokens.of({"[THINK]": 1, "[/THINK]": 2}) == ThinkingTokens(1, 2, "[THINK]", "[/THINK]")
