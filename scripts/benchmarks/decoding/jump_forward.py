"""Measure what jump-forward saves: the decoding steps of a call, the cost of its grammar, and the time of an answer.

    python scripts/benchmarks/decoding/jump_forward.py [--tokenizer FOLDER ...] [--mask 001001]
    python scripts/benchmarks/decoding/jump_forward.py --model arrowhead-small [--rounds 3]

The first form walks through calls of GeneGPT's tasks in their own tokens, behind the prompt in which they are written,
without a model: what is neither forced nor drafted is taken as a model would write it. ``tekken`` stands for the
tokenizer of 131,072 tokens that the package mistral_common carries. The second form lets a model answer questions with
fixed replies, decoded, with forced tokens, and with forced tokens and drafts in turn, on the transformers engine.
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
from dataclasses import dataclass, field, replace
from pathlib import Path
from unittest.mock import patch

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from models.catalog import ModelRequest, card_from_request, load_catalog
from models.decoding.call_loop import LoopRequest
from models.decoding.driver import run
from models.decoding.grammar import call_grammar, forced_call_grammar
from models.decoding.types import Call, CallReply, LoopLimits, TextSampled
from models.engines.base import Engine, EngineOptions
from models.engines.tokenizer import HfTokenizer
from models.engines.transformers_engine.continuous_batching import BatchLimits
from models.engines.transformers_engine.engine import TransformersEngine
from models.engines.transformers_engine.grammar_mask import CompiledGrammar, GrammarCompiler, GrammarState
from models.engines.transformers_engine.sequences import PromptLookup
from models.types import GenerateParams, Grammar
from retrieval.ncbi.calls.urls import call_regex, parse_call_url
from server.methods.genegpt.method import SYNTAX
from server.methods.genegpt.prompt import Prompt

DRAFT_TOKENS = BatchLimits(max_num_seqs=1, block_size=16).draft_tokens
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
LMP10 = "What is the official gene symbol of LMP10?"
SNP = "Which gene is SNP rs1217074595 associated with?"
MEESMANN = "What are genes related to Meesmann corneal dystrophy?"
ALIGN = f"Align the DNA sequence to the human genome:{SEQUENCE}"
ENO1 = f"{EUTILS}esearch.fcgi?db=gene&retmax=5&retmode=json&sort=relevance&term=ENO1]->[1 id: 2023]\n"
# What stands before each call: the question, and the calls and replies of the same answer.
BEFORE = (
    (LMP10, ""),
    (LMP10, f"{CALLS[0]}[3 ids: 5699,8138,19171]\n"),
    (SNP, ""),
    (MEESMANN, ""),
    (MEESMANN, f"{CALLS[3]}[3 ids: 618767,601687,300778]\n"),
    ("Is ENO1 a protein-coding gene?", ENO1),
    (ALIGN, ""),
    (ALIGN, f"{CALLS[6]}[RID 2KM4Z6PS016]\n"),
)
QUESTIONS = (LMP10, SNP, MEESMANN)
# Replies that the answers are given, by what stands in the call.
REPLIES = (
    ("esearch.fcgi?db=gene", "[3 ids: 5699,8138,19171]"),
    ("esearch.fcgi", "[3 ids: 618767,601687,300778]"),
    ("db=gene", "[1 gene record\n1. PSMB10 (human) protein-coding chr16 16q22.1; aliases LMP10, MECL1; id 5699]"),
    ("db=snp", "[1 snp record\n1. LINC01270 (id 284751) rs1217074595 chr20 50298395; intron_variant; alleles G>A]"),
    ("", "[1 omim entry\n1. KRT12\n- KRT12 at 17q21.2; meesmann corneal dystrophy 1 (MECD1); keratin 12]"),
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
    draft: list[float] = field(default_factory=list)


def tokens_of(call: str, tokenizer: HfTokenizer) -> list[int]:
    """The tokens of a call, its arrow in one where the tokenizer has one for it."""
    arrow = tokenizer.token_id("]->")
    return tokenizer.encode(call) if arrow is None else [*tokenizer.encode(call[:-3]), arrow]


@dataclass(frozen=True, slots=True)
class Walk:
    """Walk through one call behind ``before``; with ``draft_tokens``, drafts are verified as the engine does it."""

    compiled: CompiledGrammar
    ids: Sequence[int]
    before: Sequence[int]
    draft_tokens: int
    size: int
    costs: Costs

    def steps(self) -> int:
        """Return how many passes of the model write the call."""
        state, logits = GrammarState(self.compiled, self.size), torch.randn(self.size)
        lookup, at, passes = PromptLookup(), 0, 0
        while at < len(self.ids):
            draft = self._draft(lookup, state, at)
            begin, passes = at, passes + 1
            while at < len(self.ids):
                at = self._choose(state, logits, at)
                if list(self.ids[begin:at]) != draft[: at - begin]:
                    break
        return passes

    def _draft(self, lookup: PromptLookup, state: GrammarState, at: int) -> list[int]:
        tokens = [*self.before, *self.ids[:at]]
        began = time.perf_counter()
        shortest = 3 if state.may_end else 1
        draft = lookup.draft(tokens, self.draft_tokens, shortest=shortest, count_allowed=state.count_allowed)
        self.costs.draft.append((time.perf_counter() - began) * 1e6)
        return draft

    def _choose(self, state: GrammarState, logits: torch.Tensor, at: int) -> int:
        """Take the call's next token and those that it forces; return the place behind them."""
        row = logits.clone()
        t0 = time.perf_counter()
        state.fill()
        t1 = time.perf_counter()
        # Fills again, which costs next to nothing then, as the library keeps the last mask.
        state.mask(row)
        state.accept(self.ids[at])
        t2 = time.perf_counter()
        forced = list(state.forced())
        t3 = time.perf_counter()
        for column, seconds in ((self.costs.mask, t1 - t0), (self.costs.whole, t2 - t0), (self.costs.forced, t3 - t2)):
            column.append(seconds * 1e6)
        end = at + 1 + len(forced)
        if forced != list(self.ids[at + 1 : end]):
            raise RuntimeError(f"forced {forced}, and the call has {self.ids[at + 1 : end]}")
        for token in forced:
            state.accept(token)
        return end


def table(name: str, tokenizer: HfTokenizer, mask: str, repeats: int) -> Iterator[str]:
    size, prompt = tokenizer.vocab_size, Prompt.load()
    compiler = GrammarCompiler(tokenizer, size)
    yield compile_times(name, tokenizer, compiler)
    yield "| call | tokens | decoded, with forced tokens | share | with drafts too | share |"
    yield "| --- | --- | --- | --- | --- | --- |"
    costs, total, with_forced, with_drafts = Costs(), 0, 0, 0
    for call, (question, written) in zip(CALLS, BEFORE, strict=True):
        ids, before = tokens_of(call, tokenizer), tokenizer.encode(prompt.base_form(mask, question) + written)
        parse_call_url(call[1:-3])
        sequences = (SEQUENCE,) if SEQUENCE in question else ()
        compiled = compiler.compile(call_grammar(call_regex(sequences), tokenizer))
        for _ in range(repeats):
            forced = Walk(compiled, ids, before, 0, size, costs).steps()
            drafted = Walk(compiled, ids, before, DRAFT_TOKENS, size, costs).steps()
        total, with_forced, with_drafts = total + len(ids), with_forced + forced, with_drafts + drafted
        shown = call.split("/")[-1].split("&id")[0][:48]
        yield (
            f"| `{shown}…` | {len(ids)} | {forced} | {forced / len(ids):.2f} | {drafted} | {drafted / len(ids):.2f} |"
        )
    yield (f"| all | {total} | {with_forced} | {with_forced / total:.2f} | {with_drafts} | {with_drafts / total:.2f} |")
    medians = [statistics.median(column) for column in (costs.mask, costs.whole, costs.forced, costs.draft)]
    yield "µs, median: mask {:.0f}; mask, apply, accept {:.0f}; what is forced {:.0f}; a draft {:.0f}".format(*medians)


def compile_times(name: str, tokenizer: HfTokenizer, compiler: GrammarCompiler) -> str:
    began = time.thread_time()
    compiler.compile(Grammar("lark", 'start: "a"'))
    seconds = [time.thread_time() - began]
    for sequences in ((), (SEQUENCE,)):
        began = time.thread_time()
        compiler.compile(call_grammar(call_regex(sequences), tokenizer))
        seconds.append(time.thread_time() - began)
    return (
        f"\n{name}, {tokenizer.vocab_size:,} tokens: vocabulary {seconds[0]:.1f} s once, compile "
        f"{seconds[1] * 1e3:.1f} ms, with a sequence of the question {seconds[2] * 1e3:.1f} ms"
    )


@dataclass(slots=True)
class Written:
    """What one way of writing took; ``processor`` is the time of all threads, which other programs do not lengthen."""

    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    steps: int = 0
    tokens: int = 0
    texts: list[str] = field(default_factory=list)


async def reply(call: Call) -> CallReply:
    return CallReply(next(text for part, text in REPLIES if part in call.text), "ok")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the model is asked, and in how many tokens it answers at most."""

    questions: Sequence[str]
    mask: str
    max_tokens: int


async def answer(engine: Engine, question: str, asked: Asked, way: str, number: int) -> str:
    """Write one answer; "decoded" has a bias of nothing on one token, which turns jump-forward off."""
    prompt, tokenizer = Prompt.load(), engine.tokenizer
    sequence = tokenizer.encode(prompt.base_form(asked.mask, question))
    if tokenizer.has_chat_template:
        sequence = tokenizer.encode_chat(prompt.chat_form(asked.mask, question))
    request = LoopRequest(
        prompt_ids=tuple(sequence),
        params=GenerateParams(
            max_tokens=asked.max_tokens,
            grammar=call_grammar(call_regex(()), tokenizer),
            stop=("\n\n",),
            logit_bias=((0, 0.0),) if way == "decoded" else (),
            stop_on_repetition=True,
        ),
        syntax=SYNTAX,
        request_id=f"{way}-{number}-{question}",
        limits=LoopLimits(max_calls=3, max_own_tokens=128),
        first_grammar=forced_call_grammar(call_regex(()), tokenizer),
    )
    return "".join([one.text async for one in run(engine, request, reply) if isinstance(one, TextSampled)])


async def measure(name: str, asked: Asked, rounds: int) -> None:
    shipped = load_catalog(converted_dir=CONVERTED)
    card = shipped[name] if name in shipped else card_from_request(ModelRequest(source=name))
    engine = TransformersEngine(card, EngineOptions(dtype="float32", max_model_len=4096))
    await engine.start()
    ways = {way: Written() for way in ("decoded", "forced", "forced and drafted")}
    try:
        # Computes the prompts, which the prefix cache keeps.
        for question in asked.questions:
            await answer(engine, question, replace(asked, max_tokens=1), "forced", -1)
        for number in range(rounds):
            for way, written in ways.items():
                await measure_way(engine, asked, way, number, written)
    finally:
        await engine.close()
    print("| way | s | processor s | ratio | tokens | steps | share | same texts |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    old = ways["decoded"]
    for way, one in ways.items():
        same = sum(a == b for a, b in zip(old.texts, one.texts, strict=True))
        spent, before = statistics.median(one.processor), statistics.median(old.processor)
        print(
            f"| {way} | {statistics.median(one.seconds):.1f} | {spent:.1f} | {spent / before:.2f} | {one.tokens} | "
            f"{one.steps} | {one.steps / one.tokens:.2f} | {same} of {len(one.texts)} |"
        )


async def measure_way(engine: Engine, asked: Asked, way: str, number: int, written: Written) -> None:
    """Write an answer to each question, without drafts unless ``way`` names them."""
    most = DRAFT_TOKENS if way == "forced and drafted" else 0
    real = PromptLookup.draft
    with patch.object(
        PromptLookup, "draft", lambda self, tokens, room, **how: real(self, tokens, min(room, most), **how)
    ):
        before, began, spent = engine.stats(), time.perf_counter(), time.process_time()
        for question in asked.questions:
            written.texts.append(await answer(engine, question, asked, way, number))
        after = engine.stats()
    written.seconds.append(time.perf_counter() - began)
    written.processor.append(time.process_time() - spent)
    written.tokens = after.tokens_generated - before.tokens_generated
    without = (after.tokens_forced - before.tokens_forced) + (after.tokens_drafted - before.tokens_drafted)
    written.steps = written.tokens - without


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", nargs="*", default=["tekken"], help='folders, or "tekken"')
    parser.add_argument("--repeats", type=int, default=3, help="walks through each call")
    parser.add_argument("--mask", default="001001", help="the parts of GeneGPT's prompt")
    parser.add_argument("--model", help="a model's name or folder, which then writes answers")
    parser.add_argument("--questions", type=int, default=len(QUESTIONS), help="the first of so many questions")
    parser.add_argument("--max-tokens", type=int, default=400, help="tokens of an answer, replies not counted")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.model:
        asked = Asked(QUESTIONS[: arguments.questions], arguments.mask, arguments.max_tokens)
        asyncio.run(measure(arguments.model, asked, arguments.rounds))
        return
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        for name in arguments.tokenizer:
            folder = tekken(Path(scratch)) if name == "tekken" else Path(name)
            tokenizer = HfTokenizer.load(str(folder))
            for line in table(name, tokenizer, arguments.mask, arguments.repeats):
                print(line, flush=True)


if __name__ == "__main__":
    main()
