"""Compute the gradients of a step in several processes, which share the adapter's memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Self

import torch
from torch import nn

from scripts.training.packing import Encoded, Packed, pack, stacked, total_weight

Group = Sequence[Encoded]
# Returns the loss of a packed sequence and its gradients, given the weight of the whole step.
Gradients = Callable[[Packed, float], tuple[float, Sequence[torch.Tensor]]]


class Workers:
    """Run ``number`` copies of this process, forked before anything is computed; with 1, work in this process.

    Each computes ``at_once`` groups in one pass. Groups are dealt in turn and their gradients added in a fixed order,
    so that equal numbers give equal sums. A copy ends with this process, or when the context does.
    """

    def __init__(self, number: int, parameters: Sequence[nn.Parameter], gradients: Gradients, at_once: int = 1) -> None:
        self._parameters = parameters
        self._gradients = gradients
        self._at_once = at_once
        size = sum(one.numel() for one in parameters)
        self._buffers = [torch.zeros(size, device=parameters[0].device) for _ in range(number)]
        self._pipes: list[Connection] = []
        if number > 1:
            for tensor in (*self._buffers, *(one.data for one in parameters)):
                _shared(tensor)
            self._fork(number - 1)

    def step(self, groups: Sequence[Group]) -> float:
        """Set the gradient of each parameter for these groups, and return their mean loss."""
        whole = sum(total_weight(group) for group in groups)
        number = len(self._buffers)
        for place, pipe in enumerate(self._pipes, 1):
            pipe.send((groups[place::number], whole))
        loss = self._work(self._buffers[0], groups[::number], whole)
        for pipe in self._pipes:
            loss += pipe.recv()
        total = torch.stack(self._buffers).sum(0) if self._pipes else self._buffers[0]
        at = 0
        for parameter in self._parameters:
            parameter.grad = total[at : at + parameter.numel()].view_as(parameter).clone()
            at += parameter.numel()
        return loss

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for pipe in self._pipes:
            pipe.close()

    def _work(self, buffer: torch.Tensor, groups: Sequence[Group], whole: float) -> float:
        loss = 0.0
        buffer.zero_()
        for start in range(0, len(groups), self._at_once):
            some = [pack(group) for group in groups[start : start + self._at_once]]
            value, gradients = self._gradients(some[0] if len(some) == 1 else stacked(some), whole)
            loss += value
            buffer += torch.cat([gradient.float().flatten() for gradient in gradients])
        return loss

    def _fork(self, number: int) -> None:
        context = get_context("fork")
        for place in range(1, number + 1):
            ours, theirs = context.Pipe()
            context.Process(target=self._serve, args=(theirs, ours, place), daemon=True).start()
            theirs.close()
            self._pipes.append(ours)

    def _serve(self, pipe: Connection, others_end: Connection, place: int) -> None:
        # The end of the pipe is seen only where no copy of its other end is open.
        for end in (others_end, *self._pipes):
            end.close()
        # Linux shares processors between sessions: in one session, more workers would get no more of them.
        os.setsid()
        # The threads of the first process are not in its copy, and a wait for them would not end.
        torch.set_num_threads(1)
        # Either error: the first process is gone.
        with suppress(EOFError, BrokenPipeError):
            while True:
                groups, whole = pipe.recv()
                pipe.send(self._work(self._buffers[place], groups, whole))


def _shared(tensor: torch.Tensor) -> torch.Tensor:
    """Move a tensor's memory, in place, to where forked processes see its changes."""
    tensor.share_memory_()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return tensor
