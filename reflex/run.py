"""`python -m reflex.run`: compose a configuration, do its task, record, tell.

python -m reflex.run experiment=order_averaging          the sweep an experiment describes
python -m reflex.run orders=two benchmark.limit=20       one cell
python -m reflex.run task=equivalence backbone=tiny_qwen3
python -m reflex.run --help                              every axis and its values
"""

from __future__ import annotations

import os
import sys

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from hydra.utils import get_class, instantiate
from omegaconf import DictConfig

from reflex.config import register
from reflex.messages import one_line, say
from reflex.overrides import as_typed, composing_error, raised_by_composing
from reflex.places import conf_dir
from reflex.tasks import outcome
from reflex.tasks.base import Task
from reflex.tasks.check_config import check_config
from reflex.tasks.identity import Sweep, swept_overrides
from reflex.tasks.pages import close_sweep
from reflex.tasks.smoke import shrink


def cell(cfg: DictConfig) -> None:
    """One cell of a sweep, or the only one. Never lets an error stop the cells after it."""
    try:
        shrink(cfg)
        check_config(cfg)
        task: Task = instantiate(cfg.task)
        if task.run(cfg):
            outcome.fail()
    except Exception as error:
        outcome.fail(one_line(error))
        say(error, "error: ")
        if HydraConfig.get().mode is RunMode.MULTIRUN:
            _record_failure(cfg, error)
    outcome.hand_over(",".join(swept_overrides()))


def _record_failure(cfg: DictConfig, error: Exception) -> None:
    """Leave the failed cell's record; a disk that is full for this one too must not stop the sweep."""
    try:
        record = getattr(get_class(cfg.task._target_), "failed", None)
        if record is not None:
            record(cfg, error)
    except Exception as second:
        say(second, "error: the failure could not be recorded: ")


def main() -> int:
    """Entry point; returns the exit status, 1 when anything failed."""
    if {"-h", "--help"} & set(sys.argv[1:]):
        from reflex.usage import print_help

        print_help()
        return 0
    # Hydra reads nothing behind a flag that stands between overrides.
    words = sorted(as_typed(sys.argv[1:]), key=lambda word: word not in ("-m", "--multirun"))
    sys.argv[1:] = words
    os.environ["HYDRA_FULL_ERROR"] = "1"  # errors reach us, and we print them as one line
    outcome.reset()
    register()
    run = hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name="config")(cell)
    try:
        run()
    except outcome.CellFailed as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        outcome.fail()
        close_sweep()
    except Exception as error:
        if not raised_by_composing(error):
            raise
        print(f"error: {composing_error(error, words)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        told = "interrupted: what is finished is recorded; the same command continues with the rest"
        print(told, file=sys.stderr)
        return 130
    finally:
        Sweep.forget()
    return outcome.status


if __name__ == "__main__":
    # The module's own name: launchers then pickle `cell` by reference, not piece by piece.
    from reflex.run import main as run_main

    sys.exit(run_main())
