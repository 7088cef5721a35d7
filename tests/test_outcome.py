"""How a command ends: the page of every group it ran a cell of."""

from __future__ import annotations

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from reflex.tasks import outcome, pages
from reflex.tasks.identity import Sweep
from reflex.tracking.record import join_sweep, write_record
from tests.fake_records import fake_predictions, fake_record


def test_a_cell_that_two_experiments_share_is_on_both_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs, frame = tmp_path / "runs", fake_predictions()
    record = fake_record("one", frame)
    write_record(runs / "one", record, frame)
    shared = record.model_copy(update={"experiment": "styles", "group": "styles-1"})
    join_sweep(runs / "one", shared)
    monkeypatch.setattr(outcome, "cells", {})
    outcome.ran("averaging-1", runs / "one")
    outcome.ran("styles-1", runs / "one")

    places = OmegaConf.create({"runs_dir": str(runs), "results_dir": str(tmp_path / "results")})
    monkeypatch.setattr(pages, "_sweeping", places)
    monkeypatch.setenv("REFLEX_SWEEP", "")
    Sweep((), (), (), None).to_env()
    pages.close_sweep()
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("page: ")]
    assert len(set(told)) == 2
    assert ["averaging" in told[0], "styles" in told[1]] == [True, True]
