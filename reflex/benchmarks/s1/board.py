"""Published S1Bench figures, as data for pages. Accuracies; nothing here was measured by this project.

`SOURCES` says where they stand; who is not in it reports on itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reflex.benchmarks.s1.definitions import FAST, SUBSETS
from reflex.benchmarks.s1.selection import weakest
from reflex.benchmarks.words import ABSENT

SOURCES = {
    "board": "the dashboard's payload in InterfazeAI/lev, `data/s1bench-snapshot.json` at d9e62c1c (build 468a014bc5)",
    "nimble": "bespokelabsai/nimble, `docs/PUBLIC_BENCHMARKS.md` at 7fac4868",
    "lev": "InterfazeAI/lev, `docs/FINDINGS.md` at d9e62c1c",
}


@dataclass(frozen=True)
class Published:
    """One system's accuracies by subset; `macro` as its source printed it."""

    system: str
    source: str
    accuracy: Mapping[str, float]
    macro: float


_BOARD: list[tuple[str, tuple[float, ...], float]] = [
    ("jev", (0.8030, 0.8743, 0.8933, 0.3480, 0.8360, 0.8960), 0.7751),
    ("simplejev-qwen38-27b", (0.7796, 0.8743, 0.8633, 0.3320, 0.8360, 0.8640), 0.7582),
    ("djev-full", (0.7596, 0.8629, 0.8567, 0.3800, 0.7920, 0.8400), 0.7485),
    ("simplejev-qwen36-35b-a3b", (0.7379, 0.8800, 0.7833, 0.3600, 0.8440, 0.8600), 0.7442),
    ("reflex-4b", (0.7496, 0.8314, 0.8167, 0.3320, 0.8160, 0.7680), 0.7189),
    ("decider-2b", (0.6611, 0.8229, 0.8200, 0.4360, 0.7680, 0.7120), 0.7033),
    ("laya-gpu", (0.7896, 0.6857, 0.8333, 0.3800, 0.4920, 0.5720), 0.6254),
    ("laya", (0.7896, 0.6857, 0.8367, 0.3760, 0.4920, 0.5680), 0.6247),
    ("jeff", (0.6644, 0.6514, 0.6700, 0.2400, 0.5440, 0.5960), 0.5610),
    ("jeff-gpu-full", (0.6644, 0.6543, 0.6700, 0.2400, 0.5360, 0.5920), 0.5595),
    ("qwen3-8b-full", (0.6194, 0.8000, 0.4200, 0.3840, 0.4680, 0.5160), 0.5346),
    ("open-jev-deberta", (0.5526, 0.5200, 0.8367, 0.1280, 0.6200, 0.4840), 0.5235),
    ("reflex-08b", (0.5259, 0.6029, 0.6900, 0.2920, 0.4680, 0.5160), 0.5158),
    ("kev-05b", (0.4658, 0.5457, 0.7200, 0.1720, 0.5840, 0.4680), 0.4926),
    ("gliner-base", (0.4240, 0.4200, 0.5667, 0.1320, 0.5320, 0.5160), 0.4318),
    ("gliner-multi", (0.3623, 0.3514, 0.5900, 0.2440, 0.5280, 0.4800), 0.4259),
    ("gliner-small", (0.4708, 0.0714, 0.6167, 0.2000, 0.5240, 0.5160), 0.3998),
    ("simplejev-rwkv-mid", (0.1102, 0.0943, 0.4700, 0.4040, 0.4680, 0.7360), 0.3804),
    ("simplejev-rwkv-std", (0.1185, 0.2143, 0.4200, 0.2160, 0.4760, 0.5160), 0.3268),
    ("simplejev-rwkv-small", (0.1102, 0.2400, 0.4200, 0.1240, 0.4680, 0.5160), 0.3130),
]

BOARD: tuple[Published, ...] = tuple(
    Published(name, "board", dict(zip(FAST, values, strict=True)), macro)
    for name, values, macro in _BOARD
)
"""The six fast subsets, 1,999 decisions each."""

_ALL: list[tuple[str, str, tuple[float, ...], float]] = [
    (
        "jev (published)",
        "nimble",
        (0.801, 0.874, 0.869, 0.897, 0.829, 0.892, 0.829, 0.810, 0.804, 0.341, 0.350, 0.812, 0.772),
        0.760,
    ),
    (
        "jev (lev's run)",
        "lev",
        (0.801, 0.874, 0.871, 0.893, 0.836, 0.900, 0.836, 0.803, 0.804, 0.341, 0.358, 0.812, 0.764),
        0.761,
    ),
    (
        "nimble-9b",
        "nimble",
        (0.766, 0.869, 0.834, 0.860, 0.806, 0.828, 0.853, 0.703, 0.812, 0.390, 0.492, 0.757, 0.756),
        0.748,
    ),
    (
        "lev-4b",
        "lev",
        (0.668, 0.857, 0.823, 0.827, 0.813, 0.776, 0.890, 0.760, 0.800, 0.386, 0.358, 0.271, 0.732),
        0.689,
    ),
    (
        "decider-2b v10",
        "decider",
        (0.639, 0.823, 0.797, 0.803, 0.776, 0.720, 0.856, 0.840, 0.728, 0.426, 0.354, 0.660, 0.724),
        0.704,
    ),
    (
        "decider-35b-a3b",
        "decider",
        (0.795, 0.880, 0.869, 0.887, 0.749, 0.768, 0.910, 0.907, 0.808, 0.478, 0.483, 0.757, 0.768),
        0.774,
    ),
    (
        "tev1-4b",
        "llama.cpp port",
        (0.743, 0.857, 0.831, 0.850, 0.763, 0.824, 0.920, 0.733, 0.772, 0.357, 0.504, 0.799, 0.744),
        0.746,
    ),
]

REPORTS: tuple[Published, ...] = tuple(
    Published(name, source, dict(zip(SUBSETS, values, strict=True)), macro)
    for name, source, values, macro in _ALL
)
"""All 13 subsets, each from its system's own report."""


def source_of(system: str) -> str:
    """Who says so: the `source` of a system as `published` names it; empty for one that is not known."""
    known = {each.system: each.source for each in REPORTS}
    known |= {f"{each.system} (board)": each.source for each in BOARD}
    return known.get(system, "")


def published(subset: str) -> dict[str, float]:
    """System → published accuracy on the subset, reports first."""
    found = {each.system: each.accuracy[subset] for each in REPORTS if subset in each.accuracy}
    board = {f"{each.system} (board)": each.accuracy[subset] for each in BOARD if subset in FAST}
    return found | board


def macro(accuracy: Mapping[str, float], facts: Mapping[str, Any]) -> dict[str, Any] | None:
    """The unweighted mean over the suite's subsets with its weakest word; None unless all are there.

    `facts` are the suite's; `accuracy` is by subset.
    """
    wanted = facts["macro"]["subsets"]
    words = [facts["sources"][name]["word"] for name in wanted]
    complete = all(name in accuracy for name in wanted)
    if not wanted or not complete or weakest(words) in ABSENT:
        return None
    mean = sum(accuracy[name] for name in wanted) / len(wanted)
    return {"value": mean, "word": weakest(words), "n": len(wanted)}
