"""A sweep as one Markdown page, from records and predictions alone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from reflex.files import write_atomic, write_atomic_all
from reflex.reporting.agreement import agreement_text
from reflex.reporting.calibrations import calibration_text, sensitivity_table
from reflex.reporting.comparisons import Judged, judge_sweep
from reflex.reporting.context import cost_caution, tied_text, uniform_text
from reflex.reporting.experiments import Experiment
from reflex.reporting.hand import SIGNATURE, Section, harmless, read_blocks, weave
from reflex.reporting.index import index_path, write_index
from reflex.reporting.plots import MOST_CELLS, reliability_svg
from reflex.reporting.provenance import definitions, provenance
from reflex.reporting.published import CAUTION, published_svg, published_table
from reflex.reporting.sources import macro_text, mean_ece_text, notes_text, sources_table
from reflex.reporting.sweep import MANIFEST, Places, Sweep
from reflex.reporting.tables import (
    CELL_METRICS,
    cells_table,
    comparison_table,
    failed_table,
    p_text,
    split_table,
)
from reflex.reporting.training import training_table
from reflex.reporting.verdicts import verdict_summary, verdict_text
from reflex.reporting.words import sweep_word
from reflex.tracking.record import FIT_PREDICTIONS, PREDICTIONS, RECORD, json_text

SPLITS = {
    "By question type": "type",
    "By category": "category",
    "By family": "family",
}
"""Heading → column of the tables of metrics by part."""

MOST_VALUES = 12
"""A table of more parts than this is folded."""


def write_page(sweep: Sweep, places: Places) -> Path:
    """Write the page of a sweep, its plot and, at full scope, its records and the index.

    Hand-written blocks of the page stay. Raises RecordError (one line) before anything is touched
    if they cannot be read, and for what cannot be written.
    """
    page = places.page(sweep)
    blocks = read_blocks(page)
    if sweep.full:
        read_blocks(index_path(places))  # a broken index stops here, not after half the work
    experiment = places.experiment(sweep)
    judged = judge_sweep(sweep)
    plots = page_plots(sweep)
    sections = page_sections(sweep, experiment, judged, page, list(plots))
    text = weave(sections, blocks)
    if sweep.full:
        _keep_records(sweep, places, experiment, judged)
    for name, plot in plots.items():
        write_atomic(page.parent / name, plot)
    write_atomic(page, text.encode("utf-8"))
    if sweep.full:
        write_index(places)
    return page


def page_plots(sweep: Sweep) -> dict[str, bytes]:
    """The plots of a page by their path beside it, as SVG."""
    drawn = {
        plot_name(sweep): reliability_svg(sweep.finished) if sweep.finished else None,
        plot_name(sweep, "-published"): published_svg(sweep.finished),
    }
    return {name: plot for name, plot in drawn.items() if plot is not None}


def plot_name(sweep: Sweep, which: str = "") -> str:
    """A plot's path beside the page: the reliability diagram, or `which`."""
    return f"plots/{sweep.name}{which}.svg"


def page_sections(
    sweep: Sweep,
    experiment: Experiment,
    judged: Sequence[Judged],
    page: Path,
    plotted: Sequence[str],
) -> list[Section]:
    """The generated part of a page, top first; sections that would be empty are left out. `plotted`:
    the plots beside it."""
    sections = [Section(None, _top(sweep, experiment, page))]
    sections.append(Section("Verdict", verdict_text(sweep, judged)))
    if sweep.finished:
        sections.append(Section("Cells", _cells(sweep)))
    if sweep.failed:
        sections.append(Section("Failed cells", failed_table(sweep.failed)))
    if plot_name(sweep) in plotted:
        sections.append(Section("Reliability", _figure(sweep)))
    if any(one.comparisons or one.problems for one in judged):
        sections.append(Section("Paired comparisons", _comparisons(sweep, judged)))
    further = {
        "Agreement": agreement_text(judged),
        "Training": training_table(sweep.finished),
        "By source": "\n\n".join(
            filter(None, (sources_table(sweep.finished), mean_ece_text(sweep.finished)))
        ),
        "Macro": macro_text(sweep.finished),
        "Published figures": _published(sweep, plotted),
        "Calibration": calibration_text(sweep.finished),
        "Question sensitivity": sensitivity_table(sweep.finished),
        **{heading: _split(sweep, column) for heading, column in SPLITS.items()},
        "About the data": notes_text(sweep.finished),
    }
    sections += [Section(heading, body) for heading, body in further.items() if body]
    sections.append(Section("How it was made", provenance(sweep)))
    sections.append(Section("Definitions", definitions(sweep, CELL_METRICS)))
    return sections


def _top(sweep: Sweep, experiment: Experiment, page: Path) -> str:
    lines = [f"# {experiment.title}", SIGNATURE]
    if experiment.question:
        lines.append(f"**Question.** {experiment.question}")
    if experiment.hypothesis:
        lines.append(f"**Hypothesis.** {experiment.hypothesis}")
    if experiment.page is not None:
        link = os.path.relpath(experiment.page, page.resolve().parent).replace(os.sep, "/")
        lines.append(
            f"Reasoning, the decision rule as written before the run, and what came out: [{link}]({link})."
        )
    if not sweep.full:
        lines.append(f"**Not a result.** {_why_partial(sweep)}")
    done = f"{len(sweep.finished)} finished"
    failed = f", {len(sweep.failed)} failed" if sweep.failed else ""
    source = f" Records: [records/{sweep.name}](records/{sweep.name})." if sweep.full else ""
    lines.append(f"Sweep `{sweep.group}`, {sweep.newest[:10]}: {done}{failed}.{source}")
    if sweep.superseded:
        older = ", ".join(
            f"`{entry['group']}` ({entry['cells']} cells, {str(entry['finished'])[:10]})"
            for entry in sweep.superseded
        )
        lines.append(f"Only the newest sweep is shown; others of this experiment: {older}.")
    return "\n\n".join(lines)


def _why_partial(sweep: Sweep) -> str:
    records = [cell.record for cell in sweep.cells]
    if not sweep.finished:
        return "No cell finished."
    if any(record.debug for record in records):
        return "A debug run: it shows that the machinery works and nothing about the hypothesis."
    if any(record.limited for record in records):
        return "A limited run: part of the data or of the experiment's cells, or other settings than its own."
    if any(record.experiment is None for record in records):
        return "A run of its own, outside an experiment."
    return f"The sweep ended before {harmless(', '.join(sweep.missing))}; run the experiment again to go on."


def _cells(sweep: Sweep) -> str:
    parts = [
        cells_table(sweep.finished),
        uniform_text(sweep.finished),
        tied_text(sweep.finished),
        cost_caution(sweep.finished),
    ]
    return "\n\n".join(filter(None, parts))


def _figure(sweep: Sweep) -> str:
    text = f"![Reliability diagram]({plot_name(sweep)})"
    if word := sweep_word(sweep):
        text += f"\n\nOver all rows{word}."
    if len(sweep.finished) > MOST_CELLS:
        text += f"\n\nThe first {MOST_CELLS} of {len(sweep.finished)} cells."
    return text


def _published(sweep: Sweep, plotted: Sequence[str]) -> str:
    table = published_table(sweep.finished)
    if not table:
        return ""
    name = plot_name(sweep, "-published")
    return "\n\n".join(
        [CAUTION, *([f"![Beside published]({name})"] if name in plotted else []), table]
    )


def _split(sweep: Sweep, column: str) -> str:
    """The table by `column`, folded when it is long; nothing where it would repeat the sources."""
    parts = [cell.record.by for cell in sweep.finished]
    if column == "family" and all(by.get("family") == by.get("source") for by in parts):
        return ""
    table = split_table(sweep.finished, column)
    values = {value for by in parts for value in by.get(column, {})}
    if len(values) <= MOST_VALUES:
        return table
    return f"<details><summary>{len(values)} values</summary>\n\n{table}\n\n</details>"


def _comparisons(sweep: Sweep, judged: Sequence[Judged]) -> str:
    word = sweep_word(sweep)
    parts = [f"Over all rows{word}."] if word else []
    for one in judged:
        if one.setting:
            parts.append(f"### {harmless(one.setting)}")
        if one.comparisons:
            parts.append(comparison_table(one))
            parts.extend(_mcnemar(one))
        parts.extend(f"- {harmless(problem)}" for problem in one.problems)
    return "\n\n".join(parts)


def _mcnemar(one: Judged) -> list[str]:
    lines = []
    for name, found in one.comparisons.items():
        counts = found.mcnemar
        line = (
            f"- {harmless(name)}: {counts['gained']} answers became right and {counts['lost']} wrong "
            f"(McNemar p {p_text(counts.get('p_value'))}, rows taken as independent)"
        )
        dropped = found.dropped_baseline + found.dropped_candidate
        if dropped:
            line += f"; {dropped} predictions without a partner left out"
        lines.append(line)
    return ["\n".join(lines)]


def _keep_records(
    sweep: Sweep, places: Places, experiment: Experiment, judged: Sequence[Judged]
) -> None:
    """Copy what the page is made of beside it, byte for byte, and drop what it no longer shows."""
    folder = places.records(sweep.name)
    kept = set()
    for cell in sweep.cells:
        target = folder / cell.record.hash[:16]
        kept.add(target.name)
        if cell.path.resolve() == target.resolve():
            continue
        names = [PREDICTIONS] if cell.record.predictions is not None else []
        # A server's answers, with the latency and the errors of every request: the record names the file.
        answers = cell.record.cost.get("requests", {}).get("file")
        further = [FIT_PREDICTIONS, *([answers] if answers else [])]
        names += [name for name in further if (cell.path / name).is_file()]
        write_atomic_all(
            {target / name: (cell.path / name).read_bytes() for name in [*names, RECORD]}
        )
    for old in folder.iterdir():
        # Only what an earlier page put here: the manifest lists the sweeps that are gone.
        if old.is_dir() and old.name not in kept and (old / RECORD).exists():
            shutil.rmtree(old)
    manifest = {
        "experiment": sweep.experiment,
        "group": sweep.group,
        "finished": sweep.newest,
        "title": experiment.title,
        "question": experiment.question or experiment.hypothesis,
        "verdict": verdict_summary(judged),
        "superseded": sweep.superseded,
    }
    write_atomic(folder / MANIFEST, json_text(manifest).encode("utf-8"))
