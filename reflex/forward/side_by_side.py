"""Model calls that do not need each other: on a CPU one to a core, elsewhere one after another."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Container, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import torch

from reflex.forward.groups import by_tokens

Item = TypeVar("Item")
Result = TypeVar("Result")

CPU_CALL_TOKENS = 512
"""Padded tokens in one model call on a CPU: more no longer fit its caches. SmolLM2 over MMLU items took 8.5 s of CPU
time in calls of 512, 15.0 s in calls of 8,192 (float32; bfloat16 4.6 and 7.6)."""


def beside_tokens(most: int) -> int:
    """Padded tokens of a call that may run beside others: those that run at once stay within `most` together, or
    within CPU_CALL_TOKENS each (`most` where that is less)."""
    return max(most // torch.get_num_threads(), min(most, CPU_CALL_TOKENS))


def divided(rows: Sequence[Item], tokens: Callable[[Item], int], most: int) -> list[list[Item]]:
    """Rows (longest first) in calls within `most` padded tokens; where these would run side by side, within their
    share of it, unless not even one row is."""
    groups = list(by_tokens(rows, tokens, most))
    share = beside_tokens(most)
    if len(groups) < torch.get_num_threads() or tokens(rows[0]) > share:
        return groups
    return list(by_tokens(rows, tokens, share))


def call_tokens(lengths: Sequence[int], most: int) -> int:
    """Padded tokens in one call on a CPU, at most `most`, so that rows of these lengths fill rounds of equal calls.

    Below one round it is `most`: few short calls spend much of their time in Python, which runs one thread at a
    time (a server's 16 clients on one state got 7.0 decisions/s side by side and 8.5 in one call).
    """
    total, threads = sum(lengths), torch.get_num_threads()
    at_once = threads * CPU_CALL_TOKENS
    if threads < 2 or total < at_once:
        return most
    calls = threads * math.ceil(total / at_once)
    longest = max(lengths)
    return min(beside_tokens(most), longest * math.ceil(total / calls / longest))


def run_calls(
    calls: Sequence[Callable[[], Result]],
    device: torch.device,
    gradients: bool = False,
    alone: Container[int] = (),
) -> list[Result]:
    """Results in the order of `calls`.

    On a CPU each call gets one core and as many run at once as there are threads (`device.threads`): matrix
    products of this size do not fill two. Those `alone` (indices of calls above `beside_tokens`) and what does
    not make up a full round run on all cores, one after another, so the numbers are the same every time for one
    number of threads. So do calls that record gradients.
    """
    threads = torch.get_num_threads()
    beside = [index for index in range(len(calls)) if index not in alone]
    if device.type != "cpu" or gradients or threads < 2 or len(beside) < threads:
        return [call() for call in calls]
    rounds = beside[: len(beside) - len(beside) % threads]
    inference, grad = torch.is_inference_mode_enabled(), torch.is_grad_enabled()

    def run(call: Callable[[], Result]) -> Result:
        with torch.inference_mode(inference), torch.set_grad_enabled(grad):  # modes are per thread
            return call()

    try:
        done = _cores(threads).map(run, [calls[index] for index in rounds])
        found = dict(zip(rounds, done, strict=True))
    finally:
        torch.set_num_threads(
            threads
        )  # a new thread of the pool changes what later threads begin with
    return [found[index] if index in found else call() for index, call in enumerate(calls)]


@cache
def _cores(threads: int) -> ThreadPoolExecutor:
    """Threads of one core each. They stay: a new thread would prepare its matrix products anew."""
    return ThreadPoolExecutor(threads, "core", torch.set_num_threads, (1,))


os.register_at_fork(after_in_child=_cores.cache_clear)
