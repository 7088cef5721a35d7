"""An experiment's decision rule, applied: the `verdict:` block of its YAML and the comparisons it
asks for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from reflex.errors import ConfigError
from reflex.metrics.intervals import plain
from reflex.metrics.paired import ALPHA, PAIRED_METRICS, Comparison, holm, sentence

TESTS = ("paired_bootstrap",)
KEYS = ("metric", "baseline", "candidates", "margin", "comparison")


def verdict(block: Mapping[str, Any], comparisons: Mapping[str, Comparison]) -> dict[str, Any]:
    """{"verdict": better | worse | cannot tell, "sentence", "details"} of a verdict block.

    `comparisons`: candidate name -> comparison of it with the baseline. p-values are Holm-adjusted
    over the candidates. better: at least one candidate is better than the baseline by more than the
    margin; worse: every candidate is worse by more than it; else cannot tell. `details`: per
    candidate its verdict ("missing" when a cell has no result), adjusted p-value, difference and
    sentence. JSON-safe. Raises ConfigError naming the key for a block that cannot be applied.
    """
    metric, baseline, candidates, margin = check_block(block)
    present = [name for name in candidates if name in comparisons]
    for name in present:
        if comparisons[name].baseline != baseline:
            raise ConfigError(
                f"verdict.baseline: {name!r} was compared with {comparisons[name].baseline!r}, "
                f"not with {baseline!r}"
            )
    sides = {name: _side(comparisons[name], metric, margin) for name in present}
    adjusted = holm({name: p_value for name, (_, p_value) in sides.items()})
    details: dict[str, Any] = {}
    for name in candidates:
        if name not in sides:
            told = f"{name} has no result to compare with {baseline}."
            details[name] = {"verdict": "missing", "sentence": told}
            continue
        called = sides[name][0] if adjusted[name] <= ALPHA else "cannot tell"
        told = sentence(comparisons[name], called, metric, margin, len(sides))
        if called == "cannot tell" and sides[name][1] <= ALPHA:
            told = (
                f"{told[:-1]}; p = {adjusted[name]:.3f} after Holm's correction for {len(sides)}."
            )
        details[name] = {
            "verdict": called,
            "p_adjusted": adjusted[name],
            **comparisons[name].differences[metric].to_dict(),
            "detectable": comparisons[name].differences[metric].detectable_of(len(sides), margin),
            "sentence": told,
        }
    calls = [detail["verdict"] for detail in details.values()]
    overall = "cannot tell"
    if "better" in calls:
        overall = "better"
    elif set(calls) == {"worse"}:
        overall = "worse"
    told = " ".join(str(detail["sentence"]) for detail in details.values())
    return dict(plain({"verdict": overall, "sentence": told, "details": details}))


def check_block(block: Mapping[str, Any]) -> tuple[str, str, list[str], float]:
    """(metric, baseline, candidates, margin) of a block; ConfigError naming the key
    otherwise."""
    unknown = [key for key in block if key not in KEYS]
    if unknown:
        raise ConfigError(f"verdict.{unknown[0]}: unknown key; known are {', '.join(KEYS)}")
    for key in ("metric", "baseline", "candidates"):
        if not block.get(key):
            raise ConfigError(f"verdict.{key}: missing or empty")
    metric, test = str(block["metric"]), str(block.get("comparison", TESTS[0]))
    if metric not in PAIRED_METRICS:
        raise ConfigError(f"verdict.metric: {metric!r} is not one of {', '.join(PAIRED_METRICS)}")
    if test not in TESTS:
        raise ConfigError(f"verdict.comparison: {test!r} is not one of {', '.join(TESTS)}")
    if isinstance(block["candidates"], str):
        raise ConfigError("verdict.candidates: give a list of cell names, not one text")
    candidates = [str(name) for name in block["candidates"]]
    if len(set(candidates)) < len(candidates):
        raise ConfigError("verdict.candidates: a cell is named twice")
    try:
        margin = float(block.get("margin", 0.0))
    except (TypeError, ValueError):
        margin = math.nan
    if not (math.isfinite(margin) and margin >= 0):
        raise ConfigError(f"verdict.margin: {block.get('margin')!r} is not a number of 0 or more")
    return metric, str(block["baseline"]), candidates, margin


def _side(comparison: Comparison, metric: str, margin: float) -> tuple[str, float]:
    """Which way the evidence points, and its unadjusted two-sided p-value."""
    better, worse = comparison.differences[metric].p_beyond(margin)
    return ("better", better) if better < worse else ("worse", worse)
