"""Published figures beside ours: accuracies others reported on the same subsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reflex.benchmarks.s1.board import SOURCES, source_of
from reflex.reporting.hand import harmless
from reflex.reporting.plots import COLOURS, MARKERS, MOST_CELLS, as_svg
from reflex.reporting.predictions import predictions_of
from reflex.reporting.sources import constant_answer
from reflex.reporting.tables import NOTHING, cell_labels, markdown_table, number
from reflex.reporting.words import sources, word_of
from reflex.tracking.record import Found

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CAUTION = (
    "Published figures are on the benchmark's own items. Ours are comparable with them where the word is "
    "`exact` without a count, and not where it is `stand-in`."
)


def compared(cells: Sequence[Found]) -> dict[str, Mapping[str, Any]]:
    """Source → its facts, for sources with published figures that at least one cell has rows of."""
    found: dict[str, Mapping[str, Any]] = {}
    for cell in cells:
        for name, facts in sources(cell.record).items():
            if facts.get("published") and name in cell.record.by.get("source", {}):
                found.setdefault(name, facts)
    return found


def published_table(cells: Sequence[Found]) -> str:
    """Systems by subset: our cells with their words, the majority answer, then what was published; empty without any.

    Published systems are sorted by their mean over the shown subsets, those with gaps last.
    """
    facts = compared(cells)
    if not facts:
        return ""
    labels = cell_labels([cell.record for cell in cells])
    rows = []
    for cell, label in zip(cells, labels, strict=True):
        rows.append(
            [f"**{harmless(label)}**", "this page", *(_with_word(cell, name) for name in facts)]
        )
    rows.append(
        [
            "majority answer",
            "these rows",
            *(number(_majority(cells, name), 3) for name in facts),
        ]
    )
    systems = dict.fromkeys(system for each in facts.values() for system in each["published"])

    def rank(system: str) -> tuple[int, float]:
        known = [
            each["published"][system] for each in facts.values() if system in each["published"]
        ]
        return len(facts) - len(known), -sum(known) / len(known)

    for system in sorted(systems, key=rank):
        shown = (number(each["published"].get(system), 3) for each in facts.values())
        rows.append([harmless(system), source_of(system) or NOTHING, *shown])
    table = markdown_table(["system", "source", *map(harmless, facts)], rows, left=2)
    named = [
        f"- {name}: {where}" for name, where in SOURCES.items() if name in {r[1] for r in rows}
    ]
    return "\n\n".join([table, "\n".join(named)]) if named else table


def published_svg(cells: Sequence[Found]) -> bytes | None:
    """One line per subset: published accuracies in grey, the majority as a tick, our cells with intervals."""
    facts = compared(cells)
    if not facts:
        return None
    labels = cell_labels([cell.record for cell in cells])
    drawn = cells[:MOST_CELLS]
    places = {name: len(facts) - 1 - index for index, name in enumerate(facts)}

    def draw(figure: Figure) -> None:
        plot = figure.subplots()
        for name, each in facts.items():
            values = list(each["published"].values())
            plot.scatter(values, [places[name]] * len(values), s=14, color="#bbbbbb", zorder=1)
            if (majority := _majority(cells, name)) is not None:
                plot.plot(majority, places[name], marker="|", markersize=14, color="#555555")
        for index, cell in enumerate(drawn):
            shift = 0.22 * ((index + 1) / (len(drawn) + 1) - 0.5) * 2
            entries = {places[name] - shift: _accuracy(cell, name) for name in facts}
            _draw_cell(plot, entries, MARKERS[index], COLOURS[index], labels[index])
        plot.scatter([], [], s=14, color="#bbbbbb", label="published")
        plot.plot([], [], "|", markersize=10, color="#555555", label="majority answer")
        ticks = [f"{name} ({_words(cells, name)})" for name in facts]
        plot.set_yticks([places[name] for name in facts], ticks, fontsize="small")
        plot.set(xlabel="accuracy", xlim=(-0.02, 1.02), ylim=(-0.6, len(facts) - 0.4))
        figure.legend(loc="outside lower center", ncols=3, fontsize="small", frameon=False)

    return as_svg((6.4, 1.6 + 0.45 * len(facts)), draw)


def _draw_cell(
    plot: Axes, entries: Mapping[float, Mapping[str, Any]], marker: str, colour: str, label: str
) -> None:
    """One of our cells: an accuracy with its interval at each height that has one."""
    for height, entry in entries.items():
        value, low, high = (entry.get(key) for key in ("value", "low", "high"))
        if value is None:
            continue
        if low is not None and high is not None:
            plot.plot([low, high], [height] * 2, color=colour, linewidth=1)
        plot.plot(value, height, marker, color=colour, markersize=5)
    plot.plot([], [], marker, color=colour, label=label)


def _majority(cells: Sequence[Found], name: str) -> float | None:
    """What the best constant answer gets on a source's rows in the first cell that has some."""
    cell = next(cell for cell in cells if name in cell.record.by.get("source", {}))
    frame = predictions_of(cell)
    return constant_answer(frame[frame["source"] == name])[0]


def _with_word(cell: Found, name: str) -> str:
    value = _accuracy(cell, name).get("value")
    if value is None:
        return NOTHING
    return f"{number(value, 3)} ({harmless(word_of(sources(cell.record)[name]) or 'no word')})"


def _words(cells: Sequence[Found], name: str) -> str:
    """The words of a source over the cells that have rows of it: one may have read a part where another has not."""
    there = [cell.record for cell in cells if name in cell.record.by.get("source", {})]
    return "; ".join(dict.fromkeys(word_of(sources(each)[name]) or "no word" for each in there))


def _accuracy(cell: Found, name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = cell.record.by.get("source", {}).get(name, {}).get("accuracy", {})
    return found
