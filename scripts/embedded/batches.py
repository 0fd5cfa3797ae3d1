"""Turn transcripts into padded batches of token ids and loss masks, off the training thread."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer

from scripts.embedded.generator import Generator
from scripts.embedded.tokenizer import END_OF_TEXT
from scripts.embedded.transcript import Part

MAX_TOKENS = 1024
_POOL = 256  # transcripts sorted by length together, so that a batch holds little padding
_COPIES = 0.05  # share of plain copying among the tasks


@dataclass(frozen=True, slots=True)
class StreamPlan:
    seed: int
    batch_tokens: int


@dataclass(frozen=True, slots=True)
class Batch:
    """``ids`` int64 [rows, length], right-padded with 0; ``learn`` bool [rows, length]: the model writes this token."""

    ids: torch.Tensor
    learn: torch.Tensor
    num_tokens: int


def encode(tokenizer: Tokenizer, parts: list[Part]) -> tuple[list[int], list[bool]]:
    """Part by part, as the interception loop does it; the end token closes the answer."""
    ids: list[int] = []
    learn: list[bool] = []
    for part in parts:
        new = tokenizer.encode(part.text, add_special_tokens=False).ids
        ids += new
        learn += [part.written] * len(new)
    return [*ids, int(tokenizer.token_to_id(END_OF_TEXT) or 0)], [*learn, True]


def make_batch(rows: list[tuple[list[int], list[bool]]]) -> Batch:
    length = max(len(ids) for ids, _ in rows)
    ids = torch.zeros((len(rows), length), dtype=torch.long)
    learn = torch.zeros((len(rows), length), dtype=torch.bool)
    for place, (row, mask) in enumerate(rows):
        ids[place, : len(row)] = torch.tensor(row)
        learn[place, : len(row)] = torch.tensor(mask)
    return Batch(ids, learn, sum(len(row) for row, _ in rows))


def batches(tokenizer: Tokenizer, plan: StreamPlan, start: int = 0) -> Iterator[Batch]:
    """Endless. The stream depends on the plan and on ``start`` (tokens seen before) alone."""
    generator = Generator(plan.seed * 1_000_003 + start)
    while True:
        pool: list[tuple[list[int], list[bool]]] = []
        while len(pool) < _POOL:
            row = encode(tokenizer, generator.draw_one("copy" if generator.draw.random() < _COPIES else ""))
            if len(row[0]) <= MAX_TOKENS:
                pool.append(row)
        pool.sort(key=lambda row: len(row[0]))
        grouped: list[list[tuple[list[int], list[bool]]]] = [[]]
        for row in pool:
            if grouped[-1] and (len(grouped[-1]) + 1) * len(row[0]) > plan.batch_tokens:
                grouped.append([])
            grouped[-1].append(row)
        generator.draw.shuffle(grouped)
        for rows in grouped:
            yield make_batch(rows)


def in_background(source: Iterator[Batch], depth: int = 8) -> Iterator[Batch]:
    ready: queue.Queue[Batch] = queue.Queue(depth)

    def fill() -> None:
        for batch in source:
            ready.put(batch)

    threading.Thread(target=fill, daemon=True).start()
    while True:
        yield ready.get()
