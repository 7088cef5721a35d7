"""`calibration=global | type | type_readout | type_readout_band | transfer | position_prior | …`.

Without `path` the run fits on its own rows of split `fit` and is measured on the others; with it a file
written by `task=calibrate` (or the folder of a run) is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reflex.calibration import buckets
from reflex.checks import check_choice, check_count, check_not_negative
from reflex.errors import CalibrationError

if TYPE_CHECKING:
    import pandas as pd

    from reflex.calibration.fitted import Calibration

CONTENT_FREE = "content_free"
"""The prior that is estimated on no row of split `fit`."""


@dataclass
class Temperature:
    """buckets: rule of `reflex.calibration.buckets`; `none` fits no temperature (a prior alone).
    weighting: `rows`, `families`, or `transfer` (whichever carries over better to a family left out).
    min_rows: a bucket with fewer rows uses its parent.
    prior: position prior, `none`, `permuted` or `content_free`; prior_strength: how much of it is taken out;
    prior_questions: distinct questions that are asked of content-free states, at most.
    path, force: a calibration file, and whether to use one that was fitted for something else.
    allow: benchmark data it may be fitted on (reflex/tasks/clean.py)."""

    _target_: str = "reflex.calibration.temperature.Temperature"
    name: str = "type"
    buckets: str = "type"
    weighting: str = "rows"
    min_rows: int = 50
    prior: str = "none"
    prior_strength: float = 1.0
    prior_questions: int = 200
    path: str | None = None
    force: bool = False
    allow: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for key, value, known in (
            ("buckets", self.buckets, buckets.RULES),
            ("weighting", self.weighting, ("rows", "families", "transfer")),
            ("prior", self.prior, ("none", "permuted", CONTENT_FREE)),
        ):
            check_choice(f"calibration.{key}", value, known)
        check_count("calibration.min_rows", self.min_rows)
        check_count("calibration.prior_questions", self.prior_questions)
        check_not_negative("calibration.prior_strength", self.prior_strength)

    @property
    def fits(self) -> bool:
        """Whether this run has to fit it."""
        return self.path is None

    def load(self, here: Mapping[str, Any]) -> Calibration:
        """The calibration in `path`, checked against what it is used with (`fitted.identity`).

        Raises CalibrationError when there is none, it cannot be read, or it belongs to something else.
        """
        from reflex.calibration import fitted

        if self.path is None:
            raise CalibrationError(
                f"calibration={self.name} is not fitted: set calibration.path to a file made by "
                "task=calibrate, or evaluate a suite that has rows of split fit"
            )
        found = fitted.read(self.path)
        fitted.check(found, here, self.path, force=self.force)
        return found

    def fit(
        self,
        frame: pd.DataFrame,
        fitted_on: Mapping[str, Any] | None = None,
        content_free: pd.DataFrame | None = None,
    ) -> Calibration:
        """Fit on the rows of `frame`, all of split `fit`. `content_free`: predictions the prior is taken
        from when `prior=content_free`. Raises CalibrationError."""
        from reflex.calibration.fit import check_split, fit
        from reflex.calibration.prior import fit_prior

        check_split(frame)
        prior = None
        if self.prior != "none":
            source = frame if self.prior == "permuted" else content_free
            if source is None:
                raise CalibrationError(
                    "calibration.prior=content_free needs content-free predictions"
                )
            prior = fit_prior(source, self.prior, strength=self.prior_strength)
        return fit(
            frame,
            rule=self.buckets,
            weighting=self.weighting,
            min_rows=self.min_rows,
            name=self.name,
            prior=prior,
            fitted_on=fitted_on,
        )
