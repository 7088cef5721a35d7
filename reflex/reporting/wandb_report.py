"""A sweep as a W&B Report: the page's text, and panels over the runs of its cells.

The spec is built without a network; with an account the report is published, else the spec is what there is.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reflex.errors import ConfigError, RecordError, brief
from reflex.files import write_atomic
from reflex.reporting.comparisons import judge_sweep
from reflex.reporting.page import page_sections
from reflex.reporting.sweep import Places, Sweep
from reflex.reporting.words import sweep_word
from reflex.tracking.config import WandbTracker, project_of, resolve_mode

if TYPE_CHECKING:
    from wandb_workspaces.reports.v2.interface import Report

BARS = ("nll", "brier", "accuracy", "total_variation", "ece_15", "flip_rate")
"""Summary keys that get a bar per run, where any cell has them."""

TABLE_COLUMNS = ("word", "accuracy", "nll", "brier", "ece_15", "cost/tokens_per_decision")


def write_wandb_report(sweep: Sweep, places: Places) -> Path:
    """Write the report's spec to `runs/pages/<name>.wandb.json`, publish it where that is possible, and say
    which in one line.

    Raises ConfigError without the extra `report`, RecordError for what cannot be written or published.
    """
    project, entity = where(sweep)
    online = resolve_mode(WandbTracker()) == "online"
    if online and entity is None:
        entity = _own_entity()
    # With an entity the library looks the project up, so offline there is none.
    report = build(sweep, places, project, (entity or "") if online else "")
    path = places.runs / "pages" / f"{sweep.name}.wandb.json"
    write_atomic(path, f"{json.dumps(spec_of(report), indent=2, ensure_ascii=False)}\n".encode())
    if online:
        try:
            print(f"published: {report.save().url}")
        except Exception as error:
            raise RecordError(
                f"{path}: written, but W&B refused the report ({brief(error)})"
            ) from error
    else:
        runs = places.runs / "wandb"
        print(
            f"not published (no account in use): `wandb login`, `wandb sync {runs}/offline-run-*`, then the "
            "same command without WANDB_MODE=offline"
        )
    return path


def spec_of(report: Report) -> dict[str, Any]:
    """What `report.save()` sends, as JSON."""
    # The library has no public way to see it (its `_spec` property fails in 0.4.13).
    model: Any = report._to_model()
    spec: dict[str, Any] = json.loads(model.model_dump_json(by_alias=True, exclude_none=True))
    return spec


def build(sweep: Sweep, places: Places, project: str, entity: str) -> Report:
    """The report: verdict and tables as on the page, then panels over the sweep's group."""
    wr = _workspaces()
    from wandb_workspaces import expr

    experiment = places.experiment(sweep)
    sections = page_sections(sweep, experiment, judge_sweep(sweep), places.page(sweep), [])
    blocks: list[Any] = []
    for section in sections:
        if section.heading is not None:
            blocks.append(wr.H2(text=section.heading))
        body = section.body if section.heading is not None else _without_title(section.body)
        blocks.append(wr.MarkdownBlock(text=_plain_links(body)))
        if section.heading == "Cells":
            runset = wr.Runset(
                entity=entity,
                project=project,
                name=sweep.group,
                filters=expr.And(
                    expr.Metric("Group") == sweep.group, expr.Metric("State") == "finished"
                ),
                pinned_columns=["run:displayName"],
                visible_columns=[f"summary:{name}" for name in TABLE_COLUMNS],
            )
            blocks.append(wr.H2(text="Runs"))
            blocks.append(wr.PanelGrid(runsets=[runset], panels=panels(sweep)))
    return wr.Report(
        project=project,
        entity=entity,
        title=experiment.title[:128],
        description=experiment.question or experiment.hypothesis,
        blocks=blocks,
        width="fluid",
    )


def panels(sweep: Sweep) -> list[Any]:
    """A bar per run for each metric, the reliability lines, and what differs between the runs."""
    wr = _workspaces()
    records, word = [cell.record for cell in sweep.finished], sweep_word(sweep)
    found: list[Any] = []
    for name in BARS:
        if any(name in record.metrics for record in records):
            place = wr.Layout(x=8 * (len(found) % 3), y=6 * (len(found) // 3), w=8, h=6)
            found.append(
                wr.BarPlot(title=f"{name}{word}", metrics=[wr.SummaryMetric(name)], layout=place)
            )
    below = 6 * ((len(found) + 2) // 3)
    reliability = wr.CustomChart(
        query={"summaryTable": {"tableKey": "reliability_plot_table"}},
        chart_name="wandb/line/v0",
        chart_fields={"x": "confidence", "y": "accuracy", "stroke": "name"},
        chart_strings={"title": f"Reliability{word}"},
        layout=wr.Layout(x=0, y=below, w=12, h=9),
    )
    comparer = wr.RunComparer(diff_only="split", layout=wr.Layout(x=12, y=below, w=12, h=9))
    return [*found, reliability, comparer]


def where(sweep: Sweep) -> tuple[str, str | None]:
    """(project, entity or None) that the newest cell was tracked in."""
    record = max((cell.record for cell in sweep.cells), key=lambda record: record.finished)
    tracker = record.config.get("tracker") or {}
    project = str(tracker.get("project") or WandbTracker().project)
    return project_of(project, record.debug), tracker.get("entity")


def _workspaces() -> Any:
    try:
        import wandb_workspaces.reports.v2 as wr
    except ImportError:
        raise ConfigError(
            "target=wandb needs wandb-workspaces: pip install 'reflex-systemone[report]'"
        ) from None
    return wr


def _own_entity() -> str:
    import wandb

    try:
        return str(wandb.Api().default_entity)
    except Exception as error:
        raise RecordError(
            f"W&B cannot be reached ({brief(error)}); WANDB_MODE=offline writes the spec alone"
        ) from error


def _without_title(text: str) -> str:
    return re.sub(r"\A# .*\n+", "", text)


def _plain_links(text: str) -> str:
    """Comments left out; links to files of the repository as their text, since W&B has no such files."""
    text = re.sub(r"^<!--[^\n]*-->[ ]*$\n*", "", text, flags=re.MULTILINE)
    return re.sub(r"\[([^\]]*)\]\((?!https?://)[^)]*\)", r"\1", text)
