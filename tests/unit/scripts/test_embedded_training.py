"""The embedded model's tokenizer and training transcripts."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from retrieval.ncbi.calls.urls import parse_call_url
from scripts.embedded.batches import StreamPlan, batches, encode
from scripts.embedded.generator import Generator
from scripts.embedded.tokenizer import build_tokenizer
from scripts.embedded.transcript import search_url
from scripts.embedded.values import Values
from scripts.train_embedded_model import Plan, build_model

TOKENIZER = build_tokenizer()


@given(st.text(max_size=60))
def test_any_text_survives_the_tokenizer(text: str) -> None:
    """Byte-level: decoding gives back what was encoded."""
    ids = TOKENIZER.encode(text, add_special_tokens=False).ids

    assert TOKENIZER.decode(ids) == text or "<|endoftext|>" in text


@pytest.mark.parametrize("make", ["symbol", "alias", "ensembl", "rs_number", "gene_id", "dna", "disease"])
def test_a_name_is_cut_the_same_way_in_question_url_and_reply(make: str) -> None:
    """The tokens of an identifier or a disease do not depend on what stands around it."""
    values = Values(random.Random(3))
    for _ in range(100):
        name = getattr(values, make)()
        alone = TOKENIZER.encode(name).tokens
        for around in ("Question: What is {}?\n", "&term={}]->", "QUERY={}&HITLIST_SIZE=5", "aliases {}, AB; id 5"):
            before, after = (len(TOKENIZER.encode(part).ids) for part in around.split("{}"))
            tokens = TOKENIZER.encode(around.format(name)).tokens
            assert tokens[before : len(tokens) - after] == alone


def test_the_arrow_and_long_url_parts_are_single_tokens() -> None:
    """A call costs few tokens beside its own identifier, and ends exactly at the arrow."""
    tokens = TOKENIZER.encode(f"[{search_url('gene', 'LMP10')}]->").tokens

    assert len(tokens) == 7
    assert tokens[-1] == "]->"


@pytest.mark.parametrize("kind", [k for k in Generator(0).kinds if k != "copy"])
def test_every_generated_call_is_one_that_can_be_sent(kind: str) -> None:
    """The model is taught no call that the call table refuses."""
    generator = Generator(11)
    for _ in range(40):
        parts = generator.draw_one(kind)
        assert parts[-1].text.startswith("Answer: ")
        assert parts[-1].text.endswith("\n\n")
        for part in parts[1:-1]:
            if part.written:
                assert part.text.startswith("[https://")
                parse_call_url(part.text.removeprefix("[").removesuffix("]->"))
            else:
                assert part.text.startswith("[")
                assert part.text.endswith("]\n")


def test_answers_are_copied_from_the_last_reply() -> None:
    """The model has nothing to know: an answer's words stand in a reply, but for the fixed ones."""
    generator = Generator(5)
    fixed = {"not found", "none", "Yes", "No", "no chromosome", "not found, the call failed"}
    for _ in range(300):
        parts = generator.draw_one(generator.draw.choice(["alias", "snp_gene", "disease", "species", "snp_function"]))
        answer = parts[-1].text.removeprefix("Answer: ").strip()
        replies = "".join(part.text for part in parts[1:] if not part.written)
        assert answer in fixed or all(word in replies for word in answer.split(", "))


def test_the_training_stream_is_reproducible() -> None:
    """The same plan gives the same batches."""
    plan = StreamPlan(seed=3, batch_tokens=600)
    first, second = batches(TOKENIZER, plan), batches(TOKENIZER, plan)
    for _ in range(5):
        a, b = next(first), next(second)
        assert a.ids.equal(b.ids)
        assert a.learn.equal(b.learn)


def test_only_what_the_model_writes_is_learnt() -> None:
    """Question and replies are context; calls, answer and the end token are learnt."""
    parts = Generator(1).draw_one("snp_gene")
    ids, learn = encode(TOKENIZER, parts)
    learnt = TOKENIZER.decode([i for i, keep in zip(ids, learn, strict=True) if keep], skip_special_tokens=True)

    assert learnt == "".join(part.text for part in parts if part.written)
    assert learn[-1]


def test_copying_works_before_any_training() -> None:
    """Freshly built, the model repeats a text it has seen before: the closed-form weights do what they say."""
    model = build_model(
        Plan(tokens=1, seed=7, batch_tokens=1, learning_rate=0.0, layers=5, width=256, inner=640), TOKENIZER
    )
    right = total = 0
    for seed in range(8):
        text = "".join(part.text for part in Generator(seed).draw_one("alias"))
        ids = TOKENIZER.encode(text).ids[:250]
        wanted = ids[40:80]
        with torch.no_grad():
            logits = model(torch.tensor([[*ids, *wanted]])).logits[0]
        guessed = logits[len(ids) + 4 : -1].argmax(-1).tolist()
        right += sum(a == b for a, b in zip(guessed, wanted[5:], strict=True))
        total += len(guessed)

    assert right / total > 0.9
