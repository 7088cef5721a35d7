"""From a recorded run, a configuration or overrides to a `Decider`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import DictConfig, OmegaConf

from reflex.config import RootConfig, conf_dir, register
from reflex.errors import ConfigError, RecordError
from reflex.messages import USER_ERRORS, one_line
from reflex.remote.remote import remote_model

if TYPE_CHECKING:
    from reflex.decider import Decider
    from reflex.remote.client import RemoteDecider


def compose(overrides: Sequence[str] = ()) -> DictConfig:
    """The configuration that `python -m reflex.run <overrides>` would use. Raises ConfigError."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir

    register()
    try:
        with initialize_config_dir(version_base="1.3", config_dir=str(conf_dir())):
            return hydra_compose(config_name="config", overrides=list(overrides))
    except USER_ERRORS as error:
        raise ConfigError(one_line(error)) from error


def run_folder(run: str | Path, root: Path | None = None) -> Path:
    """The folder of a recorded run given as folder, hash or unique hash prefix. Raises RecordError.

    Hashes are looked up in `root` (default: REFLEX_RUNS, else `runs`); a full hash may be longer than
    the folder's name.
    """
    path = Path(run)
    if (path / "record.json").is_file():
        return path
    root = root or Path(os.environ.get("REFLEX_RUNS", "runs"))
    # Folders are named by the first 16 digits of the hash.
    found = [
        each for each in sorted(root.glob(f"{str(run)[:16]}*")) if (each / "record.json").is_file()
    ]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(each.name for each in found)
        raise RecordError(f"run {run}: several records match ({names}); give more digits")
    raise RecordError(f"run {run}: neither a folder with a record.json nor a hash below {root}/")


def recorded_config(folder: Path, overrides: Sequence[str] = ()) -> DictConfig:
    """The configuration of a recorded run as it was resolved, with `key=value` overrides on top."""
    from reflex.tracking.record import read_record

    record = read_record(folder)
    cfg = OmegaConf.create(record.config)
    # A run that fitted its own calibration is served with exactly that one.
    if (folder / "calibration.json").is_file() and "path" in cfg.get("calibration", {}):
        cfg.calibration.path = cfg.calibration.path or str(folder)
    return OmegaConf.merge(cfg, OmegaConf.from_dotlist(list(overrides)))  # type: ignore[return-value]


def load_decider(run: str | Path | Sequence[str] | DictConfig) -> Decider | RemoteDecider:
    """See `reflex.load`."""
    if isinstance(run, str | Path):
        run = recorded_config(run_folder(run))
    elif not isinstance(run, DictConfig):
        run = compose(run)
    remote = remote_model(run)
    if remote is not None:
        from reflex.remote.client import RemoteDecider

        return RemoteDecider(remote)
    from reflex.build import build_decider

    return build_decider(run)


__all__ = ["RootConfig", "compose", "load_decider", "recorded_config", "run_folder"]
