"""Figures of a page, the same bytes for the same records."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from reflex.metrics import reliability
from reflex.reporting.predictions import predictions_of
from reflex.reporting.tables import cell_labels
from reflex.tracking.record import Found

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS = 10
MOST_CELLS = 6
"""More lines than this cannot be told apart; the first cells of the table are drawn."""

# Okabe and Ito's palette, distinguishable with colour-blind eyes and in print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = "osD^vP"


def reliability_svg(cells: Sequence[Found]) -> bytes | None:
    """Reliability diagram: accuracy against mean top probability in ten equal bins, per cell.

    Bars are Wilson intervals; below, the share of answers in each bin. None when no cell has an
    answer that can be right or wrong.
    """
    drawn = cells[:MOST_CELLS]
    labels = cell_labels([cell.record for cell in cells])
    tables = [
        (label, reliability(predictions_of(cell), bins=BINS))
        for label, cell in zip(labels, drawn, strict=False)  # every cell has a label, drawn or not
    ]
    tables = [(label, table) for label, table in tables if not table.empty]
    if not tables:
        return None

    def draw(figure: Figure) -> None:
        top, bottom = figure.subplots(2, 1, height_ratios=(3, 1), sharex=True)
        top.plot([0, 1], [0, 1], color="#888888", linewidth=1, linestyle="--")
        width = 1 / BINS / (len(tables) + 1)
        for index, (label, table) in enumerate(tables):
            colour = COLOURS[index]
            rates = table["accuracy"].to_numpy()
            bars: Any = [rates - table["low"].to_numpy(), table["high"].to_numpy() - rates]
            top.errorbar(
                table["confidence"],
                rates,
                yerr=[side.clip(min=0) for side in bars],
                color=colour,
                marker=MARKERS[index],
                markersize=4,
                linewidth=1.2,
                elinewidth=0.7,
                capsize=2,
                label=label,
            )
            share = table["n"] / table["n"].sum()
            place = table["left"] + width * (index + 1)
            bottom.bar(place, share, width=width, color=colour)
        top.set(ylabel="accuracy", xlim=(0, 1), ylim=(0, 1.02), title="Reliability")
        top.legend(loc="upper left", fontsize="small", frameon=False)
        bottom.set(xlabel="top probability (noul: max(p, 1 − p))", ylabel="share of answers")

    return as_svg((5.2, 6.0), draw)


def as_svg(size: tuple[float, float], draw: Callable[[Figure], None]) -> bytes:
    """The figure of `size` (inches) that `draw` fills, as SVG."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    # A fixed salt and no date: matplotlib otherwise draws random ids and the time into the file.
    with matplotlib.rc_context({"svg.hashsalt": "reflex", "svg.fonttype": "none"}):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure)
        sink = io.BytesIO()
        figure.savefig(sink, format="svg", metadata={"Date": None, "Creator": "reflex.report"})
    return sink.getvalue()
