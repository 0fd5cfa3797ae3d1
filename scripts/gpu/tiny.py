"""Show that arrowhead-tiny writes over vLLM what it writes on the processor, and what a resume finds in the cache."""

from __future__ import annotations

import asyncio
import re

from models.catalog import EMBEDDED_DIR, ModelRequest, card_from_request
from models.decoding.call_loop import LoopRequest
from models.decoding.driver import run
from models.decoding.types import Call, CallFinished, CallReply, CallSyntax, LoopDone, LoopLimits
from models.engines.base import Engine, EngineOptions
from models.engines.transformers_engine.engine import TransformersEngine
from models.engines.vllm_engine.engine import VllmEngine
from models.types import GenerateParams
from scripts.gpu.engines import started
from scripts.gpu.figures import figure, is_dry

QUESTIONS = (
    "What is the official gene symbol of LMP10?",
    "Which gene is SNP rs1217074595 associated with?",
    "Which chromosome is FAM66D gene located on human genome?",
    "What are genes related to Meesmann corneal dystrophy?",
)
REPLY = "[5699: PSMB10 | proteasome 20S subunit beta 10 | human | 16q22.1]\n"
_CALL = re.compile(r"https://[ -Z\\^-~]{3,2000}")


async def reply_to(_: Call) -> CallReply:
    return CallReply(REPLY, "ok")


async def transcript(engine: Engine, question: str) -> tuple[str, int, int, int]:
    """Text and replies as one, calls, and the tokens of all prompts that were computed and cached."""
    request = LoopRequest(
        prompt_ids=tuple(engine.tokenizer.encode(f"Question: {question}\n")),
        params=GenerateParams(max_tokens=300, stop=("\n\n",), cache_salt=question),
        syntax=CallSyntax("[https://", "]->", lambda text: _CALL.fullmatch(text) is not None),
        request_id=f"tiny-{question}",
        limits=LoopLimits(max_calls=3),
    )
    events = [event async for event in run(engine, request, reply_to)]
    done = events[-1]
    if not isinstance(done, LoopDone):
        raise RuntimeError("the loop did not end")
    calls = sum(isinstance(event, CallFinished) for event in events)
    stats = engine.stats()
    return "".join(span.text for span in done.spans), calls, stats.prompt_tokens_computed, stats.prompt_tokens_cached


async def main(dry: bool) -> int:
    card = card_from_request(ModelRequest(source=str(EMBEDDED_DIR)))
    processor = TransformersEngine(card, EngineOptions(dtype="float32", device="cpu", max_num_seqs=2))
    await processor.start()
    expected = [(await transcript(processor, question))[:2] for question in QUESTIONS]
    await processor.close()
    options = EngineOptions(dtype="float32", device="cpu" if dry else "cuda", kv_cache_bytes=2**28)
    async with started(VllmEngine(card, options)) as engine:
        found, resumes = [], []
        for question in QUESTIONS:
            before = engine.stats()
            text, calls, computed, cached = await transcript(engine, question)
            found.append((text, calls))
            of = (cached - before.prompt_tokens_cached, computed - before.prompt_tokens_computed)
            resumes.append(f"{of[0]} of {sum(of)} in {calls} calls")
        figure("block", engine.block_size)
    same = sum(one == other for one, other in zip(found, expected, strict=True))
    figure("transcripts equal to the processor's", f"{same} of {len(QUESTIONS)}")
    figure("cached prompt tokens", "; ".join(resumes))
    for one, other in zip(found, expected, strict=True):
        if one != other:
            print(f"vLLM: {one}\nprocessor: {other}")
    return 0 if same == len(QUESTIONS) and sum(calls for _, calls in found) > 0 else 1


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main(is_dry(__doc__))))
