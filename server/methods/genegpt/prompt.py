"""Write what GeneGPT's model is asked: the prompt of the parts that a mask selects.

The parts are those of the paper's Table 1: Dc.1 (E-utilities), Dc.2 (BLAST), Dm.1 alias, Dm.2 SNP, Dm.3 disease, Dm.4
alignment, in this order. The wording is ours, and no demonstration is a question of the benchmark. Demonstrations are
rendered from stored facts, without network access.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from retrieval.ncbi.calls.entrez_spelling import entrez_spelling
from retrieval.ncbi.replies.condense import condense
from retrieval.ncbi.replies.records import (
    BlastHit,
    BlastResult,
    GeneRecord,
    IdList,
    OmimRecord,
    ParsedReply,
    Record,
    RecordList,
    SnpRecord,
)
from retrieval.types import Focus
from server.methods.shared.generation import prompt_text, with_instruction

MASKS: Mapping[str, str] = {"full": "111111", "slim": "001001", "none": "000000"}
COT_TRIGGER = "Let's decompose the question to sub-questions and solve them step by step."
_PARTS = ("dc1", "dc2", "dm1", "dm2", "dm3", "dm4")
_DEMO_REPLY_CHARS = 1200


def resolve_mask(mask: str) -> str | None:
    """Return the six digits of a mask given by name or as digits, None for anything else."""
    mask = MASKS.get(mask, mask)
    return mask if re.fullmatch("[01]{6}", mask) else None


def one_line(question: str) -> str:
    """Return the question on one line, since line breaks in it would look like the prompt's own.

    Its Greek letters and hyphens are Entrez's: the grammar of calls has no others, and a name must be writable.
    """
    return " ".join(entrez_spelling(question).split())


def question_line(question: str) -> str:
    return f"Question: {one_line(question)}\n"


@dataclass(frozen=True, slots=True)
class Prompt:
    """Hold all parts, rendered once, by name (dc1 … dm4)."""

    instruction: str
    chat_instruction: str
    parts: Mapping[str, str]

    @classmethod
    def load(cls) -> Prompt:
        facts = json.loads(prompt_text("genegpt", "demonstrations.json"))
        parts = {"dc1": prompt_text("genegpt", "dc1_eutils.txt"), "dc2": prompt_text("genegpt", "dc2_blast.txt")}
        parts |= {name: _demonstration(facts[name]) for name in _PARTS[2:]}
        return cls(prompt_text("genegpt", "instruction.txt"), prompt_text("genegpt", "instruction_chat.txt"), parts)

    def header(self, mask: str) -> str:
        """Return instruction, documentation and demonstrations, separated by blank lines; ``mask`` has six digits."""
        chosen = [name for name, digit in zip(_PARTS, mask, strict=True) if digit == "1"]
        docs = [self.parts[name] for name in chosen if name.startswith("dc")]
        demos = [self.parts[name] for name in chosen if name.startswith("dm")]
        blocks = [self.instruction, *docs, *(["Examples:"] if demos else []), *demos]
        return "\n\n".join(blocks)

    def base_form(self, mask: str, question: str) -> str:
        """Return the prompt for a model that continues text.

        Where the mask selects no part, the prompt is the question line alone: the form for models trained on
        transcripts.
        """
        head = "" if mask == MASKS["none"] else self.header(mask) + "\n\n"
        return head + question_line(question)

    def chat_form(self, mask: str, question: str, client_instruction: str = "") -> list[dict[str, str]]:
        """Return the messages for a model with a chat template."""
        system = with_instruction(f"{self.header(mask)}\n\n{self.chat_instruction}", client_instruction)
        return [{"role": "system", "content": system}, {"role": "user", "content": question_line(question).strip()}]


def _demonstration(facts: Mapping[str, Any]) -> str:
    lines = [f"Question: {facts['question']}"]
    for step in facts["steps"]:
        focus = Focus(terms=(step["focus"],) if "focus" in step else ())
        reply = condense(_parsed(step), focus, max_chars=_DEMO_REPLY_CHARS)
        lines.append(f"[{step['url']}]->{reply.text}")
    return "\n".join([*lines, f"Answer: {facts['answer']}"])


def _parsed(step: Mapping[str, Any]) -> ParsedReply:
    if "ids" in step:
        return IdList(step["ids"]["count"], tuple(step["ids"]["ids"]))
    if "blast" in step:
        hits = tuple(BlastHit(**hit) for hit in step["blast"]["hits"])
        return BlastResult(step["blast"]["query_length"], hits)
    builders: Mapping[str, tuple[str, Callable[..., Record]]] = {
        "genes": ("gene", GeneRecord),
        "snps": ("snp", SnpRecord),
        "omim": ("omim", OmimRecord),
    }
    for name, (db, build) in builders.items():
        if name in step:
            return RecordList(db, tuple(build(**_with_tuples(record)) for record in step[name]))
    raise ValueError(f"a demonstration step without facts: {sorted(step)}")


def _with_tuples(record: Mapping[str, Any]) -> dict[str, Any]:
    return {
        k: tuple(tuple(x) if isinstance(x, list) else x for x in v) if isinstance(v, list) else v
        for k, v in record.items()
    }
