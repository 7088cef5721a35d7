"""Several processes on one step: each takes a share of the rows, gradients are summed.

Losses are divided by the step's whole number of questions before they are summed, so the sum over processes
is exactly what one process would have computed, however unequal the shares.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import distributed


def process() -> tuple[int, int]:
    """(rank, number of processes); (0, 1) outside of a distributed run."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def is_child() -> bool:
    """Whether this process was started by the first one, which keeps the run's folder."""
    return int(os.environ.get("LOCAL_RANK", "0")) > 0 or int(os.environ.get("NODE_RANK", "0")) > 0


def end_on_sigterm() -> None:
    """SIGTERM ends one of several processes at once; the others end with it, at their next exchange.

    Lightning's handler would broadcast from inside the signal, which waits for ever beside a sum of gradients.
    Nothing is lost: checkpoints are atomic, and the same command goes on.
    """
    if process()[1] > 1 and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def local_gradients(module: Any) -> AbstractContextManager[Any]:
    """Keeps Lightning's DDP from averaging inside the block (it would, at every backward)."""
    if process()[1] == 1:
        return nullcontext()
    blocked: AbstractContextManager[Any] = module.trainer.strategy.block_backward_sync()
    return blocked


def sum_over_processes(parameters: Iterable[torch.nn.Parameter], loss: float) -> float:
    """Sum gradients (in place) and the loss over all processes; returns the sum of losses."""
    if process()[1] == 1:
        return loss
    for parameter in parameters:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        distributed.all_reduce(parameter.grad)
    device = parameter.device
    total = torch.tensor(loss, dtype=torch.float64, device=device)
    distributed.all_reduce(total)
    return float(total)
