"""Benchmark data is never what a calibration is fitted on: refused when a config is read, when its rows are
loaded and before the fit (docs/decisions/020-contamination-guard.md).

The way round is `calibration.allow`: what it lets through stands in the record and in the calibration's file,
and the benchmark subsets it stands for are not scored, now or wherever that file is used. MMLU's test halves
are no benchmark here: its loader relabels them (docs/decisions/021-mmlu.md); where a file that was fitted on
one is used, only the other is measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hydra.utils import instantiate
from omegaconf import DictConfig

from reflex.errors import CalibrationError, ConfigError, DataError

if TYPE_CHECKING:
    import pandas as pd

    from reflex.benchmarks.base import Suite
    from reflex.data.rows import Row

KEY = "calibration.allow"
OWN_HALVES = "mmlu"
"""The source whose rows of split fit are benchmark items by design."""

FITTED_ON = ("withheld", "the calibration is fitted on it")
"""Word and reason of a source that is not measured."""

Let = Mapping[str, list[str]]
"""Name → the benchmark subsets it stands for, of what `calibration.allow` lets through."""


def check_names(cfg: DictConfig) -> None:
    """Refuse a configuration that would fit on benchmark data, by what it names; loads nothing.

    Raises ContaminationError; ConfigError for an entry of `calibration.allow` that is no benchmark data.
    """
    from reflex.data.contamination import assert_clean
    from reflex.remote.remote import remote_model

    calibration = instantiate(cfg.calibration)
    # A recorded run is fitted on what it has read; a server's answers are never fitted here.
    if calibration.fits and cfg.task.get("from_run") is None and not remote_model(cfg):
        assert_clean([*_named(cfg.benchmark), *calibration.allow], calibration.allow, KEY)


def check_fit(benchmark: Any, calibration: Any, rows: pd.DataFrame | Iterable[Row]) -> Let:
    """Refuse to fit on `rows`, by what their benchmark's configuration names and by their own names.

    Raises ContaminationError; ConfigError for an entry of `calibration.allow` that lets nothing through.
    """
    from reflex.data.contamination import assert_clean

    return assert_clean([*_named(benchmark), *_names_of(rows)], calibration.allow, KEY)


def clean_suite(cfg: DictConfig, suite: Suite) -> Suite:
    """The suite without fit rows that share text with a benchmark, and without the rows that a calibration
    was fitted on the subset of; its facts say what was left out.

    Raises as `check_fit` where the run would fit on it, CalibrationError where it has nothing to fit on or to
    measure, DataError where every row is withheld, ConfigError where a calibration that is loaded would be measured
    on what one is fitted on.
    """
    from reflex.calibration.fit import SPLIT
    from reflex.calibration.fitted import read

    calibration = instantiate(cfg.calibration)
    fit_rows = [row for row in suite.rows if row.split == SPLIT]
    let: Let = {}
    fitted_on: dict[str, Any] = {}
    if calibration.fits:
        let = check_fit(cfg.benchmark, calibration, fit_rows)
    elif getattr(calibration, "path", None):
        fitted_on = read(calibration.path).fitted_on
        let = dict(fitted_on.get("contamination") or {})
    halves = OWN_HALVES in fitted_on.get("sources", ())
    suite = _without_overlaps(suite, fit_rows, let, set(_named(cfg.benchmark)))
    if halves:
        suite = _other_half(suite)
    if calibration.fits:
        check_parts(calibration.name, {row.split for row in suite.rows})
    kept = {SPLIT} if calibration.fits else set()
    suite = _withheld(suite, let, kept)
    if not {row.split for row in suite.rows} - kept:
        own = [f"a half of {OWN_HALVES}"] if halves else []
        raise DataError(
            f"benchmark={suite.name}: every measured row is withheld, since the calibration is fitted on "
            f"{', '.join([*let, *own])}; measure something else"
        )
    if fitted_on:
        _check_not_fitted_on(suite, calibration.path, fitted_on)
    return suite


def check_parts(name: str, splits: Iterable[str]) -> None:
    """Raise CalibrationError unless among rows of these splits are some to fit on and others to measure."""
    from reflex.calibration.fit import SPLIT

    found = set(splits)
    for there, split in ((SPLIT in found, SPLIT), (bool(found - {SPLIT}), "report")):
        if not there:
            raise CalibrationError(
                f"calibration={name} needs rows of split fit to fit on and others to be "
                f"measured on, but the suite has none of split {split}: load both (benchmark.split=all), or "
                "fit with task=calibrate and set calibration.path"
            )


def withheld(source: str, let: Let) -> bool:
    """Whether rows of `source` are items of a subset that was let through."""
    from reflex.data.contamination import blocked_subsets

    return bool(set(blocked_subsets(source)) & {name for found in let.values() for name in found})


def _named(benchmark: Any) -> list[str]:
    from reflex.benchmarks.base import fit_names

    return fit_names(instantiate(benchmark)) if benchmark else []


def _names_of(rows: pd.DataFrame | Iterable[Row]) -> list[str]:
    """Sources and families of rows or predictions, each once."""
    import pandas as pd

    if isinstance(rows, pd.DataFrame):
        pairs = list(zip(rows["source"], rows["family"]))
    else:
        pairs = [(row.source, row.family) for row in rows]
    return list(dict.fromkeys(name for pair in pairs for name in pair if name))


def _check_not_fitted_on(suite: Suite, path: str, fitted_on: Mapping[str, Any]) -> None:
    """Raise ConfigError where the rows that figures are over are of split fit, or are by another split's name all
    the items of the suite that the file was fitted on."""
    from reflex.benchmarks.base import measured
    from reflex.calibration.fit import SPLIT
    from reflex.data.rows import items_sha256

    rows = measured(suite.rows)
    if all(row.split != SPLIT for row in rows):
        if items_sha256(rows) != fitted_on.get("items_sha256"):
            return
        what = "the items it was fitted on"
    else:
        what = f"rows of split {SPLIT}, which are for fitting"
    raise ConfigError(
        f"calibration.path={path}: benchmark={suite.name} would be measured on {what}; measure other rows "
        "(benchmark.split=report), or set calibration=none"
    )


def _without_overlaps(suite: Suite, fit_rows: list[Row], let: Let, named: set[str]) -> Suite:
    from reflex.benchmarks.left_out import without
    from reflex.data.guard import overlapping_ids, row_texts

    if named & set(let):  # the whole suite was let through
        return suite
    checked = [row for row in fit_rows if not {row.source, row.family} & {OWN_HALVES, *let}]
    shared = overlapping_ids({row.id: row_texts(row) for row in checked}) if checked else set()
    return without(suite, shared, "overlapping")


def _other_half(suite: Suite) -> Suite:
    """Of the halves, rows of split report alone: any other split may be or hide what was fitted on."""
    from reflex.benchmarks.left_out import absent

    rows = [row for row in suite.rows if row.source != OWN_HALVES or row.split == "report"]
    if len(rows) == len(suite.rows):
        return suite
    kept = sum(row.source == OWN_HALVES for row in rows)
    before = suite.facts.get("sources", {}).get(OWN_HALVES, {})
    half = {**before, "n": kept, "splits": {"report": kept}} if kept else absent(before, *FITTED_ON)
    sources = {**suite.facts.get("sources", {}), OWN_HALVES: half}
    return replace(suite, rows=rows, facts={**suite.facts, "sources": sources})


def _withheld(suite: Suite, let: Let, kept_splits: set[str]) -> Suite:
    from reflex.benchmarks.left_out import absent, with_sources

    if not let:
        return suite
    rows = [row for row in suite.rows if row.split in kept_splits or not withheld(row.source, let)]
    facts: dict[str, Any] = {**suite.facts, "contamination": dict(let)}
    sources = dict(facts.get("sources", {}))
    for name in {row.source for row in suite.rows} | set(sources):
        if withheld(name, let):
            sources[name] = absent(sources.get(name, {}), *FITTED_ON)
    return replace(suite, rows=rows, facts=with_sources(facts, sources))
