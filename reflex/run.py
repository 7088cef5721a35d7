"""`python -m reflex.run`: compose a configuration, do its task, record, tell.

    python -m reflex.run experiment=order_averaging          the sweep an experiment describes
    python -m reflex.run orders=two benchmark.limit=20       one cell
    python -m reflex.run task=equivalence backbone=tiny_qwen3
    python -m reflex.run --help                              every axis and its values
"""

from __future__ import annotations

import logging
import os
import sys

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from hydra.utils import instantiate
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from reflex.build import check_complete
from reflex.config import conf_dir, register
from reflex.errors import ReflexError
from reflex.tasks import outcome

log = logging.getLogger("reflex")


def cell(cfg: DictConfig) -> None:
    """One cell of a sweep, or the only one. Never lets an error stop the cells after it."""
    try:
        check_complete(cfg)
        if instantiate(cfg.task).run(cfg):
            outcome.fail()
    except (ReflexError, HydraException, OmegaConfBaseException) as error:
        outcome.fail()
        log.error("error: %s", one_line(error))
        if HydraConfig.get().mode is RunMode.MULTIRUN:
            from reflex.tasks.evaluate import record_failure

            record_failure(cfg, error)


def one_line(error: BaseException) -> str:
    """An error as one line naming file and key. Hydra nests its causes: the innermost knows the key."""
    parts: list[str] = []
    cause: BaseException | None = error
    while cause is not None:
        text = _first_lines([line.strip() for line in str(cause).splitlines() if line.strip()])
        if text and not any(text in part for part in parts):
            parts.append(text)
        cause = cause.__cause__
    return ": ".join(parts) or type(error).__name__


def _first_lines(lines: list[str]) -> str:
    """The line that says what is wrong, with the key or the valid options that Hydra puts below it."""
    if not lines:
        return ""
    text = lines[0].rstrip(":.")
    if lines[0].endswith(":") and len(lines) > 1:
        text = f"{text}: {lines[1]}"
    for before, line in zip(lines, lines[1:], strict=False):
        if line.startswith("full_key:"):
            text += f" ({line.removeprefix('full_key:').strip()})"
        if before.startswith("Available options in"):
            options = [word for word in line.split() if not word.endswith("_schema")]
            text += f"; available: {', '.join(options)}"
    return text


def main() -> None:
    """Entry point; exit status 1 when anything failed."""
    if {"-h", "--help"} & set(sys.argv[1:]):
        from reflex.usage import print_help

        print_help()
        return
    os.environ["HYDRA_FULL_ERROR"] = "1"  # errors reach us, and we print them as one line
    register()
    run = hydra.main(version_base="1.3", config_path=str(conf_dir()), config_name="config")(cell)
    try:
        run()
    except (HydraException, OmegaConfBaseException, ReflexError, YAMLError) as error:
        sys.exit(f"error: {one_line(error)}")
    except KeyboardInterrupt:
        sys.exit("interrupted: finished cells are recorded; the same command continues with the rest")
    sys.exit(outcome.status)


if __name__ == "__main__":
    main()
