"""Measure what jump-forward saves: the decoding steps of a call, the cost of its grammar, and the time of a call.

    python scripts/benchmarks/decoding/jump_forward.py [--tokenizer FOLDER ...]
    python scripts/benchmarks/decoding/jump_forward.py --model arrowhead-small [--together 1 8] [--rounds 3]

The first form walks through calls of GeneGPT's tasks in their own tokens, without a model: what is not forced is taken
as a model would write it. ``tekken`` stands for the tokenizer of 131,072 tokens that the package mistral_common
carries. The second form lets a model write calls with and without jump-forward in turn, on the transformers engine.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from models.catalog import ModelRequest, card_from_request, load_catalog
from models.decoding.grammar import call_grammar, forced_call_grammar
from models.engines.base import Engine, EngineOptions
from models.engines.tokenizer import HfTokenizer
from models.engines.transformers_engine.engine import TransformersEngine
from models.engines.transformers_engine.grammar_mask import GrammarCompiler, GrammarState
from models.types import GenerateParams, Grammar
from retrieval.ncbi.calls.urls import call_regex, parse_call_url

CONVERTED = Path.home() / ".local" / "share" / "arrowhead" / "models"
EUTILS = "[https://eutils.ncbi.nlm.nih.gov/entrez/eutils/"
BLAST = "[https://blast.ncbi.nlm.nih.gov/blast/Blast.cgi?CMD="
SEQUENCE = "ATTCTGCCTTTAGTAATTTGATGACAGAGACTTCTTGGGAACCACAGCC"
# One of each form that GeneGPT's tasks take.
CALLS = (
    f"{EUTILS}esearch.fcgi?db=gene&retmax=5&retmode=json&sort=relevance&term=LMP10]->",
    f"{EUTILS}esummary.fcgi?db=gene&retmax=5&retmode=json&id=5699,8138,19171]->",
    f"{EUTILS}esummary.fcgi?db=snp&retmax=10&retmode=json&id=1217074595]->",
    f"{EUTILS}esearch.fcgi?db=omim&retmax=20&retmode=json&sort=relevance&term=Meesmann+corneal+dystrophy]->",
    f"{EUTILS}esummary.fcgi?db=omim&retmax=20&retmode=json&id=618767,601687,300778]->",
    f"{EUTILS}efetch.fcgi?db=gene&retmax=5&retmode=xml&id=2023]->",
    f"{BLAST}Put&PROGRAM=blastn&MEGABLAST=on&DATABASE=nt&FORMAT_TYPE=XML&QUERY={SEQUENCE}&HITLIST_SIZE=5]->",
    f"{BLAST}Get&FORMAT_TYPE=Text&RID=2KM4Z6PS016]->",
)
QUESTIONS = (
    "What is the official gene symbol of LMP10?",
    "Which gene is SNP rs1217074595 associated with?",
    "What are genes related to Meesmann corneal dystrophy?",
)


def tekken(folder: Path) -> Path:
    """Write mistral_common's tokenizer in transformers' format."""
    import mistral_common
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    data = json.loads((Path(mistral_common.__file__).parent / "data" / "tekken_240911.json").read_text())
    num_special = data["config"]["default_num_special_tokens"]
    size = data["config"]["default_vocab_size"] - num_special
    ranks = {base64.b64decode(one["token_bytes"]): one["rank"] for one in data["vocab"] if one["rank"] < size}
    names = bytes_to_unicode()
    text = {token: "".join(names[byte] for byte in token) for token in ranks}
    merges = sorted(
        (rank, ranks[token[:at]], ranks[token[at:]], text[token[:at]], text[token[at:]])
        for token, rank in ranks.items()
        for at in range(1, len(token))
        if token[:at] in ranks and token[at:] in ranks
    )
    special = ["<unk>", "<s>", "</s>", *(f"<SPECIAL_{number}>" for number in range(3, num_special))]
    vocabulary = {one: number for number, one in enumerate(special)}
    vocabulary |= {text[token]: rank + num_special for token, rank in ranks.items()}
    backend = Tokenizer(models.BPE(vocabulary, [(left, right) for *_, left, right in merges], ignore_merges=True))
    split = pre_tokenizers.Split(Regex(data["config"]["pattern"]), behavior="isolated")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(one, special=True, normalized=False) for one in special])
    PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>").save_pretrained(folder)
    return folder


@dataclass(slots=True)
class Costs:
    """Microseconds of each token."""

    mask: list[float] = field(default_factory=list)
    whole: list[float] = field(default_factory=list)
    forced: list[float] = field(default_factory=list)


def tokens_of(call: str, tokenizer: HfTokenizer) -> list[int]:
    """The tokens of a call, its arrow in one where the tokenizer has one for it."""
    arrow = tokenizer.token_id("]->")
    return tokenizer.encode(call) if arrow is None else [*tokenizer.encode(call[:-3]), arrow]


def steps(state: GrammarState, ids: Sequence[int], size: int, costs: Costs) -> int:
    """Walk through a call and return how many of its tokens are decoded."""
    at = decoded = 0
    logits = torch.randn(size)
    while at < len(ids):
        row = logits.clone()
        t0 = time.perf_counter()
        state.fill()
        t1 = time.perf_counter()
        # Fills again, which costs next to nothing then, as the library keeps the last mask.
        state.mask(row)
        state.accept(ids[at])
        t2 = time.perf_counter()
        forced = list(state.forced())
        t3 = time.perf_counter()
        for column, seconds in ((costs.mask, t1 - t0), (costs.whole, t2 - t0), (costs.forced, t3 - t2)):
            column.append(seconds * 1e6)
        at, decoded = at + 1, decoded + 1
        if forced:
            if forced != list(ids[at : at + len(forced)]):
                raise RuntimeError(f"forced {forced}, and the call has {ids[at : at + len(forced)]}")
            for token in forced:
                state.accept(token)
            at += len(forced)
    return decoded


def table(name: str, tokenizer: HfTokenizer, repeats: int) -> Iterator[str]:
    size = tokenizer.vocab_size
    compiler = GrammarCompiler(tokenizer, size)
    began = time.perf_counter()
    compiler.compile(Grammar("lark", 'start: "a"'))
    prepared = time.perf_counter() - began
    began = time.thread_time()
    compiled = compiler.compile(call_grammar(call_regex(()), tokenizer))
    once = time.thread_time() - began
    began = time.thread_time()
    compiler.compile(call_grammar(call_regex((SEQUENCE,)), tokenizer))
    grounded = time.thread_time() - began
    yield f"\n{name}, {size:,} tokens: vocabulary {prepared:.1f} s once, compile {once * 1e3:.1f} ms, "
    yield f"with a sequence of the question {grounded * 1e3:.1f} ms"
    yield "| call | tokens | steps | share |"
    yield "| --- | --- | --- | --- |"
    costs, total, taken = Costs(), 0, 0
    for call in CALLS:
        ids = tokens_of(call, tokenizer)
        parse_call_url(call[1:-3])
        for _ in range(repeats):
            decoded = steps(GrammarState(compiled, size), ids, size, costs)
        total, taken = total + len(ids), taken + decoded
        shown = call.split("/")[-1].split("&id")[0][:48]
        yield f"| `{shown}…` | {len(ids)} | {decoded} | {decoded / len(ids):.2f} |"
    yield f"| all | {total} | {taken} | {taken / total:.2f} |"
    medians = [statistics.median(column) for column in (costs.mask, costs.whole, costs.forced)]
    yield "µs, median: mask {:.0f}; mask, apply, accept {:.0f}; what is forced {:.0f}".format(*medians)


@dataclass(slots=True)
class Written:
    """What one way of writing took."""

    seconds: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)


async def write_calls(engine: Engine, together: int, round_: int, *, jumps: bool) -> tuple[float, int, list[str]]:
    """Let ``together`` requests write one call each; return seconds, decoded tokens, and the texts."""
    # A bias of nothing on one token changes no choice, and turns jump-forward off.
    bias = () if jumps else ((0, 0.0),)
    grammar = forced_call_grammar(call_regex(()), engine.tokenizer)
    before = engine.stats()

    async def one(number: int) -> str:
        question = QUESTIONS[number % len(QUESTIONS)]
        chat = [{"role": "user", "content": question}]
        has_chat = engine.tokenizer.has_chat_template
        ids = engine.tokenizer.encode_chat(chat) if has_chat else engine.tokenizer.encode(f"Question: {question}\n")
        params = GenerateParams(max_tokens=160, grammar=grammar, stop=("]->",), logit_bias=bias)
        return "".join([delta.text async for delta in engine.generate(ids, params, f"{round_}-{number}-{jumps}")])

    began = time.perf_counter()
    texts = list(await asyncio.gather(*(one(number) for number in range(together))))
    seconds, after = time.perf_counter() - began, engine.stats()
    forced = after.tokens_forced - before.tokens_forced
    return seconds, after.tokens_generated - before.tokens_generated - forced, texts


async def measure(name: str, numbers: Sequence[int], rounds: int) -> None:
    shipped = load_catalog(converted_dir=CONVERTED)
    card = shipped[name] if name in shipped else card_from_request(ModelRequest(source=name))
    engine = TransformersEngine(card, EngineOptions(max_model_len=1024))
    await engine.start()
    try:
        await write_calls(engine, 1, -1, jumps=True)
        print("| together | s, decoded | s, jump-forward | ratio | steps, decoded | jump-forward | same texts |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for together in numbers:
            ways = {False: Written(), True: Written()}
            for number in range(rounds):
                for jumps, written in ways.items():
                    seconds, taken, texts = await write_calls(engine, together, number, jumps=jumps)
                    written.seconds.append(seconds)
                    written.steps.append(taken)
                    written.texts += texts
            old, new = (statistics.median(ways[jumps].seconds) for jumps in (False, True))
            same = sum(a == b for a, b in zip(ways[False].texts, ways[True].texts, strict=True))
            print(
                f"| {together} | {old:.2f} | {new:.2f} | {new / old:.2f} | {ways[False].steps[0]} | "
                f"{ways[True].steps[0]} | {same} of {len(ways[True].texts)} |",
                flush=True,
            )
    finally:
        await engine.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", nargs="*", default=["tekken"], help='folders, or "tekken"')
    parser.add_argument("--repeats", type=int, default=3, help="walks through each call")
    parser.add_argument("--model", help="a model's name or folder, which then writes the calls")
    parser.add_argument("--together", type=int, nargs="+", default=[1, 8], help="requests at once")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.model:
        asyncio.run(measure(arguments.model, arguments.together, arguments.rounds))
        return
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        for name in arguments.tokenizer:
            folder = tekken(Path(scratch)) if name == "tekken" else Path(name)
            for line in table(
                folder.name if name != "tekken" else name, HfTokenizer.load(str(folder)), arguments.repeats
            ):
                print(line, flush=True)


if __name__ == "__main__":
    main()
