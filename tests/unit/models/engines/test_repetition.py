"""When a text counts as repeating itself, and when it does not: scripted loops, and texts of people and machines."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from models.card import ModelCard
from models.catalog import EMBEDDED_DIR, context_length
from models.engines.base import EngineOptions
from models.engines.text_stream import MAX_PERIOD, RepetitionGuard
from models.engines.tokenizer import HfTokenizer
from models.engines.transformers_engine.engine import TransformersEngine
from models.types import REPETITION, Delta, GenerateParams

ROOT = Path(__file__).parents[4]
PREFIX = "The gene BRCA1 lies on chromosome 17 and codes for a protein. "
# Every loop of at most MAX_PERIOD tokens has ended by then, whatever stands before it.
LOOP_BOUND = 4 * MAX_PERIOD


@pytest.fixture(scope="module")
def tokenizer() -> HfTokenizer:
    return HfTokenizer.load(str(EMBEDDED_DIR))


def fires_at(ids: Sequence[int], guard: RepetitionGuard | None = None) -> int | None:
    """The number of tokens after which the guard says so, None for never."""
    guard = guard or RepetitionGuard()
    return next((at for at, token in enumerate(ids, 1) if guard.add(token)), None)


@pytest.mark.parametrize("period", range(1, MAX_PERIOD + 1))
def test_a_loop_of_any_period_ends_soon_after_any_prefix(period: int) -> None:
    """At most max(128, 4 turns) tokens of it."""
    rng = random.Random(period)
    turn = rng.sample(range(1000, 2000), period)
    for length in (0, 1, 77, 400):
        prefix = [rng.randrange(500) for _ in range(length)]
        at = fires_at(prefix + turn * 400)
        assert at == length + max(128, 4 * period)


@pytest.mark.parametrize("period", [65, 100, 200, 333])
def test_a_longer_loop_ends_when_it_brings_nothing_new(period: int) -> None:
    """Two turns are a draft and its copy; then a window without anything new ends it."""
    at = fires_at(random.Random(period).sample(range(1000), period) * 30)
    assert at is not None and 2 * period < at <= 2 * period + 300


@pytest.mark.parametrize(
    "text",
    [
        "brca1 on]->" * 300,
        "".join(f"brca{i} on]->" for i in range(400)),
        "".join(f"brca{random.Random(i).randrange(10)} on]->" for i in range(400)),
        "".join(f"Step {i}: I look at the gene again and find nothing new in the record. " for i in range(100)),
        "The gene lies on chromosome 17 and is associated with breast cancer. " * 40,
        "".join(random.Random(i).choice(("It codes for a protein. ", "No record is known. ")) for i in range(300)),
    ],
)
def test_texts_that_say_the_same_again_end(tokenizer: HfTokenizer, text: str) -> None:
    """Also where a number changes at every turn, or sentences change places."""
    at = fires_at(tokenizer.encode(PREFIX + text))
    assert at is not None and at <= len(tokenizer.encode(PREFIX)) + 640


def sequences(rng: random.Random) -> dict[str, str]:
    dna = ["".join(rng.choices("ACGT", k=500)) for _ in range(4)]
    return {
        "DNA": "".join(dna),
        "DNA with a poly-A tail and repeats": dna[0] + "A" * 60 + dna[1] + "CAG" * 36 + dna[2] + "TA" * 30,
        "CSV": "".join(f"G{rng.randint(1, 9999)},{rng.randint(1, 22)},{rng.random():.3g}\n" for _ in range(200)),
        "rs numbers": ", ".join(f"rs{rng.randint(1, 10**8)}" for _ in range(200)),
        "Ensembl ids": ", ".join(f"ENSG{rng.randint(1, 300000):011d}" for _ in range(150)),
        "counting": ", ".join(map(str, range(1, 300))),
        "decimals": ", ".join(f"0.{rng.randint(0, 99):02d}" for _ in range(100)),
    }


def structured(rng: random.Random) -> dict[str, str]:
    genes = [(f"GENE{rng.randint(1, 999)}", rng.randint(1, 22), rng.randint(1, 10**8)) for _ in range(60)]
    kinds = ("benign", "pathogenic", "uncertain significance")
    authors = [(rng.randint(1, 99), rng.randint(1, 99), rng.randint(1, 999), rng.randint(10, 40)) for _ in range(50)]
    return {
        "JSON": json.dumps([{"gene": gene, "chromosome": chrom} for gene, chrom, _ in genes], indent=2),
        "array with nothing in it": json.dumps([None] * 20 + [0] * 30),
        "table": "| gene | chr | start | kind |\n| --- | --- | --- | --- |\n"
        + "".join(f"| {gene} | {chrom} | {start} | {rng.choice(kinds)} |\n" for gene, chrom, start in genes),
        "rulers": "| gene | chr | start | end | p | OR |\n" + "| --- " * 6 + "|\n" + "-" * 80 + "\n" + "=" * 80 + "\n",
        "references": "".join(
            f"{n}. Author{a} A, Name{b} B. Word{c} of a gene. Bioinformatics {d}({n}), 20{10 + n % 15}.\n"
            for n, (a, b, c, d) in enumerate(authors, 1)
        ),
        "exons": "".join(f"exon {n}: {rng.randint(50, 300)} bp, {rng.choice(kinds)}\n" for n in range(1, 80)),
        "code": "def f(x):\n" + "".join(f"{' ' * 4 * (n % 6 + 1)}x += {rng.randint(1, 99)}\n" for n in range(80)),
    }


@pytest.mark.parametrize("name", [*sequences(random.Random(0)), *structured(random.Random(0))])
def test_data_that_repeats_by_nature_is_no_loop(tokenizer: HfTokenizer, name: str) -> None:
    """Ids, sequences and tables of ordinary length pass whole."""
    for seed in range(3):
        texts = sequences(random.Random(seed)) | structured(random.Random(seed))
        assert fires_at(tokenizer.encode(texts[name])) is None


def test_what_people_wrote_is_no_loop(tokenizer: HfTokenizer) -> None:
    """Every page of the documentation, its tables included, and the notes for testing."""
    pages = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "retrieval/corpus/ingest/sample/notes.txt"]
    texts = {page.name: page.read_text(encoding="utf-8")[:30_000] for page in pages}

    assert len(texts) > 10
    assert [name for name, text in texts.items() if fires_at(tokenizer.encode(text)) is not None] == []


def test_an_answer_that_repeats_its_draft_once_is_no_loop() -> None:
    """Models think, then write the same words."""
    draft = random.Random(3).sample(range(1000), 600)
    assert fires_at(draft * 2) is None


def test_a_run_of_the_prompt_may_be_copied_and_not_outrun() -> None:
    """A sequence of the question is written into a call; one that goes on behind its end is a loop."""
    repeat = [7, 8, 9] * 100
    assert fires_at(repeat, RepetitionGuard([1, 2, *repeat, 3])) is None
    assert fires_at(repeat * 2, RepetitionGuard([1, 2, *repeat, 3])) == len(repeat) + 1


def test_text_before_the_end_of_the_prompt_counts_where_the_model_wrote_it() -> None:
    """Behind an arrow that is no call the answer goes on in a new generation; inserted replies begin it anew."""
    turn = [1, 2, 3, 4]
    own = turn * 25
    continued = RepetitionGuard.continuing([9, *own], own)
    replied = RepetitionGuard.continuing([9, *own, 50, 51], own)

    assert fires_at(turn * 100, continued) == 28
    # What stands there as long is in the prompt now.
    assert fires_at(turn * 100, replied) == 128


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_random_words_never_leave_the_embedded_model_in_a_loop(tokenizer: HfTokenizer) -> None:
    """500 prompts of random words: no answer has a loop of more than its bound, by a count of its own."""
    rng = random.Random(18)
    words = (ROOT / "retrieval/corpus/ingest/sample/notes.txt").read_text(encoding="utf-8").split()
    prompts = [f"Question: {' '.join(rng.choices(words, k=rng.randint(1, 12)))}\n" for _ in range(500)]
    card = ModelCard(name="tiny", source=str(EMBEDDED_DIR), context_length=context_length(EMBEDDED_DIR))
    engine = TransformersEngine(card, EngineOptions(device="cpu", max_num_seqs=64, max_queue=500))
    await engine.start()
    params = GenerateParams(max_tokens=384, stop_on_repetition=True)

    async def write(number: int) -> list[Delta]:
        ids = engine.tokenizer.encode(prompts[number])
        return [delta async for delta in engine.generate(ids, params, f"r{number}")]

    try:
        answers = await asyncio.gather(*map(write, range(len(prompts))))
    finally:
        await engine.close()
    for answer in answers:
        ids = [token for delta in answer for token in delta.token_ids]
        assert len(ids) <= params.max_tokens and longest_loop(ids) <= LOOP_BOUND
        assert answer[-1].finish_reason == "length" or answer[-1].stop_reason is None
    assert any(answer[-1].stop_reason == REPETITION for answer in answers)


def longest_loop(ids: Sequence[int]) -> int:
    """The longest stretch that equals what stands one period before it, that period included."""
    longest = 0
    for period in range(1, MAX_PERIOD + 1):
        run = 0
        for at in range(period, len(ids)):
            run = run + 1 if ids[at] == ids[at - period] else 0
            if run >= 3 * period:
                longest = max(longest, run + period)
    return longest
